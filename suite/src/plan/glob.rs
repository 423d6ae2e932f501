//! Patterns over names and cases: `*` stands for any run of characters, `?` for one.

use super::model::{Case, CaseId, Point};

/// Whether a pattern over cases matches one of them.
///
/// A pattern is compared with `setup/workload`. Without brackets it matches every point of a
/// sweep; `[key=value,…]` behind the setup or the workload asks for points that have each of
/// these values, whatever their others are. A third part, `setup/workload/stream`, asks for
/// streams, which no pattern without it matches. Only `*` and `?` are special.
#[must_use]
pub fn case_matches(pattern: &str, id: &CaseId) -> bool {
    Pattern::new(pattern).is_some_and(|pattern| pattern.matches(id))
}

/// The same of a whole case, of which the pattern may name a stream: whoever wants that has to run
/// it all.
#[must_use]
pub fn case_is_wanted(pattern: &str, case: &Case) -> bool {
    let (whole, stream) = split_stream(pattern);
    let has = |wanted: &str| case.workload.streams.iter().any(|one| matches(wanted, &one.name));
    case_matches(whole, &case.id) && stream.is_none_or(has)
}

/// Whether `pattern` matches all of `text`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` stands, and how far it reaches so far: on a mismatch it takes one more.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, reach)) = star else { return false };
                star = Some((at, reach + 1));
                p = at + 1;
                t = reach + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// A pattern over cases, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern<'p> {
    /// Without its brackets.
    name: String,
    /// What the setup's point has to have.
    setup: Vec<&'p str>,
    /// What the workload's point has to have.
    workload: Vec<&'p str>,
    /// What either of them has to have, of a pattern that has no `/`.
    either: Vec<&'p str>,
    /// The streams that it is about; `None` for whole cases.
    stream: Option<&'p str>,
}

impl<'p> Pattern<'p> {
    /// `None` if its brackets are not in pairs at the ends of its parts: it matches nothing then.
    pub(super) fn new(pattern: &'p str) -> Option<Self> {
        let (pattern, stream) = split_stream(pattern);
        let Some((setup, workload)) = split(pattern) else {
            let (name, either) = brackets(pattern)?;
            let name = name.to_owned();
            return Some(Self { name, setup: Vec::new(), workload: Vec::new(), either, stream });
        };
        let (setup_name, setup) = brackets(setup)?;
        let (workload_name, workload) = brackets(workload)?;
        let name = format!("{setup_name}/{workload_name}");
        Some(Self { name, setup, workload, either: Vec::new(), stream })
    }

    pub(super) fn matches(&self, id: &CaseId) -> bool {
        let CaseId { setup, setup_point, workload, workload_point, stream } = id;
        let same_part = match (self.stream, stream) {
            (Some(pattern), Some(stream)) => matches(pattern, stream),
            (None, None) => true,
            _ => false,
        };
        same_part
            && self.matches_names(setup, workload)
            && self.setup.iter().all(|pair| has(setup_point, pair))
            && self.workload.iter().all(|pair| has(workload_point, pair))
            && self.either.iter().all(|pair| has(setup_point, pair) || has(workload_point, pair))
    }

    /// Whether it matches, whatever the points are.
    pub(super) fn matches_names(&self, setup: &str, workload: &str) -> bool {
        matches(&self.name, &format!("{setup}/{workload}"))
    }
}

/// Splits `setup[…]/workload[…]/stream` into what is of the case and the stream, if there is one.
pub(super) fn split_stream(case: &str) -> (&str, Option<&str>) {
    let Some((_, workload)) = split(case) else { return (case, None) };
    match split(workload) {
        Some((_, stream)) => (&case[..case.len() - stream.len() - 1], Some(stream)),
        None => (case, None),
    }
}

/// Splits `setup[…]/workload[…]` at the slash that stands outside of brackets.
pub(super) fn split(case: &str) -> Option<(&str, &str)> {
    let mut depth = 0_i32;
    let slash = case.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '[') - i32::from(*c == ']');
        *c == '/' && depth == 0
    });
    slash.map(|(at, _)| (&case[..at], &case[at + 1..]))
}

/// Splits `name[a=1,b=2]` into its name and what is in its brackets.
pub(super) fn brackets(part: &str) -> Option<(&str, Vec<&str>)> {
    let Some((name, inside)) = part.split_once('[') else {
        return (!part.contains(']')).then_some((part, Vec::new()));
    };
    let inside = inside.strip_suffix(']')?;
    let sound = !inside.is_empty() && !inside.contains(['[', ']']) && !name.contains(']');
    sound.then(|| (name, inside.split(',').collect()))
}

/// Whether a point has a value that `pair` matches.
pub(super) fn has(point: &Point, pair: &str) -> bool {
    point.0.iter().any(|(key, value)| matches(pair, &format!("{key}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(pairs: &[(&str, &str)]) -> Point {
        Point(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn id(setup: &[(&str, &str)], workload: &[(&str, &str)]) -> CaseId {
        CaseId {
            setup: "array".to_owned(),
            setup_point: point(setup),
            workload: "copy".to_owned(),
            workload_point: point(workload),
            stream: None,
        }
    }

    #[test]
    fn stars_and_question_marks_and_nothing_else() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "anything"),
            ("a*c", "ac"),
            ("a*c", "abcbc"),
            ("*-write", "async-write"),
            ("?rs", "lrs"),
            ("**b**", "abc"),
            ("é?", "éx"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", "ab"), ("a?", "a"), ("a*c", "abcd"), ("[ab]", "a"), ("a.c", "abc")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let text = "a".repeat(10_000);
        assert!(!matches(&format!("{}b", "*a".repeat(50)), &text));
    }

    #[test]
    fn a_pattern_without_brackets_matches_every_point() {
        let id = id(&[("chunk", "64KiB")], &[("block_size", "4KiB"), ("queue_depth", "8")]);
        for pattern in [
            "array/copy",
            "*",
            "*/copy",
            "array/*",
            "a*y",
            "array[chunk=64KiB]/copy",
            "array/copy[block_size=4KiB]",
            "array/copy[queue_depth=8,block_size=4KiB]",
            "*[queue_depth=?]",
            "*[chunk=*]",
            "array/copy[*=4KiB]",
            "array[chunk=64KiB]/copy[block_size=4KiB,queue_depth=8]",
        ] {
            assert!(case_matches(pattern, &id), "{pattern}");
        }
        for pattern in [
            "",
            "copy",
            "array",
            "array/copy[block_size=8KiB]",
            "array[block_size=4KiB]/copy",
            "array/copy[]",
            "array/copy[block_size=4KiB",
            "array/copyblock_size=4KiB]",
            "array/copy[[block_size=4KiB]]",
            "array/copy[block_size=4KiB]x",
        ] {
            assert!(!case_matches(pattern, &id), "{pattern}");
        }
    }

    #[test]
    fn a_case_matches_its_own_name() {
        let id = id(&[("disks", "4")], &[("data", "compressible:50"), ("offset", "25%")]);
        assert!(case_matches(&id.to_string(), &id));
    }
}
