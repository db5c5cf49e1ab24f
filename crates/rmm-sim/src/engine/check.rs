//! The checks: every access must happen after the accesses that it conflicts with, and lie within
//! an allocation.
//!
//! This is a happens-before race detector with vector clocks (Lamport 1978; Mattern 1989). As
//! `FastTrack` (Flanagan and Freund, 2009) and `ThreadSanitizer` do, it keeps for each range of
//! bytes the last write and the reads since, and compares each new access with those. The parties
//! are streams and the host instead of threads:
//!
//! ```text
//! stream a   1 write x --- 2 record e --- 3 write y
//!                               \
//! stream b                  1 wait for e --- 2 read x --- 3 read y
//!
//! clock of stream b after its item 1: {a: 2}, the latest item of each stream that happens before
//! read x:  write x is item 1 of a, and 1 <= 2: ordered
//! read y:  write y is item 3 of a, and 3 > 2: a race, until an event is recorded after item 3
//! ```
//!
//! An access is checked when it is enqueued. Work on a stream happens after what the stream was
//! ordered after when the work was enqueued, and after everything that the host had seen complete
//! by then. The order is that of the program's calls, never that in which work happened to run.
//!
//! The host is one party: what one thread has waited for, the next call of any thread builds on.
#![forbid(unsafe_code)]

mod access;
mod handles;
mod mapped;
mod order;
mod report;
mod rights;
