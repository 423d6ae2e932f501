//! The look of the document: objects one field to a line, lists of figures on one line.
//!
//! A histogram's buckets are hundreds of numbers: one to a line would make a record that nobody
//! scrolls through, and everything on one line one that no tool compares. Keys stand in the order
//! of the types, so that the same record is the same text.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// Writes the layout described above.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The containers that are open at this point, outermost first.
    open: Vec<Container>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    /// A list so far without objects: on one line.
    Row,
    /// A list of objects, each of which starts on a line of its own.
    Column,
}

impl Layout {
    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        self.open.iter().try_for_each(|_| out.write_all(b"  "))
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, sign: &[u8]) -> io::Result<()> {
        if self.open.pop() != Some(Container::Row) {
            self.new_line(out)?;
        }
        out.write_all(sign)
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open.push(Container::Row);
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if let Some(list @ (Container::Row | Container::Column)) = self.open.last_mut() {
            *list = Container::Column;
            self.new_line(out)?;
        }
        self.open.push(Container::Object);
        out.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        self.new_line(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[test]
    fn figures_stand_in_rows_and_objects_in_columns() {
        #[derive(Serialize)]
        struct Outer {
            rows: Vec<(u32, u64)>,
            nothing: Vec<u32>,
            parts: Vec<Part>,
        }
        #[derive(Serialize)]
        struct Part {
            names: Vec<&'static str>,
            mean: Option<f64>,
        }
        let value = Outer {
            rows: vec![(1, 2), (3, 4)],
            nothing: Vec::new(),
            parts: vec![
                Part { names: vec!["a", "b"], mean: Some(0.1) },
                Part { names: vec![], mean: None },
            ],
        };
        let mut out = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut out, Layout::default());
        value.serialize(&mut writer).unwrap();
        let expected = r#"{
  "rows": [[1,2],[3,4]],
  "nothing": [],
  "parts": [
    {
      "names": ["a","b"],
      "mean": 0.1
    },
    {
      "names": [],
      "mean": null
    }
  ]
}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
