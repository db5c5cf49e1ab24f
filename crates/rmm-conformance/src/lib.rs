//! One conformance suite for every memory resource, run on the software device and on a GPU from
//! the same source.
//!
//! The [checks](suite) are functions over any resource; what they check is the contract in the
//! documentation of [`rmm_core`](rmm_core#stream-order), by its clauses. They check the contents
//! of memory, written and read by [kernels](Kernels) on the device, so an order that is missing
//! shows as words that another stream wrote.
//!
//! A [`Cell`] is where, on which stream and over which resource a check runs. The environment
//! chooses them:
//!
//! | variable | values | without it |
//! |---|---|---|
//! | `RMM_DRIVER` | `cuda`: the system's driver; `sim` | `sim` |
//! | `RMM_TEST_DEVICE` | the GPU's number | 0 |
//! | `RMM_TEST_STREAM` | `legacy`, `per-thread`, `non-blocking` | each of them |
//! | `RMM_TEST_RESOURCE` | a resource or adaptor by its name in `rmm-spec/src/stacks.rs` | each of them |
//! | `RMM_SIM_SEED` | the software device's seed | 0 |
//! | `RMM_STRESS_SECONDS` | how long each test of `stress` goes on, on each device | one short round |
//! | `RMM_WHOLE_DEVICE` | anything, if nothing else uses the GPU: checks take all its memory | they do not |
//! | `RMM_STRESS_SEED` | the seed of the first round | 0 |
//!
//! Where a device lacks what a resource needs, each check of that resource is that it says so when
//! it is made.
//!
//! ```sh
//! RMM_TEST_RESOURCE=pool RMM_SIM_SEED=7 cargo test -p rmm-conformance
//! ```
//!
//! ```text
//! above   its tests, and benches
//! here    rmm-conformance: the checks of every resource
//! below   rmm-spec > rmm-adaptors > rmm-resources > rmm-core > rmm-sys; rmm-sim
//! ```

#[macro_use]
mod list;

mod block;
mod counter;
mod environment;
mod erased;
mod failure;
mod kernel;
mod matrix;
mod random;
mod stream;
mod subject;
pub mod suite;

pub use block::CheckedBlock;
pub use counter::DeviceCounter;
pub use environment::{DeviceHandle, Environment, EnvironmentGuard, Place};
pub use erased::ErasedStack;
pub use failure::{CheckResult, Failure, ensure};
pub use kernel::Kernels;
pub use matrix::{Cell, is_supported, run_in};
pub use random::Random;
pub use stream::StreamChoice;
pub use subject::Subject;
