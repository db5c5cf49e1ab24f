//! A software device behind the CUDA driver's interface, for tests and for machines without a GPU.
//!
//! It implements the driver functions of [`rmm_sys::Driver`] in software. A [`Machine`] is a set of
//! simulated devices. A thread [enters](Machine::enter) a machine, and its driver calls go there.
//! Machines are independent, so tests that make one each do not affect each other.
//!
//! - Device memory faults when the host touches it. Pinned and managed memory fault once they are
//!   freed.
//! - Work on streams runs after it was enqueued, when a [`Schedule`] chooses it, in any order that
//!   streams and events allow.
//! - Memory pools reuse memory by the driver's rules. Where the
//!   [builder](MachineBuilder::attribute) enables it, pools are exported and imported between
//!   threads that stand for processes.
//! - Virtual memory is reserved, mapped and unmapped by the driver's rules, with access rights per
//!   device. Physical memory that is mapped at several addresses has one history. On Linux it is
//!   exported as a file descriptor, by which other processes map the same bytes, and [one
//!   count](MachineBuilder::shared) of a device's memory may be that of several processes.
//! - Calls and work take simulated [time](Machine::time), and the host's [waits](Machine::stalls)
//!   are counted.
//! - Any call can be made to [fail](Machine::fail), memory can run out, and the driver can be
//!   [shut down](Machine::kill).
//! - A kernel can [fail](Kernel::fails): its context is lost, as after an illegal address on a GPU.
//!   The driver's own call resets a primary context and frees all that is in it.
//! - [`check`] runs a test's program under many schedules, [`explore`] under every one that is
//!   possible, and [`fail_each_call`] with each of its driver calls failing in turn.
//! - Misuse that a GPU would not notice is reported: [violations](Machine::violations) and
//!   [leaks](Machine::leaks).
//!
//! The guide `docs/checking-stream-order.md` of the repository explains the checks with examples
//! that run.
//!
//! # Which machine a call goes to
//! A call goes to the first of these that exists:
//!
//! 1. the machine that a handle or an address among its arguments belongs to;
//! 2. the machine that the calling thread entered last;
//! 3. the machine whose context the calling thread made current last;
//! 4. the machine that [all threads entered](Machine::enter_all_threads);
//! 5. a default machine of the process, which is not checked.
//!
//! A thread that a test starts has entered no machine, and [`check`] fails if such a thread calls
//! the driver. `cuInit` holds for the process, as with a real driver. Contexts are current per
//! thread and machine. Calls that create an object in a context need a current one, and so do calls
//! on a default stream. Calls that name their context by a handle or an address do not.
//!
//! # What it does not do
//! - These return `NOT_SUPPORTED`, and the device attributes say so: legacy exports of memory and
//!   events (`cuIpc...`), virtual memory of the host, memory nodes of graphs, and device code. A
//!   module loads whatever its image is, and [`Machine::kernel`] registers the kernels that are
//!   found in it.
//! - Fabric handles are refused as by a GPU that is in no `NVLink` domain.
//! - The order between processes that share memory is not checked.
//! - Threads that share an exported pool are one process to the checks: what one of them waited for
//!   counts for all, and handles and addresses of one are valid for the others.
//! - Graphs are made by stream capture only. On a stream under capture, `cuMemAllocAsync` returns
//!   `NOT_SUPPORTED`, and kernels must be [repeatable](Kernel::repeatable). A launch runs a graph's
//!   nodes one after another in an order that the graph allows, so races between branches that are
//!   not joined are not found.
//! - Access of one device to the memory of another is checked for mapped memory and for kernels;
//!   fills of another device's memory are always allowed.
//! - Contexts are primary contexts; programs make others by `cuCtxCreate`, which `rmm-sim-cuda`
//!   has.
//! - Host functions and kernels run on a thread that makes a driver call, or [on one in the
//!   background](Machine::run_in_background). One that waits for what that thread does next
//!   deadlocks.

#![cfg(unix)]

mod api;
mod calls;
mod engine;
mod model;

#[doc(hidden)]
pub use api::attribute::TestOutcome;
pub use api::background::BackgroundGuard;
pub use api::checker::{Checker, check};
#[doc(hidden)]
pub use api::contexts::{
    context_flags, create_context, destroy_context, set_context_flags, set_primary_context_flags,
};
pub use api::entry::{AllThreadsGuard, MachineGuard, enter};
pub use api::explore::{Exploration, explore};
pub use api::fail_each::fail_each_call;
pub use api::install::{InstallError, driver, install};
pub use api::register::check_signature;
pub use engine::builder::MachineBuilder;
pub use engine::machine::Machine;
pub use model::attributes::AttributeError;
pub use model::costs::Costs;
pub use model::fault::Fault;
pub use model::kernel::{Kernel, KernelMemory};
pub use model::kernels::{KernelCall, KernelScalar};
pub use model::operation::Operation;
pub use model::schedule::Schedule;
pub use model::sim_time::Stalls;
pub use model::trace::{Leak, LeakKind, TraceEntry};
pub use model::violation::{Access as ViolationAccess, MissingOrder, Violation, ViolationKind};

/// Turns a function into a test that [`check`] runs on a fresh machine under each of several
/// schedules. The function takes the machine or nothing, and returns nothing or a `Result`; an
/// error fails the test. Options have the names of [`Checker`]'s methods.
///
/// ```
/// use rmm_sim::{Machine, Schedule};
///
/// #[rmm_sim::test]
/// fn the_pipeline_is_in_order(gpu: &Machine) {
///     // the program
/// }
///
/// #[rmm_sim::test(
///     machine = Machine::builder().devices(2), schedules = [Schedule::Lazy], leaks = false
/// )]
/// fn two_devices_are_found() -> Result<(), rmm_sys::CuResult> {
///     let mut count = 0;
///     // SAFETY: `count` is valid for a write.
///     unsafe {
///         rmm_sim::driver().cuInit(0).result()?;
///         rmm_sim::driver().cuDeviceGetCount(&mut count).result()?;
///     }
///     assert_eq!(count, 2);
///     Ok(())
/// }
/// ```
pub use rmm_sim_macros::test;
