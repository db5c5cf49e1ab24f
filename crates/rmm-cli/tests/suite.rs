//! The crate from outside: reading logs, the table, the report, and writing files.

#[path = "suite/common.rs"]
mod common;
#[path = "suite/output.rs"]
mod output;
#[path = "suite/presentation.rs"]
mod presentation;
#[path = "suite/program.rs"]
mod program;
#[path = "suite/real_traces.rs"]
mod real_traces;
#[path = "suite/trace_errors.rs"]
mod trace_errors;
#[path = "suite/trace_events.rs"]
mod trace_events;
#[path = "suite/trace_properties.rs"]
mod trace_properties;
