//! The crate from outside: reading logs, replays, the table, the report, writing files, and the
//! program.

#[path = "suite/check_blocks.rs"]
mod check_blocks;
#[path = "suite/check_ends.rs"]
mod check_ends;
#[path = "suite/check_program.rs"]
mod check_program;
#[path = "suite/common.rs"]
mod common;
#[path = "suite/installed.rs"]
mod installed;
#[path = "suite/linking.rs"]
mod linking;
#[path = "suite/logging.rs"]
mod logging;
#[path = "suite/output.rs"]
mod output;
#[path = "suite/presentation.rs"]
mod presentation;
#[path = "suite/program.rs"]
mod program;
#[path = "suite/program_convert.rs"]
mod program_convert;
#[path = "suite/program_doctor.rs"]
mod program_doctor;
#[path = "suite/program_replay.rs"]
mod program_replay;
#[path = "suite/program_report.rs"]
mod program_report;
#[cfg(target_os = "linux")]
#[path = "suite/program_serve.rs"]
mod program_serve;
#[path = "suite/program_tune.rs"]
mod program_tune;
#[cfg(target_os = "linux")]
#[path = "suite/program_watch.rs"]
mod program_watch;
#[path = "suite/real_replays.rs"]
mod real_replays;
#[path = "suite/real_traces.rs"]
mod real_traces;
#[path = "suite/replay_faults.rs"]
mod replay_faults;
#[path = "suite/snapshots.rs"]
mod snapshots;
#[path = "suite/trace_columns.rs"]
mod trace_columns;
#[path = "suite/trace_errors.rs"]
mod trace_errors;
#[path = "suite/trace_events.rs"]
mod trace_events;
#[path = "suite/trace_properties.rs"]
mod trace_properties;
