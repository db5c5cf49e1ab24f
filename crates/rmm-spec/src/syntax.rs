//! The parser: names, upstreams and options, without their meaning.

use crate::error::Fault;
use crate::lexer::{Lexer, Token};

/// A name with what is in its parentheses.
#[derive(Clone, Debug)]
pub(crate) struct Call<'t> {
    pub(crate) name: &'t str,
    pub(crate) offset: usize,
    /// Where its last argument ends: the place of what is missing.
    pub(crate) end: usize,
    pub(crate) upstreams: Vec<Call<'t>>,
    pub(crate) options: Vec<Setting<'t>>,
}

/// An option and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'t> {
    pub(crate) name: &'t str,
    pub(crate) offset: usize,
    pub(crate) value: &'t str,
    pub(crate) value_offset: usize,
}

/// The largest depth of a stack: the text is untrusted, and the parser is recursive.
const DEPTH: usize = 64;

pub(crate) fn parse(text: &str) -> Result<Call<'_>, Fault> {
    let mut lexer = Lexer::new(text);
    let (offset, token) = lexer.next()?;
    let Token::Word(name) = token else {
        return Err(Fault::at(offset, "expected the name of a resource"));
    };
    let call = call(&mut lexer, name, offset, DEPTH)?;
    match lexer.next()? {
        (_, Token::End) => Ok(call),
        (offset, _) => Err(Fault::at(offset, "expected the end")),
    }
}

fn call<'t>(
    lexer: &mut Lexer<'t>,
    name: &'t str,
    offset: usize,
    depth: usize,
) -> Result<Call<'t>, Fault> {
    let end = offset + name.len();
    let mut call = Call { name, offset, end, upstreams: Vec::new(), options: Vec::new() };
    if lexer.peek()?.1 != Token::Open {
        return Ok(call);
    }
    let (open, _) = lexer.next()?;
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::at(open, format!("more than {DEPTH} resources over each other")));
    };
    if let (close, Token::Close) = lexer.peek()? {
        lexer.next()?;
        call.end = close;
        return Ok(call);
    }
    loop {
        argument(lexer, &mut call, depth)?;
        match lexer.next()? {
            (_, Token::Comma) => {}
            (close, Token::Close) => {
                call.end = close;
                return Ok(call);
            }
            (offset, _) => return Err(Fault::at(offset, "expected `,` or `)`")),
        }
    }
}

fn argument<'t>(lexer: &mut Lexer<'t>, parent: &mut Call<'t>, depth: usize) -> Result<(), Fault> {
    let (offset, token) = lexer.next()?;
    let Token::Word(name) = token else {
        return Err(Fault::at(offset, "expected a resource or an option"));
    };
    if lexer.peek()?.1 != Token::Equals {
        parent.upstreams.push(call(lexer, name, offset, depth)?);
        return Ok(());
    }
    lexer.next()?;
    match lexer.next()? {
        (value_offset, Token::Word(value)) => {
            parent.options.push(Setting { name, offset, value, value_offset });
            Ok(())
        }
        (quote, Token::Quoted(value)) => {
            parent.options.push(Setting { name, offset, value, value_offset: quote + 1 });
            Ok(())
        }
        (offset, _) => Err(Fault::at(offset, format!("expected the value of `{name}`"))),
    }
}
