//! The set-up of a round trip: pinned host memory, a stream and device memory.

use std::ffi::c_void;

use rmm_adaptors::PoolMemoryResource;
use rmm_cli::device::{AnyDevice, OpenDevice};
use rmm_conformance::Kernels;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, Device, StreamFlags, current_driver};
use rmm_resources::CudaMemoryResource;
use rmm_sys::{CuDevicePtr, CuMemPool, CuMemPoolAttribute, Driver};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// When the memory of the device is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Before the first trip: from a pool, and by `cuMemAlloc`.
    Once,
    /// In each trip, which frees it too: from a pool, and by `cuMemAllocAsync` from the device's
    /// default pool, which keeps what is freed.
    EachTrip,
}

/// What the trips go through.
pub(super) struct Route {
    pub(super) driver: &'static Driver,
    pub(super) kernels: Kernels,
    pub(super) stream: CudaStream,
    pub(super) words: u32,
    pub(super) pool: PoolMemoryResource,
    pub(super) source: PinnedVec<u32>,
    pub(super) target: PinnedVec<u32>,
    /// The vector that was allocated once, if that was asked for.
    pub(super) vector: Option<DeviceUVector<u32>>,
    /// Where it all is, for raw calls.
    ///
    /// # Invariant
    /// The memory of `source`, `target` and `vector`, none of which is ever replaced.
    pub(super) places: Places,
}

#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) source: *const c_void,
    pub(super) target: *mut c_void,
    pub(super) vector: Option<CuDevicePtr>,
    /// Of each.
    pub(super) bytes: usize,
}

impl Route {
    /// Word `i` of the source is `i`.
    pub(super) fn new(device: &OpenDevice, words: u32, allocation: Allocation) -> Outcome<Self> {
        let driver = current_driver()?;
        let kernels = Kernels::load(&match device.handle() {
            AnyDevice::Software(machine) => rmm_conformance::DeviceHandle::Software(machine),
            AnyDevice::Gpu(gpu) => rmm_conformance::DeviceHandle::Gpu(gpu),
        })?;
        let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
        let len = usize::try_from(words)?;
        let source = PinnedVec::from_slice(&(0..words).collect::<Vec<_>>())?;
        let mut target = PinnedVec::<u32>::zeroed(len)?;
        let vector = match allocation {
            Allocation::Once => Some(DeviceUVector::uninit_in(len, &stream, &pool)?),
            Allocation::EachTrip => {
                keep_what_is_freed(driver)?;
                None
            }
        };
        let places = Places {
            source: source.as_slice()?.as_ptr().cast(),
            target: target.as_mut_slice()?.as_mut_ptr().cast(),
            vector: vector.as_ref().map(DeviceUVector::as_ptr),
            bytes: len * size_of::<u32>(),
        };
        Ok(Self { driver, kernels, stream, words, pool, source, target, vector, places })
    }
}

/// Sets the release threshold of the current device's default pool, which would otherwise release
/// freed memory at each synchronization.
fn keep_what_is_freed(driver: &Driver) -> Outcome {
    let (device, mut pool) = (Device::current()?.as_raw(), CuMemPool::NULL);
    // SAFETY: `pool` may be written to.
    unsafe { driver.cuDeviceGetMemPool(&raw mut pool, device) }.result()?;
    let mut all = u64::MAX;
    let value = (&raw mut all).cast::<c_void>();
    // SAFETY: the pool is the device's, and the value is a 64-bit number.
    unsafe { driver.cuMemPoolSetAttribute(pool, CuMemPoolAttribute::RELEASE_THRESHOLD, value) }
        .result()?;
    Ok(())
}
