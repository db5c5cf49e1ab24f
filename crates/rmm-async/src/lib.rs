//! Futures for CUDA streams: `await` the work that is enqueued on a stream, on any executor.
//!
//! - [`completed`] is ready when the work enqueued on a stream so far is complete. It reports work
//!   that failed.
//! - [`Completion::keep`] keeps a value until then, such as the buffers of the work, and yields it.
//! - [`download`] and [`upload`] copy between the host and the device and own what they copy from
//!   and to.
//!
//! ```
//! use rmm_async::{completed, download};
//! use rmm_containers::DeviceUVector;
//! use rmm_core::{CudaStream, Error};
//!
//! async fn squares(stream: &CudaStream) -> Result<Vec<u32>, Error> {
//!     let mut vector = DeviceUVector::from_fn(|i| i as u32, 4, stream)?;
//!     vector.set_element_async(0, 100)?; // or a kernel
//!     completed(stream)?.await?; // the thread does something else meanwhile
//!     download(vector.as_slice(), stream)?.await
//! }
//!
//! # let _machine = rmm_sim::enter();
//! let stream = CudaStream::new()?;
//! assert_eq!(smol::block_on(squares(&stream))?, [100, 1, 2, 3]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # How a task is woken
//!
//! 1. [`completed`] records an event and enqueues a host function behind it (`cuLaunchHostFunc`).
//! 2. `poll` queries the event. If the work is not complete, the task waits.
//! 3. The host function wakes the task, on a thread of the driver.
//! 4. A host function does not run after a fault. While any task waits, one thread of the process
//!    therefore queries the events of all of them every 5 ms, and wakes those whose event is
//!    complete or failed. It is parked while no task waits.
//!
//! Wakers are called on a thread of the driver, where calls of the driver are forbidden, but never
//! dropped there: an executor may drop the task with its last waker, and a task may own memory.
//!
//! # Dropping futures
//!
//! Dropping a future cancels no work. A [`Completion`] owns nothing that the device uses. The
//! buffers of a [`Keep`] that is dropped early go to the thread of step 4, which drops them when
//! the work is complete; [`wait_for_abandoned`] waits until it has. The buffers of a future that is
//! leaked are leaked.
//!
//! # Limits
//!
//! A stream that is being captured is refused: its work does not run. The software device
//! `rmm-sim` runs work when the driver is called, which the thread of step 4 does. In a test under
//! `rmm_sim::Checker`, set `enter_all_threads(true)`, so that this thread enters the machine.

/// The first page, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod completion;
mod copies;
mod host_function;
mod keep;
mod signal;
mod watcher;

pub use completion::{Completion, completed};
pub use copies::{Download, Upload, download, upload};
pub use keep::Keep;
pub use watcher::wait_for_abandoned;
