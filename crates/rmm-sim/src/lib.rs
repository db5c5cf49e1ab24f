//! A software device behind the CUDA driver's interface, for machines without a GPU and for tests.
//!
//! It fills the table of [`rmm_sys::Driver`] in software. A [`Machine`] is a set of devices; a
//! thread [enters](Machine::enter) one, and the driver calls that it makes go there. Machines are
//! independent, so tests that make one each do not see each other.
//!
//! - Device memory faults when the host touches it. Pinned and managed memory do not, until they
//!   are freed.
//! - Work on streams runs later than it is enqueued, at points that a [`Schedule`] chooses, in any
//!   order that streams and events allow.
//! - Memory pools follow the driver's rules for reuse. They are exported and imported, where the
//!   [builder](MachineBuilder::attribute) says so, between threads that stand for processes.
//! - Virtual memory is reserved, mapped, mapped again elsewhere and unmapped by the driver's rules,
//!   with rights for each device; what happens to one piece of memory under several addresses is
//!   known to be the same memory.
//! - Calls and work take simulated [time](Machine::time), and the host's [waits](Machine::stalls)
//!   are counted.
//! - Any call can be made to [fail](Machine::fail), memory runs out, and the driver can be
//!   [gone](Machine::kill).
//! - A kernel can [fail](Kernel::fails): its context is lost, as after an illegal address on a GPU.
//!   A primary context is reset by the driver's own call, which ends all that is in it.
//! - [`check`] runs a test's program under many schedules, [`explore`] on every course that it can
//!   take, and [`fail_each_call`] with each of its driver calls failing in turn.
//! - Misuse that would be silent on a device is told: [violations](Machine::violations),
//!   [leaks](Machine::leaks).
//!
//! The guide `docs/checking-stream-order.md` of the repository tells what the checks find and how a
//! test uses them, by examples that run.
//!
//! # Which machine a call is for
//! A handle or an address among the arguments names its machine. Otherwise it is the one that the
//! calling thread entered last; else that of the context which the thread last made current; else
//! the one that [all threads entered](Machine::enter_all_threads), if there is one; else a default
//! machine of the process. A thread that a test starts is on no machine until it enters one:
//! [`check`] fails if such a thread calls the driver. `cuInit` holds for the process, as it does
//! with a real driver. Contexts are current per thread and machine, and calls that make something
//! in a context need one, as does the use of a default stream, which is the context's; calls that
//! say by a handle or an address which one they mean do not.
//!
//! # What it does not do
//! Exported memory and events (`cuIpc...`, `cuMemExportToShareableHandle`), virtual memory of the
//! host, memory of other real processes, memory of graphs and device code return `NOT_SUPPORTED`,
//! and the attributes say so. The threads that share an exported pool are still of one process to
//! the checks: what a wait of one of them tells is known to all, and handles and addresses of one
//! work for the others. Graphs are made by stream capture only; `cuMemAllocAsync` on a stream that
//! is being captured returns `NOT_SUPPORTED`, and kernels have to be
//! [repeatable](Kernel::repeatable) there. A launch runs a graph's nodes one after another, in an
//! order that the graph allows, so that branches which use the same memory without being joined are
//! not found. Which device may use the memory of which is kept and told, and stops work on mapped
//! memory and kernels on any; fills of another device's memory are let through. Contexts are
//! primary ones; there is no `cuCtxCreate`. Host functions and kernels run on a thread that makes a
//! driver call, so one that waits for what that thread does next never ends.

#![cfg(unix)]

mod api;
mod calls;
mod engine;
mod model;

#[doc(hidden)]
pub use api::attribute::TestOutcome;
pub use api::checker::{Checker, check};
pub use api::entry::{AllThreadsGuard, MachineGuard};
pub use api::explore::{Exploration, explore};
pub use api::fail_each::fail_each_call;
pub use api::install::{InstallError, driver, install};
pub use engine::builder::MachineBuilder;
pub use engine::machine::Machine;
pub use model::costs::Costs;
pub use model::fault::Fault;
pub use model::kernel::{Kernel, KernelMemory};
pub use model::operation::Operation;
pub use model::schedule::Schedule;
pub use model::sim_time::Stalls;
pub use model::trace::{Leak, LeakKind, TraceEntry};
pub use model::violation::{Access as ViolationAccess, MissingOrder, Violation, ViolationKind};

/// Makes a function a test that [`check`] runs: on a fresh machine under each of several schedules.
/// It takes the machine or nothing, and returns nothing or a `Result`, of which an error fails the
/// test. Options have the names of [`Checker`]'s methods.
///
/// ```
/// use rmm_sim::{Machine, Schedule};
///
/// #[rmm_sim::test]
/// fn the_pipeline_is_in_order(gpu: &Machine) {
///     // what the program does
/// }
///
/// #[rmm_sim::test(machine = Machine::builder().devices(2), schedules = [Schedule::Lazy], leaks = false)]
/// fn two_devices_are_found() -> Result<(), rmm_sys::CuResult> {
///     let mut count = 0;
///     // SAFETY: `count` may be written.
///     unsafe {
///         rmm_sim::driver().cuInit(0).result()?;
///         rmm_sim::driver().cuDeviceGetCount(&mut count).result()?;
///     }
///     assert_eq!(count, 2);
///     Ok(())
/// }
/// ```
pub use rmm_sim_macros::test;
