//! Futures on the software device: executors, faults, and futures that are dropped.

#[path = "suite/dropped.rs"]
mod dropped;
#[path = "suite/executors.rs"]
mod executors;
#[path = "suite/faults.rs"]
mod faults;
#[path = "suite/harness.rs"]
mod harness;
#[path = "suite/many.rs"]
mod many;
