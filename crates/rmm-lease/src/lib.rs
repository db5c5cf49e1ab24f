//! The owner of a GPU's memory outside the processes that use it.
//!
//! An engine that crashes loses its weights, and loads them again for minutes. Here a process of
//! its own makes the memory, without a context on the GPU, and hands it out by file descriptors;
//! engines map what another one wrote. The protocol is V1 of NVIDIA's [GPU Memory
//! Service](https://github.com/ai-dynamo/dynamo/tree/main/lib/gpu_memory_service), so its client
//! works with this owner.
//!
//! - [`protocol`]: frames of `MessagePack`, each with at most one file descriptor. No input or
//!   output.
//! - [`State`]: which session may write or read, and what is allocated. The open socket is the
//!   lock.
//! - `Server`: an owner at a socket, on Linux. `Lease`: a session with it.
//! - `LeasedMemoryResource`: the memory of a session, mapped; it can be below a pool.
//!
//! ```rust
//! use rmm_lease::protocol::{Granted, Lock};
//! use rmm_lease::{SessionId, State};
//!
//! let mut owner: State<Vec<u8>> = State::new(1 << 30); // memory is anything that frees itself
//! let (writer, reader) = (SessionId(1), SessionId(2));
//! owner.request(writer, 100, Lock::Write);
//! owner.request(reader, 200, Lock::Read);
//! assert_eq!(owner.admit(), [(writer, Granted::Write)]);
//! owner.allocate(writer, "weights", 7, || Ok(vec![0; 7])).unwrap();
//! owner.commit(writer).unwrap(); // the writer becomes a reader
//! assert_eq!(owner.admit(), [(reader, Granted::Read)]);
//! owner.close(writer);
//! assert_eq!(owner.export(reader, "weights").unwrap().len(), 7);
//! ```

#[cfg(target_os = "linux")]
mod address;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod connection;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod memory;
pub mod protocol;
#[cfg(target_os = "linux")]
mod resource;
#[cfg(target_os = "linux")]
mod server;
mod state;
#[cfg(target_os = "linux")]
mod unforked;

#[cfg(target_os = "linux")]
pub use client::{Lease, LeaseError};
#[cfg(target_os = "linux")]
pub use resource::{LeasedMemoryResource, LeasedRange, NamedRange};
#[cfg(target_os = "linux")]
pub use server::{Server, ServerOptions};
pub use state::{Refusal, SessionId, State};
