//! The commands in README.md.

/// The two commands that README.md must name: a demonstration, and the tests.
pub(crate) const PROMISED: [&str; 2] = [
    "cargo run --release -p rmm-cli -- replay benches/traces/etl-streams.csv.gz",
    "cargo xtask test",
];

/// A line of a shell block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// Its number in the file, from 1.
    pub(crate) line: usize,
    /// The command, without prompt and trailing comment.
    pub(crate) text: String,
}

/// Every line of every `sh` block, in order.
pub(crate) fn commands(readme: &str) -> Vec<CommandLine> {
    let mut found = Vec::new();
    let mut fence = None;
    for (index, line) in readme.lines().enumerate() {
        let trimmed = line.trim();
        match (fence, trimmed.strip_prefix("```")) {
            (None, Some(language)) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            (Some("sh"), None) => {
                let command = trimmed.strip_prefix("$ ").unwrap_or(trimmed);
                let command = command.split(" #").next().unwrap_or_default().trim();
                if !command.is_empty() && !command.starts_with('#') {
                    found.push(CommandLine { line: index + 1, text: command.to_owned() });
                }
            }
            _ => {}
        }
    }
    found
}

/// The promised commands that are in no shell block.
pub(crate) fn missing(readme: &str) -> Vec<&'static str> {
    let commands = commands(readme);
    PROMISED
        .into_iter()
        .filter(|promised| !commands.iter().any(|command| command.text == *promised))
        .collect()
}

#[cfg(test)]
mod tests {
    //! Which lines are commands.

    use super::*;

    const README: &str = "\
# Title
cargo run in prose is no command

```sh
cargo xtask test           # the whole matrix
$ cargo run --release -p rmm-cli -- doctor
# only a comment

```
```rust
cargo run in another language
```
";

    #[test]
    fn only_lines_of_shell_blocks_are_commands() {
        let texts: Vec<_> =
            commands(README).into_iter().map(|command| (command.line, command.text)).collect();
        let expected = [(5, "cargo xtask test"), (6, "cargo run --release -p rmm-cli -- doctor")];
        assert_eq!(texts, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_promised_command_that_is_only_in_prose_is_missing() {
        assert_eq!(missing(README), [PROMISED[0]]);
        let complete = format!("{README}```sh\n{}\n```\n", PROMISED[0]);
        assert!(missing(&complete).is_empty());
        assert_eq!(missing(PROMISED[0]).len(), 2);
    }
}
