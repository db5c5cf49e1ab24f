//! RMM's allocation logs, their replay, and the page that shows what happened.
//!
//! | module | what it does |
//! |---|---|
//! | [`trace`] | reads the allocation logs that RMM writes, and snapshots of PyTorch |
//! | [`convert`] | writes them for Perfetto, for pprof, and as logs |
//! | [`replay`] | makes a trace's calls against a resource |
//! | [`snapshot`] | what a stack of resources holds at one moment |
//! | [`results`] | the data a replay produces, and its JSON |
//! | [`page`] | the HTML page of logs, of a replay or of a resource in use, and the answers on it |
//! | [`tune`] | the smallest memory in which a trace runs |
//! | `watch` | a socket by which others watch a running program (Linux) |
//!
//! Reading a log needs no device:
//!
//! ```
//! let log = "Thread,Time,Action,Pointer,Size,Stream\n\
//!            1,00:00:00.000001,allocate,0x1000,1000,0\n\
//!            1,00:00:00.000002,free,0x1000,1000,0\n";
//! let trace = rmm_report::trace::read_from("example.csv", log.as_bytes())?;
//! assert_eq!(trace.events.len(), 2);
//! assert_eq!(trace.peak_live_aligned, 1024);
//! # Ok::<(), rmm_report::trace::TraceError>(())
//! ```

#[doc(hidden)]
pub mod columns;
pub mod convert;
#[doc(hidden)]
pub mod format;
pub mod page;
pub mod replay;
pub mod resource;
pub mod results;
pub mod snapshot;
mod suballocators;
pub mod trace;
pub mod tune;
#[cfg(target_os = "linux")]
pub mod watch;
