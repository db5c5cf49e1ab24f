//! Telling code from comments and strings in Rust text, as far as counting words needs it.

/// The parts of a file's text. Both keep every line where it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The code, with comments and the contents of strings replaced by blanks.
    pub(super) code: String,
    /// The comments that are not documentation, with all else replaced by blanks.
    pub(super) comments: String,
}

/// Where the splitter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment { doc: bool },
    BlockComment { depth: usize, doc: bool },
    Text,
    RawText { hashes: usize },
}

/// Splits the text of a Rust file.
pub(super) fn split(text: &str) -> Parts {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) =
        (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, length) = step(state, &chars, at);
        // A token's characters belong to the state that it begins or ends.
        let here = if state == State::Code { next } else { state };
        for &c in &chars[at..at + length] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            code.push(if here == State::Code { c } else { blank });
            let comment = matches!(
                here,
                State::LineComment { doc: false } | State::BlockComment { doc: false, .. }
            );
            comments.push(if comment { c } else { blank });
        }
        state = next;
        at += length;
    }
    Parts { code, comments }
}

/// The state after the next token, and the number of characters of that token.
fn step(state: State, chars: &[char], at: usize) -> (State, usize) {
    let rest = &chars[at..];
    match state {
        State::Code => step_in_code(chars, at),
        State::LineComment { .. } if rest[0] == '\n' => (State::Code, 1),
        State::LineComment { .. } => (state, 1),
        State::BlockComment { depth, doc } => match rest {
            ['/', '*', ..] => (State::BlockComment { depth: depth + 1, doc }, 2),
            ['*', '/', ..] if depth == 1 => (State::Code, 2),
            ['*', '/', ..] => (State::BlockComment { depth: depth - 1, doc }, 2),
            _ => (state, 1),
        },
        State::Text => match rest {
            ['\\', _, ..] => (state, 2),
            ['"', ..] => (State::Code, 1),
            _ => (state, 1),
        },
        State::RawText { hashes } => {
            let closes =
                rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#');
            if closes { (State::Code, 1 + hashes) } else { (state, 1) }
        }
    }
}

fn step_in_code(chars: &[char], at: usize) -> (State, usize) {
    let rest = &chars[at..];
    match rest {
        ['/', '/', '/', '/', ..] => (State::LineComment { doc: false }, 4),
        ['/', '/', '/' | '!', ..] => (State::LineComment { doc: true }, 3),
        ['/', '/', ..] => (State::LineComment { doc: false }, 2),
        ['/', '*', mark, ..] => {
            (State::BlockComment { depth: 1, doc: matches!(mark, '*' | '!') }, 2)
        }
        ['"', ..] => (State::Text, 1),
        // A quote or a backslash in a character literal opens no string.
        ['\'', '\\', _, escape @ ..] => {
            let closing = escape.iter().position(|c| *c == '\'').map_or(0, |position| position + 1);
            (State::Code, 3 + closing)
        }
        ['\'', _, '\'', ..] => (State::Code, 3),
        ['r', ..] if at == 0 || !is_word(chars[at - 1]) || chars[at - 1] == 'b' => {
            let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
            match rest.get(1 + hashes) {
                Some('"') => (State::RawText { hashes }, 2 + hashes),
                _ => (State::Code, 1),
            }
        }
        _ => (State::Code, 1),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of code and the single marks between them, each with its line from 1.
pub(super) fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match rest.find(|c| !is_word(c)) {
                Some(0) => first.len_utf8(),
                Some(length) => length,
                None => rest.len(),
            };
            found.push((index + 1, &rest[..length]));
            rest = rest[length..].trim_start();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    //! Hard places of the language.

    use super::*;

    fn code(text: &str) -> String {
        split(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(code("a(); // unsafe {\nb(\"unsafe {\"); /* x /* y */ z */ c"), "a(); b( ); c");
        assert_eq!(
            code(r##"f(r#"a " b"#, br"x", "\"", '"', '\'', 'q')"##),
            r#"f( , b , , '"', '\'', 'q')"#
        );
    }

    #[test]
    fn an_escaped_character_ends_at_its_quote() {
        assert_eq!(
            code(r#"['\'',' ','"', '\u{1b}','"']; "text""#),
            r#"['\'',' ','"', '\u{1b}','"'];"#
        );
    }

    #[test]
    fn a_lifetime_opens_no_character() {
        assert_eq!(code("fn f<'a>(x: &'a str) { \"x\" }"), "fn f<'a>(x: &'a str) { }");
    }

    #[test]
    fn documentation_is_kept_apart_from_comments() {
        let comments =
            split("//! crate\n/// doc\n// SAFETY: one\n//// four\n/** doc */ /* plain */").comments;
        let kept: Vec<_> =
            comments.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(kept, ["// SAFETY: one", "//// four", "/* plain */"]);
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "a\n\"x\ny\"\n/* z\n */ b\n";
        assert_eq!(split(text).code.lines().count(), text.lines().count());
        assert_eq!(
            tokens("a.b\n\n unsafe{"),
            [(1, "a"), (1, "."), (1, "b"), (3, "unsafe"), (3, "{")]
        );
    }
}
