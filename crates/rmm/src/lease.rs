//! Memory of an owner outside the process, which outlives it: `rmm serve`.
//!
//! The guide `docs/serving-memory.md` has a program.

pub use rmm_lease::protocol::{AllocationRecord, Content, Granted, Identity, Lock, LockHolder};
pub use rmm_lease::{
    Lease, LeaseError, LeasedMemoryResource, LeasedRange, NamedRange, Refusal, Server,
    ServerOptions,
};
