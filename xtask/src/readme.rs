//! The commands in README.md, and those at the head of the pages for each language.

/// The tests.
pub(crate) const TESTS: &str = "cargo xtask test";

/// The two commands that README.md must name: a demonstration, and the tests.
pub(crate) const PROMISED: [&str; 2] =
    ["cargo run --release -p rmm-cli -- replay benches/traces/etl-streams.csv.gz", TESTS];

/// The pages whose first shell block runs their first program from a checkout. README.md has the
/// same lines, so what runs its commands has run theirs.
pub(crate) const PAGES: [&str; 5] = [
    "docs/containers.md",
    "crates/rmm-interop-cudarc/README.md",
    "docs/c.md",
    "docs/cpp.md",
    "docs/python.md",
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

/// The commands of the first shell block of a page that are none of README.md's.
pub(crate) fn missing_of_page(readme: &str, page: &str) -> Vec<CommandLine> {
    let known = commands(readme);
    let first = page.find("```sh\n").map_or("", |start| &page[start..]);
    let end = first[3.min(first.len())..].find("```").map_or(first.len(), |end| end + 6);
    let (mut missing, before) = (commands(&first[..end]), page.len() - first.len());
    missing.retain(|command| !known.iter().any(|known| known.text == command.text));
    for command in &mut missing {
        command.line += page[..before].lines().count();
    }
    if first.is_empty() {
        missing.push(CommandLine { line: 1, text: "a block of commands".to_owned() });
    }
    missing
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
    fn a_page_begins_with_commands_of_the_readme() {
        let page = |command: &str| format!("# P\n\n```sh\n{command}\n```\n```sh\nother\n```\n");
        assert_eq!(missing_of_page(README, &page("cargo xtask test # all")), []);
        let missing = CommandLine { line: 4, text: "cargo xtask tset".to_owned() };
        assert_eq!(missing_of_page(README, &page("cargo xtask tset")), [missing]);
        assert_eq!(missing_of_page(README, "# P\n").len(), 1);
    }

    #[test]
    fn a_promised_command_that_is_only_in_prose_is_missing() {
        assert_eq!(missing(README), [PROMISED[0]]);
        let complete = format!("{README}```sh\n{}\n```\n", PROMISED[0]);
        assert!(missing(&complete).is_empty());
        assert_eq!(missing(PROMISED[0]).len(), 2);
    }
}
