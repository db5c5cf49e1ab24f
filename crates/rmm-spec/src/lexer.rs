//! The lexer: words, quoted text and punctuation.

use crate::error::Fault;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Open,
    Close,
    Comma,
    Equals,
    End,
}

/// Tokens of a text, and where each begins.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    offset: usize,
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./%".contains(c)
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, offset: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<(usize, Token<'t>), Fault> {
        let rest = &self.text[self.offset..];
        let rest_trimmed = rest.trim_start();
        let start = self.offset + (rest.len() - rest_trimmed.len());
        let (length, token) = match rest_trimmed.chars().next() {
            None => (0, Token::End),
            Some('(') => (1, Token::Open),
            Some(')') => (1, Token::Close),
            Some(',') => (1, Token::Comma),
            Some('=') => (1, Token::Equals),
            Some('"') => {
                let inside = &rest_trimmed[1..];
                let end = inside.find('"');
                let end = end.ok_or_else(|| Fault::at(start, "this quote is never closed"))?;
                (end + 2, Token::Quoted(&inside[..end]))
            }
            Some(c) if is_of_word(c) => {
                let end = rest_trimmed.find(|c| !is_of_word(c)).unwrap_or(rest_trimmed.len());
                (end, Token::Word(&rest_trimmed[..end]))
            }
            Some(_) => return Err(Fault::at(start, "a character that means nothing here")),
        };
        self.offset = start + length;
        Ok((start, token))
    }

    /// The next token, which stays the next.
    pub(crate) fn peek(&self) -> Result<(usize, Token<'t>), Fault> {
        self.clone().next()
    }
}
