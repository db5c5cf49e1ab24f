//! The attribute `#[rmm_sim::test]`. Use it through `rmm-sim`, which documents it.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

/// An error in a use of the attribute, and its location.
type Wrong = (Span, &'static str);

/// Turns a function into a test that runs on fresh software devices; see `rmm_sim::test`.
#[proc_macro_attribute]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    expand(options, function).unwrap_or_else(compile_error)
}

/// The tokens that make the compiler report an error.
fn compile_error((span, text): Wrong) -> TokenStream {
    let error = code(&format!("::core::compile_error!({text:?});"));
    error.into_iter().map(|token| with_span(token, span)).collect()
}

fn with_span(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}

/// The parts of a function's source.
struct Function {
    /// Attributes and visibility.
    before: Vec<TokenTree>,
    name: Ident,
    parameters: Group,
    /// The return type, with its arrow.
    result: Vec<TokenTree>,
    body: Group,
}

impl Function {
    fn parse(function: TokenStream) -> Result<Self, Wrong> {
        let mut tokens = function.into_iter();
        let mut before = Vec::new();
        loop {
            match tokens.next() {
                None => return Err((Span::call_site(), "`#[rmm_sim::test]` is for functions")),
                Some(TokenTree::Ident(word)) if word.to_string() == "fn" => break,
                Some(TokenTree::Ident(word))
                    if ["async", "unsafe", "const", "extern"].contains(&&*word.to_string()) =>
                {
                    return Err((
                        word.span(),
                        "a test is a plain function: start an executor within it if it needs one",
                    ));
                }
                Some(token) => before.push(token),
            }
        }
        let (Some(TokenTree::Ident(name)), Some(next)) = (tokens.next(), tokens.next()) else {
            return Err((Span::call_site(), "a function has a name and parameters"));
        };
        let TokenTree::Group(parameters) = next else {
            return Err((next.span(), "a test has no generic parameters"));
        };
        let mut result: Vec<TokenTree> = tokens.collect();
        let Some(TokenTree::Group(body)) = result.pop() else {
            return Err((name.span(), "a test has a body"));
        };
        Ok(Self { before, name, parameters, result, body })
    }

    /// Whether the function takes the machine.
    fn takes_machine(&self) -> Result<bool, Wrong> {
        let parameters = split(self.parameters.stream());
        match &parameters[..] {
            [] => Ok(false),
            [_] => Ok(true),
            _ => Err((
                self.parameters.span(),
                "a test takes the machine (`gpu: &rmm_sim::Machine`) or nothing",
            )),
        }
    }
}

/// The parts between commas, except commas within angle brackets.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let (mut depth, mut after_dash) = (0_usize, false);
    for token in tokens {
        let sign = match &token {
            TokenTree::Punct(punct) => Some(punct.as_char()),
            _ => None,
        };
        match sign {
            Some('<') => depth += 1,
            Some('>') if !after_dash => depth = depth.saturating_sub(1),
            _ => {}
        }
        after_dash = sign == Some('-');
        if sign == Some(',') && depth == 0 {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// `name = value, ..` as calls of the checker's methods: `.name(value) ..`.
fn calls(options: TokenStream) -> Result<TokenStream, Wrong> {
    let mut calls = TokenStream::new();
    for option in split(options) {
        let span = option.first().map_or_else(Span::call_site, TokenTree::span);
        let wrong =
            (span, "options are `name = value`, by the names of `rmm_sim::Checker`'s methods");
        let mut tokens = option.into_iter();
        let Some(name @ TokenTree::Ident(_)) = tokens.next() else { return Err(wrong) };
        match tokens.next() {
            Some(TokenTree::Punct(sign)) if sign.as_char() == '=' => {}
            _ => return Err(wrong),
        }
        let value: TokenStream = tokens.collect();
        if value.is_empty() {
            return Err(wrong);
        }
        calls.extend([
            TokenTree::Punct(Punct::new('.', Spacing::Alone)),
            name,
            TokenTree::Group(Group::new(Delimiter::Parenthesis, value)),
        ]);
    }
    Ok(calls)
}

fn code(text: &str) -> TokenStream {
    text.parse().expect("the templates of this file are valid tokens")
}

fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream, Wrong> {
    let options = calls(options)?;
    let function = Function::parse(function)?;
    let run = if function.takes_machine()? {
        ".run(|machine| ::rmm_sim::TestOutcome::expect_success(program(machine)));"
    } else {
        ".run(|_| ::rmm_sim::TestOutcome::expect_success(program()));"
    };
    let mut body = code("fn program");
    body.extend([TokenTree::Group(function.parameters)]);
    body.extend(function.result);
    body.extend([TokenTree::Group(function.body)]);
    body.extend(code("::rmm_sim::Checker::new()"));
    body.extend(options);
    body.extend(code(run));
    let mut test = code("#[::core::prelude::v1::test]");
    test.extend(function.before);
    test.extend(code("fn"));
    test.extend([TokenTree::Ident(function.name)]);
    test.extend(code("()"));
    test.extend([TokenTree::Group(Group::new(Delimiter::Brace, body))]);
    Ok(test)
}
