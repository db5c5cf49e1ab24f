//! Traces in the formats of other viewers.
//!
//! | function | format | opened by |
//! |---|---|---|
//! | [`perfetto`] | Perfetto's protobuf trace | <https://ui.perfetto.dev>, beside traces of kernels |
//! | [`perfetto_of_replay`] | the same, with resources that it was replayed against | |
//! | [`pprof`] | pprof's profile, gzip | `go tool pprof`, speedscope, Perfetto, Pyroscope |
//! | [`csv`] | RMM's log, with all columns | RMM's tools, `rmm replay` |
//!
//! Bytes are those that were asked for, not rounded: the largest count of live bytes is
//! [`Trace::peak_live`](crate::trace::Trace::peak_live).

mod csv;
mod frames;
mod heap;
mod perfetto;
mod pprof;

pub use csv::csv;
pub use heap::{Moment, Usage, usage};
pub use perfetto::{perfetto, perfetto_of_replay};
pub use pprof::pprof;
