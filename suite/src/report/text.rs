//! Small words and layouts, and text that came from elsewhere made legible.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::units::acts;

/// At most `limit` characters, the last one an ellipsis where something was cut.
pub(super) fn clipped(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// Columns that a text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// Breaks a text into lines of at most `width` columns, between words; a word that is longer
/// than a line is cut where the line ends.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut rest = word;
        if used > 0 && used + 1 + columns(rest) > width {
            lines.push(String::new());
            used = 0;
        }
        while used == 0 && columns(rest) > width {
            let (head, tail) = rest.split_at(fitting(rest, width));
            lines.last_mut().expect("there is always a line").push_str(head);
            lines.push(String::new());
            rest = tail;
        }
        let line = lines.last_mut().expect("there is always a line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(rest);
        used += columns(rest);
    }
    lines
}

/// How many bytes of `text` fit into `width` columns, at least one character; rather up to a
/// sign that separates the parts of a name, where there is one in the second half.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let over = text.char_indices().find(|&(at, c)| {
        used += c.width().unwrap_or(0);
        used > width && at > 0
    });
    let Some((end, _)) = over else { return text.len() };
    let sign = text[..end].rfind(['/', ',', '-', ']', '_']).map(|at| at + 1);
    sign.filter(|at| *at > end / 2).unwrap_or(end)
}

/// A word of a shell command, quoted where it has to be. Controls take the `$'…'` form that bash
/// and zsh read, so that a command on the screen is what is run and does nothing before.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./=:,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.chars().any(acts) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut out = "$'".to_owned();
    for c in word.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            c if acts(c) => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    // Three octal digits: the form that ends by itself, whatever follows.
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out + "'"
}

/// A length of time as it is said: `850 ms`, `43 s`, `1 min 43 s`, `2 h 5 min`.
pub(super) fn elapsed(milliseconds: u64) -> String {
    let seconds = milliseconds.saturating_add(500) / 1000;
    match seconds {
        _ if milliseconds < 1000 => format!("{milliseconds} ms"),
        _ if milliseconds < 9950 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A count with its thousands apart: `69,831`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_and_monsters_are_cut() {
        assert_eq!(wrapped("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("abcdefghijklmnopqrst uv", 8), ["abcdefgh", "ijklmnop", "qrst uv"]);
        assert_eq!(wrapped("", 8), [""]);
        for line in wrapped("漢字漢字漢字漢字漢字 x", 8) {
            assert!(columns(&line) <= 8, "{line}");
        }
    }

    #[test]
    fn shell_words_survive_a_shell() {
        assert_eq!(shell_word("plans/first.toml"), "plans/first.toml");
        assert_eq!(shell_word("a/b[block_size=4KiB]"), "'a/b[block_size=4KiB]'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a\u{1b}'b"), "$'a\\033\\'b'");
        for word in ["plain", "it's $HOME `x` \\ \"", "a\u{1b}[0m\n\u{202e}'\\", "", "-x y*?"] {
            let script = format!("printf %s {}", shell_word(word));
            let Ok(run) = std::process::Command::new("bash").args(["-c", &script]).output() else {
                crate::testing::skip("shell_words_survive_a_shell", "no bash", "apt install bash");
                return;
            };
            assert_eq!(String::from_utf8_lossy(&run.stdout), word, "{script}");
        }
    }

    #[test]
    fn times_are_said() {
        let said: Vec<_> =
            [0, 850, 1500, 9960, 43_000, 59_600, 103_000, 7_500_000].map(elapsed).into();
        assert_eq!(
            said,
            ["0 ms", "850 ms", "1.5 s", "10 s", "43 s", "1 min 0 s", "1 min 43 s", "2 h 5 min"]
        );
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clipped("äöüß", 4), "äöüß");
        assert_eq!(clipped("äöüßx", 4), "äöü\u{2026}");
    }
}
