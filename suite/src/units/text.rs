//! Text that came from elsewhere, made harmless: nothing in it acts on the reader's screen.

use std::fmt::Write as _;

/// Whether a character would act on the reader's screen in place of being seen: controls, and
/// those that turn the direction of writing or join what stands around them.
#[must_use]
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

/// One line in which nothing acts: `ESC` becomes `\u{1b}`, as text.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if acts(c) => {
                // Writing into a string can't fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Several lines: as [`escaped`], but line ends and tabs stay.
#[must_use]
pub fn escaped_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\t').map(escaped).collect::<Vec<_>>().join("\t")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_is_left() {
        let nasty = "a\u{1b}[31mb\0c\u{202e}d\u{fffe}e\nf";
        assert_eq!(escaped(nasty), "a\\u{1b}[31mb\\u{0}c\\u{202e}d\\u{fffe}e\\nf");
        assert_eq!(escaped_lines("a\r\n\tb\rc\n"), "a\n\tb\\rc\n");
    }
}
