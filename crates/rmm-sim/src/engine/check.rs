//! The checks: is every use of memory ordered after what came before it, and within what was
//! allocated?
//!
//! The order is that of the program's calls, never that of the run: work on a stream is behind what
//! the stream was ordered behind when the work was enqueued, and behind all that the host had seen
//! complete by then. The host is one party: what a call of one thread learnt, the next call of any
//! thread may build on.
#![forbid(unsafe_code)]

mod access;
mod handles;
mod mapped;
mod order;
mod report;
mod rights;
