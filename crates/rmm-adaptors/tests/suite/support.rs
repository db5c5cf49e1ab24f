//! Helpers that most tests use: layouts, streams, kernels.

use std::alloc::Layout;

use rmm_adaptors::{ArenaMemoryResource, PoolMemoryResource};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamFlags, StreamRef};
use rmm_sim::{Kernel, Machine};

pub(crate) const MIB: usize = 1 << 20;

/// `count` MiB of device memory, in bytes.
pub(crate) const fn mib(count: u64) -> u64 {
    count << 20
}

pub(crate) type Pool = PoolMemoryResource;

pub(crate) type Arena = ArenaMemoryResource;

pub(crate) fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a size")
}

pub(crate) fn free<'a>(
    resource: &impl Resource,
    stream: impl Into<StreamRef<'a>>,
    pointer: DevicePtr,
    bytes: usize,
) {
    // SAFETY: every test allocates the block with this layout, and orders its uses before this
    // free.
    unsafe { resource.deallocate(stream.into(), pointer, layout(bytes)) }
}

/// A non-blocking stream.
pub(crate) fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// Enqueues work, so that the stream is busy until it is waited for.
pub(crate) fn keep_busy(machine: &Machine, stream: &CudaStream) {
    machine.launch(stream.as_raw(), Kernel::new("busy", |_| {})).expect("a launch");
}

/// Enqueues a write of `tag` to the first bytes of a block.
pub(crate) fn write(machine: &Machine, stream: &CudaStream, pointer: DevicePtr, tag: u64) {
    let kernel = Kernel::new("write", move |memory| {
        memory.write(pointer, &tag.to_le_bytes()).expect("declared memory");
    });
    machine.launch(stream.as_raw(), kernel.writes(pointer, 8)).expect("a launch");
}

/// Reads the first bytes of a block as they are now.
pub(crate) fn read(machine: &Machine, pointer: DevicePtr) -> u64 {
    let mut bytes = [0; 8];
    machine.read(pointer, &mut bytes).expect("device memory");
    u64::from_le_bytes(bytes)
}

/// The seed of the schedules of this run, from `RMM_SIM_SEED`.
pub(crate) fn base_seed() -> u64 {
    std::env::var("RMM_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}
