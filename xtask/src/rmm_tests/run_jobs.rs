//! Runs programs that were built, several at a time, and reads the driver's reports on them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use super::gtest::{Case, Outcome};
use super::libraries::take_reports;
use super::result::{Row, State};
use super::run_program::{Program, Ran, library_path};
use super::session::{Job, Session};

/// How many reports of the software device are shown.
const SHOWN: usize = 5;

/// Runs all programs, several at a time. The rows are in the order of the jobs.
pub(super) fn run(session: &Session, jobs: &[Job]) -> Vec<Row> {
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..session.builder.jobs.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let row = run_job(session, job, index);
                    println!("[{}/{}] run {}/{}", index + 1, jobs.len(), row.over, row.name);
                    rows.lock().unwrap_or_else(PoisonError::into_inner).insert(index, row);
                }
            });
        }
    });
    rows.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn run_job(session: &Session, job: &Job, index: usize) -> Row {
    let folder = session.folder.join(format!("runs/{index}"));
    let reports = folder.join("reports");
    // Of an earlier run.
    let _stays = fs::remove_dir_all(&folder);
    let _shows_later = fs::create_dir_all(&reports);
    let libraries =
        [session.folder.as_path(), &session.libraries.folder, &session.wheels.logger_folder()];
    let mut environment = vec![
        library_path(&libraries),
        ("RMM_SIM_REPORT", reports.display().to_string()),
        ("RMM_SIM_DEVICES", session.devices.to_string()),
    ];
    environment.extend(job.environment.iter().cloned());
    let program = Program {
        path: job.program.clone(),
        environment,
        folder,
        limit: session.limit,
        is_plain: job.is_plain,
    };
    let ran = program.run();
    let report = take_reports(&reports);
    let row =
        |state| Row { over: job.over.clone(), name: job.name.clone(), state, leaks: report.leaks };
    match ran {
        Ran::Unsupported(why) if job.may_be_unsupported => row(State::NotRun(why)),
        Ran::Unsupported(why) => row(State::Ran(vec![failure("(program)", &why)])),
        Ran::Cases(mut cases) => {
            if cases.len() < job.tests {
                let text = format!("{} of {} tests have a result", cases.len(), job.tests);
                cases.push(failure("(program)", &text));
            }
            cases.extend(stream_order(&report.violations));
            row(State::Ran(cases))
        }
    }
}

fn failure(name: &str, text: &str) -> Case {
    let (name, text, took) = (name.to_owned(), text.to_owned(), Duration::ZERO);
    Case { name, outcome: Outcome::Failed, text, took }
}

/// One failure for all that the software device reported on a program: most have one cause.
fn stream_order(violations: &[String]) -> Option<Case> {
    let first: Vec<&str> = violations.iter().take(SHOWN).map(String::as_str).collect();
    let count = violations.len();
    let text = format!("{}\n({count} reports of the software device)", first.join("\n"));
    (count > 0).then(|| failure("(stream order)", &text))
}

#[cfg(test)]
mod tests {
    //! Reports of the software device.

    use super::*;

    #[test]
    fn reports_of_the_device_are_one_failure() {
        assert_eq!(stream_order(&[]), None);
        let reports: Vec<String> = (0..9).map(|number| format!("report {number}")).collect();
        let case = stream_order(&reports).unwrap();
        assert_eq!((case.name.as_str(), case.outcome), ("(stream order)", Outcome::Failed));
        assert!(case.text.starts_with("report 0\nreport 1\n"), "{}", case.text);
        assert!(case.text.ends_with("(9 reports of the software device)"), "{}", case.text);
        assert_eq!(case.text.lines().count(), SHOWN + 1);
    }
}
