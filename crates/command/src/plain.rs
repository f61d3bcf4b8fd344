//! Text from elsewhere, shown to a person: what could move a cursor, start a new line or turn the
//! reading direction is spelt out, so that a file's name can pretend to be nothing else.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Whether a terminal or a reader of lines takes it for more than a letter.
fn is_dangerous(letter: char) -> bool {
    let separates_or_turns = matches!(
        letter,
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    letter.is_control() || separates_or_turns
}

/// The text in one line, each dangerous letter as Rust writes it: `\n`, `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_dangerous) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is_dangerous(letter) {
            true => match letter {
                '\n' | '\r' | '\t' => shown.extend(letter.escape_default()),
                other => shown.extend(other.escape_unicode()),
            },
            false => shown.push(letter),
        }
    }
    shown.into()
}

/// A path, for a person.
pub fn plain_path(path: &Path) -> String {
    plain(&path.to_string_lossy()).into_owned()
}

/// A line of JSON that means the same and has no dangerous letter in it: outside of texts there are
/// none.
pub fn plain_json(line: &str) -> Cow<'_, str> {
    if !line.contains(is_dangerous) {
        return line.into();
    }
    let mut shown = String::with_capacity(line.len() + 8);
    for letter in line.chars() {
        match is_dangerous(letter) {
            // All of them are in the first plane, so that one escape says each.
            true => write!(shown, "\\u{:04x}", u32::from(letter)).expect("memory takes text"),
            false => shown.push(letter),
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_name_is_one_line_and_moves_no_cursor() {
        assert_eq!(plain("/srv/größe 1.img"), "/srv/größe 1.img");
        assert_eq!(plain("a\nb\r\tc"), r"a\nb\r\tc");
        assert_eq!(plain("\u{1b}[2J\u{9b}m\u{7f}"), r"\u{1b}[2J\u{9b}m\u{7f}");
        assert_eq!(plain("x\u{202e}gmi\u{2028}"), r"x\u{202e}gmi\u{2028}");
        let name = Path::new(OsStr::from_bytes(b"d\xff\n.img"));
        assert_eq!(plain_path(name), "d\u{fffd}\\n.img");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"path": "a\u{9b}\u{202e}\u{7f}\n\u{1b}"});
        let line = value.to_string();
        let shown = plain_json(&line);
        assert!(!shown.contains(is_dangerous), "{shown}");
        let again: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(again, value);
    }
}
