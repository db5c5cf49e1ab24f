//! When to colour.

use std::ffi::OsString;

use clap::{ColorChoice, ValueEnum as _};

/// What `--color` says, found without the rest of the command line, so that errors about that obey
/// it; `auto` if it is not there or says nothing that is known.
pub fn color_choice(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut arguments =
        arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    let mut choice = None;
    while let Some(argument) = arguments.next() {
        choice = match argument.as_str() {
            // What follows belongs to a program.
            "--" => break,
            "--color" => arguments.next(),
            other => match other.strip_prefix("--color=") {
                Some(value) => Some(value.to_owned()),
                None => choice,
            },
        };
    }
    choice.and_then(|value| ColorChoice::from_str(&value, true).ok()).unwrap_or(ColorChoice::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_found_without_the_rest() {
        let choice = |line: &str| color_choice(line.split(' ').map(OsString::from));
        assert_eq!(choice("rmm replay --color never x"), ColorChoice::Never);
        assert_eq!(choice("rmm --color=always replay"), ColorChoice::Always);
        for line in
            ["rmm replay", "rmm --color", "rmm --color pink", "rmm check -- x --color never"]
        {
            assert_eq!(choice(line), ColorChoice::Auto, "{line}");
        }
    }
}
