//! `rmm check`.

use super::{BAD_INPUT, Ended};
use crate::args::CheckArgs;
#[cfg(target_os = "linux")]
use {
    super::{FAILURE, PROGRAM_FAILED, SUCCESS, VIOLATIONS},
    crate::check_program::{self, ProgramOutcome},
    crate::{deliver, style},
    rmm_report::page,
    serde::Serialize,
};

/// `rmm check`.
#[cfg(not(target_os = "linux"))]
pub fn check(_args: &CheckArgs) -> Ended {
    Ended::failed(BAD_INPUT, "rmm check needs Linux".to_owned())
}

/// `rmm check`.
#[cfg(target_os = "linux")]
pub fn check(args: &CheckArgs) -> Ended {
    if let Err(error) = deliver::check(&args.outputs) {
        return Ended::failed(BAD_INPUT, error);
    }
    let outcome = match check_program::run(args) {
        Ok(outcome) => outcome,
        Err(error) => return Ended::failed(BAD_INPUT, error.to_string()),
    };
    let is_clean = outcome.is_clean(!args.no_leaks);
    let mut is_whole = outcome.unchecked().is_empty();
    let mut messages = Vec::new();
    if is_whole && outcome.calls() == 0 {
        messages.push("nothing was checked: the program made no driver call".to_owned());
        is_whole = false;
    }
    let text = outcome.to_text(!args.no_leaks);
    let (message, own) = match outcome.status.code() {
        Some(0) => (None, SUCCESS),
        Some(code) => {
            (Some(format!("the program ended with status {code}")), status_of_program(code))
        }
        None => (Some(format!("the program was killed: {}", outcome.status)), FAILURE),
    };
    let (verdict, status) = match (is_clean, is_whole) {
        (false, _) => ("the program has errors", VIOLATIONS),
        (true, false) => ("not everything was checked", FAILURE),
        (true, true) => ("nothing was found", own),
    };
    messages.extend(message);
    let page = style::plain(&text);
    let written = deliver::write(
        &args.outputs,
        text,
        || deliver::to_json(&Findings::new(args, &outcome, verdict)),
        || page::render_check(&program_of(args).join(" "), verdict, &page),
    );
    Ended { text: String::new(), messages, status }.delivered(written)
}

#[cfg(target_os = "linux")]
fn program_of(args: &CheckArgs) -> Vec<String> {
    args.program.iter().map(|part| part.to_string_lossy().into_owned()).collect()
}

/// The findings as data.
#[cfg(target_os = "linux")]
#[derive(Debug, Serialize)]
struct Findings {
    program: Vec<String>,
    verdict: &'static str,
    program_status: Option<i32>,
    driver_calls: u64,
    violations: Vec<String>,
    leaks: Vec<String>,
    not_checked: Vec<String>,
}

#[cfg(target_os = "linux")]
impl Findings {
    fn new(args: &CheckArgs, outcome: &ProgramOutcome, verdict: &'static str) -> Self {
        let found = || outcome.found.iter();
        let leaks = found().filter(|_| !args.no_leaks);
        Self {
            program: program_of(args),
            verdict,
            program_status: outcome.status.code(),
            driver_calls: outcome.calls(),
            violations: found().flat_map(|found| found.violations.clone()).collect(),
            leaks: leaks.flat_map(|found| found.leaks.clone()).collect(),
            not_checked: outcome.unchecked(),
        }
    }
}

/// The status of `rmm check` for that of a program: the same, but for those that have a meaning
/// here.
#[cfg(target_os = "linux")]
fn status_of_program(code: i32) -> u8 {
    match u8::try_from(code) {
        Ok(own) if own > PROGRAM_FAILED => own,
        _ => PROGRAM_FAILED,
    }
}
