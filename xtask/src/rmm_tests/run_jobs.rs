//! Runs programs that were built, several at a time, and reads the driver's reports on them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, thread};

use super::case::Case;
use super::libraries::take_reports;
use super::result::{Row, State};
use super::run_program::{KERNELS, Program, attributes, library_path};
use super::session::{Job, Session};
use super::violations;

/// Runs all programs, several at a time. The rows are in the order of the jobs.
pub(super) fn run(session: &Session, jobs: &[Job]) -> Vec<Row> {
    in_parallel(session.builder.jobs, jobs.len(), |index| run_job(session, &jobs[index], index))
}

/// Makes the rows of `count` programs with so many threads, in the order of their indices.
pub(super) fn in_parallel(
    threads: usize,
    count: usize,
    run: impl Fn(usize) -> Row + Sync,
) -> Vec<Row> {
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let row = run(index);
                    println!("[{}/{count}] run {}/{}", index + 1, row.over, row.name);
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
        attributes(),
        (KERNELS.0, KERNELS.1.to_owned()),
        ("RMM_SIM_REPORT", reports.display().to_string()),
        ("RMM_SIM_DEVICES", session.devices.unwrap_or(job.devices).to_string()),
    ];
    environment.extend(job.environment.iter().cloned());
    let program = Program {
        path: job.program.clone(),
        environment,
        folder,
        limit: session.limit,
        is_plain: job.is_plain,
    };
    let mut cases = program.run();
    if cases.len() < job.tests {
        let text = format!("{} of {} tests have a result", cases.len(), job.tests);
        cases.push(Case::program_failed(&text));
    }
    let report = take_reports(&reports);
    cases.extend(violations::cases(&report.violations));
    let (over, name, state) = (job.over.clone(), job.name.clone(), State::Ran(cases));
    Row { over, name, state, leaks: report.leaks }
}
