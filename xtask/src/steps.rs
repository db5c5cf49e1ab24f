//! A list of steps that runs to its end, with a table of the results.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};

use crate::command::{WithCommand as _, describe};
use crate::error::Result;

/// The steps run so far. A failed step does not stop the next.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    /// Steps of other parts are neither run nor in the table.
    only: Option<Part>,
}

/// A part of `cargo xtask ci`, which is a job of its own in continuous integration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// What needs no tests to be built.
    Lints,
    /// All that is in no other part.
    Tests,
    /// The libraries for C and C++ programs.
    C,
    /// The Python package, pages in a browser, and the commands of README.md.
    Python,
}

impl Part {
    /// The part of a step: each has one.
    fn of(step: &str) -> Self {
        let begins = |names: &[&str]| names.iter().any(|name| step.starts_with(name));
        if begins(&["formatting", "tidy", "clippy", "dependencies"]) {
            Self::Lints
        } else if begins(&["test -p rmm-capi", "test -p rmm-preload", "rmm-tests, C++"]) {
            Self::C
        } else if begins(&["python", "browser", "rmm-tests, Python", "README.md"]) {
            Self::Python
        } else {
            Self::Tests
        }
    }
}

#[derive(Debug)]
struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Steps {
    /// The steps of one part, or of all.
    pub(crate) fn of(only: Option<Part>) -> Self {
        Self { done: Vec::new(), only }
    }

    /// Whether a step is run, or noted.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|part| part == Part::of(name))
    }

    /// Prints and runs a command; it passes if it exits with success.
    pub(crate) fn run(&mut self, name: impl Into<String>, command: &mut Command) {
        let line = describe(command);
        self.check(name, || {
            println!("$ {line}");
            let status = command.stdin(Stdio::null()).status().with_command(command)?;
            if status.success() { Ok(()) } else { Err(status.to_string().into()) }
        });
    }

    /// Runs a check that is a function of this program.
    pub(crate) fn check(&mut self, name: impl Into<String>, check: impl FnOnce() -> Result<()>) {
        let name = name.into();
        if !self.takes(&name) {
            return;
        }
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = match check() {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                let text = error.to_string();
                eprintln!("{name}: {text}");
                Outcome::Failed(text)
            }
        };
        self.done.push(Step { name, outcome, took: start.elapsed() });
    }

    /// Notes a step that there is no need to run, and why.
    pub(crate) fn skip(&mut self, name: impl Into<String>, why: impl Into<String>) {
        let (name, outcome) = (name.into(), Outcome::Skipped(why.into()));
        if self.takes(&name) {
            self.done.push(Step { name, outcome, took: Duration::ZERO });
        }
    }

    /// Prints the table of all steps.
    ///
    /// # Errors
    ///
    /// If any step failed; the error names those that did.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n{}", self.table());
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|step| matches!(step.outcome, Outcome::Failed(_)))
            .map(|step| step.name.as_str())
            .collect();
        match failed.as_slice() {
            [] => Ok(()),
            _ => Err(format!(
                "{} of {} steps failed: {}",
                failed.len(),
                self.done.len(),
                failed.join("; ")
            )
            .into()),
        }
    }

    fn table(&self) -> Table {
        let mut table = new_table(&["step", "result", "time"]);
        for step in &self.done {
            let (result, time) = match &step.outcome {
                Outcome::Passed => ("ok".to_owned(), seconds(step.took)),
                // The whole text stands above, where the step ran.
                Outcome::Failed(text) => {
                    (format!("FAILED: {}", first_line(text)), seconds(step.took))
                }
                Outcome::Skipped(why) => (format!("skipped: {why}"), "-".to_owned()),
            };
            table.add_row([step.name.clone(), result, time]);
        }
        table
    }
}

/// An empty table in the one look of all reports.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED).set_header(header);
    table
}

/// A duration for a table.
pub(crate) fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! What a run of steps reports.

    use clap::ValueEnum as _;

    use super::*;
    use crate::command::cargo;

    #[test]
    fn a_failed_step_does_not_stop_the_next_and_fails_the_run() {
        let mut steps = Steps::default();
        let mut reached = false;
        steps.check("one", || Err("broken\nin two lines".into()));
        steps.check("two", || {
            reached = true;
            Ok(())
        });
        steps.skip("three", "nothing to do");
        let table = steps.table().to_string();
        assert!(
            table.contains("FAILED: broken") && table.contains("skipped: nothing to do"),
            "{table}"
        );
        assert!(!table.contains("in two lines"), "the table stays narrow: {table}");
        assert_eq!(steps.finish().unwrap_err().to_string(), "1 of 3 steps failed: one");
        assert!(reached);
    }

    #[test]
    fn a_command_that_exits_with_failure_is_a_failed_step() {
        let mut steps = Steps::default();
        steps.run("bad", cargo().arg("no-such-subcommand-of-ours"));
        steps.run("good", cargo().arg("--version"));
        assert_eq!(steps.finish().unwrap_err().to_string(), "1 of 2 steps failed: bad");
    }

    #[test]
    fn steps_of_other_parts_are_not_run() {
        let mut steps = Steps::of(Some(Part::Lints));
        steps.check("tests", || Err("broken".into()));
        steps.skip("python", "there is none");
        steps.check("clippy rmm-x", || Ok(()));
        let names: Vec<&str> = steps.done.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["clippy rmm-x"]);
    }

    #[test]
    fn each_part_is_a_job() {
        let workflow = include_str!("../../.github/workflows/pull-request.yml");
        let parts = Part::value_variants().iter();
        let names: Vec<String> = parts.map(|part| format!("{part:?}").to_lowercase()).collect();
        let matrix = format!("part: [{}]", names.join(", "));
        assert!(workflow.contains(&matrix), "{matrix}");
    }

    #[test]
    fn nothing_failed_is_success() {
        let mut steps = Steps::default();
        steps.check("one", || Ok(()));
        assert!(steps.finish().is_ok());
    }
}
