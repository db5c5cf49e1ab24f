//! `rmm check`.

use super::{BAD_INPUT, Ended};
use crate::args::CheckArgs;
#[cfg(target_os = "linux")]
use {
    super::{FAILURE, PROGRAM_FAILED, SUCCESS, VIOLATIONS},
    crate::{check_program, output},
    rmm_report::html,
};

/// `rmm check`.
#[cfg(not(target_os = "linux"))]
pub fn check(_args: &CheckArgs) -> Ended {
    Ended::failed(BAD_INPUT, "rmm check needs Linux".to_owned())
}

/// `rmm check`.
#[cfg(target_os = "linux")]
pub fn check(args: &CheckArgs) -> Ended {
    if let Some(Err(error)) = args.report.as_deref().map(output::check) {
        return Ended::failed(BAD_INPUT, error.to_string());
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
    let mut ended = Ended { text, messages, status };
    if let Some(path) = &args.report {
        let program: Vec<_> = args.program.iter().map(|part| part.to_string_lossy()).collect();
        let page = html::render_check(&program.join(" "), verdict, &ended.text);
        if let Err(error) = output::write_atomically(path, page.as_bytes()) {
            ended.messages.push(error.to_string());
            ended.status = FAILURE;
        }
    }
    ended
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
