//! A program that exits with containers of every kind in a static and in a thread-local value.
//!
//! Their memory comes from pools, from the driver's pool, and from another library.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::Failure;
use rmm_containers::{DeviceBuffer, DeviceUVector, ElasticBuffer, PinnedVec};
use rmm_core::{AnyResource, CudaEvent, CudaStream, CudaStreamPool, DevicePtr, StreamFlags};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource, set_current_device_resource,
};

use super::program::{Held, machine};

/// Values that the exit handler drops, in this order: the containers first, the pools last.
#[expect(dead_code, reason = "the fields are only dropped")]
struct Kept {
    buffer: DeviceBuffer,
    vector: DeviceUVector<u32>,
    driver_buffer: DeviceBuffer,
    /// A copy from it to `vector` may be pending.
    pinned: PinnedVec<u32>,
    /// Committed pages, which the stream may be using.
    elastic: ElasticBuffer,
    /// A buffer in memory of another library.
    foreign: DeviceBuffer,
    /// The only handle to another such memory.
    foreign_resource: AnyResource,
    event: CudaEvent,
    stream: CudaStream,
    streams: CudaStreamPool,
    /// A pool that is also the device's current resource.
    pool: PoolMemoryResource,
    /// A pool without another handle.
    own_pool: PoolMemoryResource,
}

/// Whether an [`Owner`] was dropped, that is, foreign memory was freed.
static OWNER_WAS_DROPPED: AtomicBool = AtomicBool::new(false);

/// Stands for an object of another library that owns memory. It must not be dropped at the exit:
/// its destructor may call a driver that has shut down.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        OWNER_WAS_DROPPED.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static OF_THREAD: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Makes the values. `way` is how the program will exit.
pub(super) fn fill(way: &str) -> Result<Held, Failure> {
    let make = || PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20);
    let pool = make().build()?;
    set_current_device_resource(&pool)?;
    let from_driver = CudaAsyncMemoryResource::new()?;
    let streams = CudaStreamPool::new(2, StreamFlags::NON_BLOCKING)?;
    let stream = CudaStream::new()?;
    let event = CudaEvent::new()?;
    event.record(&stream)?;
    let mut buffer = DeviceBuffer::uninit_in(1000, &stream, &pool)?;
    buffer.fill(1)?;
    let of_thread = [
        DeviceBuffer::from_slice_in(b"thread", streams.get(), &pool)?,
        DeviceBuffer::from_slice_in(b"driver", streams.get(), &from_driver)?,
    ];
    OF_THREAD.with_borrow_mut(|kept| kept.extend(of_thread));
    let pinned = PinnedVec::from_slice(&[1, 2, 3])?;
    let vector = pinned.device_slice().to_device(&stream)?;
    let adopt = |owner: Owner| {
        // SAFETY: the memory is never used or freed.
        unsafe { DeviceBuffer::from_foreign(DevicePtr(1 << 20), 1000, &stream, |_| drop(owner)) }
    };
    let (foreign, parts) = (adopt(Owner)?, adopt(Owner)?.into_raw()?);
    // SAFETY: the memory is never used.
    let foreign_resource = unsafe { parts.into_resource() };
    let mut elastic = ElasticBuffer::reserve(16 << 20, &stream, &VirtualMemoryResource::new()?)?;
    elastic.commit(0..4 << 20)?;
    elastic.slice_mut(0..1000)?.fill_on(1, &stream)?;
    let kept = Kept {
        buffer,
        vector,
        pinned,
        elastic,
        driver_buffer: DeviceBuffer::uninit_in(1000, &stream, &from_driver)?,
        foreign,
        foreign_resource,
        event,
        stream,
        streams,
        pool,
        own_pool: make().build()?,
    };
    // Live blocks of the pool in the exit handler: those of `buffer` and `vector`. The thread-local
    // value was dropped before; its block is still live only if the driver was gone by then.
    let live = if way == "driver-first" && machine().is_some() { 3 } else { 2 };
    Ok(Held::new(move || {
        let statistics = kept.pool.statistics();
        let found = statistics.allocations - statistics.frees;
        drop(kept);
        let is_freed = OWNER_WAS_DROPPED.load(Ordering::Relaxed);
        if found != live || is_freed {
            return Err(format!(
                "{found} live blocks instead of {live}, foreign memory freed: {is_freed}"
            ));
        }
        Ok(())
    }))
}
