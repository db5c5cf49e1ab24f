//! Memory of rmm as storage of [NVIDIA Dynamo](https://github.com/ai-dynamo/dynamo), in the traits
//! of its crate `dynamo-memory`.
//!
//! | of rmm | storage | kind |
//! |---|---|---|
//! | [`DeviceBuffer`](rmm_containers::DeviceBuffer) | [`DeviceStorage`] | `StorageKind::Device` |
//! | [`PinnedVec`](rmm_containers::PinnedVec), or a [`HostVec`](rmm_containers::HostVec) over a pool of pinned memory | [`PinnedStorage`] | `StorageKind::Pinned` |
//!
//! Both are what Dynamo's own storage is: `Buffer` erases their type, `ArenaAllocator` cuts pages
//! out of them, and `NixlRegistered` registers them and deregisters before the memory goes back to
//! its resource.
//!
//! ```
//! use dynamo_memory::{ArenaAllocator, MemoryDescriptor};
//! use rmm_adaptors::PoolMemoryResource;
//! use rmm_containers::DeviceBuffer;
//! use rmm_core::CudaStream;
//! use rmm_interop_dynamo::DeviceStorage;
//! use rmm_resources::CudaMemoryResource;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let _machine = rmm_sim::enter();
//! let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
//! let blocks = DeviceBuffer::zeroed_in(64 << 20, &CudaStream::new()?, &pool)?;
//! let arena = ArenaAllocator::new(DeviceStorage::new(blocks)?, 2 << 20)?;
//! let page = arena.allocate(2 << 20)?;
//! assert_eq!(page.storage_kind().cuda_device_index(), Some(0));
//! # Ok(())
//! # }
//! ```
//!
//! # Registration
//! Network cards and other machines use registered memory in no stream's order. So a storage is
//! made after the host has waited for all work on it, and the program waits for the transfers
//! before it drops the storage. UCX and `cuFile` register memory over `cudaMalloc` as one piece; a
//! block of a pool over virtual memory may span several, which transports reject or copy slowly:
//! allocate storage to be registered from a pool over `CudaMemoryResource`.

#![forbid(unsafe_code)]

mod device;
mod pinned;

pub use device::DeviceStorage;
pub use pinned::PinnedStorage;
