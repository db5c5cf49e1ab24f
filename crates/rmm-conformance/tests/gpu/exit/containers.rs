//! Containers of all kinds in statics and in the values of threads, over pools and over memory of
//! another library.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::Failure;
use rmm_containers::{DeviceBuffer, DeviceUVector, PinnedVec};
use rmm_core::{AnyResource, CudaEvent, CudaStream, CudaStreamPool, DevicePtr, StreamFlags};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, set_current_device_resource};

use super::program::{Held, machine};

/// Values that are dropped at the very end, the pool last.
#[expect(dead_code, reason = "they are there to be dropped")]
struct Kept {
    buffer: DeviceBuffer,
    vector: DeviceUVector<u32>,
    driver_buffer: DeviceBuffer,
    /// A copy from it is pending.
    pinned: PinnedVec<u32>,
    /// Over memory of another library.
    foreign: DeviceBuffer,
    /// The last handle to such memory.
    foreign_resource: AnyResource,
    event: CudaEvent,
    stream: CudaStream,
    streams: CudaStreamPool,
    /// Also the current resource.
    pool: PoolMemoryResource,
    /// No other handle exists.
    own_pool: PoolMemoryResource,
}

/// Whether the other library's function was called, or its owner dropped.
static FREED: AtomicBool = AtomicBool::new(false);

/// The owner of memory of another library.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        FREED.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static OF_THREAD: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

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
    let kept = Kept {
        buffer,
        vector,
        pinned,
        driver_buffer: DeviceBuffer::uninit_in(1000, &stream, &from_driver)?,
        foreign,
        foreign_resource,
        event,
        stream,
        streams,
        pool,
        own_pool: make().build()?,
    };
    // The thread-locals are dropped when the thread ends, and free their memory if the driver has
    // not shut down.
    let live = if way == "driver-first" && machine().is_some() { 3 } else { 2 };
    Ok(Held::new(move || {
        let statistics = kept.pool.statistics();
        let (found, is_freed) =
            (statistics.allocations - statistics.frees, FREED.load(Ordering::Relaxed));
        drop(kept);
        if found != live || is_freed || FREED.load(Ordering::Relaxed) {
            return Err(format!("{found} live blocks, foreign memory freed: {is_freed}"));
        }
        Ok(())
    }))
}
