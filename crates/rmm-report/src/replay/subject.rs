//! The resource that a trace is replayed against, with its statistics.

use rmm_adaptors::{FixedSizeMemoryResource, PoolBlock, PoolMemoryResource, PoolStatistics};
use rmm_core::{AnyResource, Description, Device, Error, Introspect, Metric};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

/// A type-erased resource, and the figures of the resource at its top.
#[derive(Debug)]
pub struct Subject {
    /// The resource, called through the type-erased handle, as the parts of a program call it.
    pub resource: AnyResource,
    top: Top,
}

/// A handle to the resource at the top, if its type keeps figures.
#[derive(Debug)]
enum Top {
    Pool(PoolMemoryResource<CudaMemoryResource>),
    VirtualPool(PoolMemoryResource<VirtualMemoryResource>),
    FixedSize(FixedSizeMemoryResource<AnyResource>),
    CudaAsync(CudaAsyncMemoryResource),
    Other,
}

impl Subject {
    /// Finds out which figures the resource keeps.
    pub fn new(resource: AnyResource) -> Self {
        let pool = || Some(Top::Pool(PoolMemoryResource::clone(resource.downcast_ref()?)));
        let virtual_pool =
            || Some(Top::VirtualPool(PoolMemoryResource::clone(resource.downcast_ref()?)));
        let blocks =
            || Some(Top::FixedSize(FixedSizeMemoryResource::clone(resource.downcast_ref()?)));
        let driver_pool =
            || Some(Top::CudaAsync(CudaAsyncMemoryResource::clone(resource.downcast_ref()?)));
        let top = pool().or_else(virtual_pool).or_else(blocks).or_else(driver_pool);
        let top = top.unwrap_or(Top::Other);
        Self { resource, top }
    }

    /// The counters of the pool at the top, if it is one.
    pub fn statistics(&self) -> Option<PoolStatistics> {
        match &self.top {
            Top::Pool(pool) => Some(pool.statistics()),
            Top::VirtualPool(pool) => Some(pool.statistics()),
            Top::FixedSize(blocks) => Some(blocks.statistics()),
            Top::CudaAsync(_) | Top::Other => None,
        }
    }

    /// The largest number of bytes reserved so far, if a resource in the stack counts them.
    ///
    /// # Errors
    /// The driver's error, if the resource is a pool of the driver.
    pub fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        match &self.top {
            Top::CudaAsync(driver_pool) => driver_pool.peak_reserved_bytes().map(Some),
            _ => Ok(self.pool_statistics().map(|statistics| statistics.peak_reserved_bytes)),
        }
    }

    /// Returns unused memory to the driver. Returns whether the resource at the top can.
    pub fn trim(&self) -> bool {
        match &self.top {
            Top::Pool(pool) => _ = pool.trim(0),
            Top::VirtualPool(pool) => _ = pool.trim(0),
            Top::FixedSize(_) | Top::CudaAsync(_) | Top::Other => return false,
        }
        true
    }

    /// Events between two samples of [`reserved`](Self::reserved): more where a sample is slow.
    pub(super) fn sample_every(&self) -> u64 {
        match &self.top {
            Top::Pool(_) | Top::VirtualPool(_) => 1,
            Top::CudaAsync(_) => 16,
            Top::FixedSize(_) | Top::Other => 128,
        }
    }

    /// Bytes reserved from the driver now: by the first resource of the stack that counts them,
    /// else all that is in use on the device.
    pub(super) fn reserved(&self) -> Result<u64, Error> {
        match &self.top {
            Top::Pool(pool) => Ok(pool.reserved_bytes()),
            Top::VirtualPool(pool) => Ok(pool.reserved_bytes()),
            Top::CudaAsync(driver_pool) => driver_pool.reserved_bytes(),
            Top::FixedSize(_) | Top::Other => match reserved(&self.resource.describe()) {
                Some(bytes) => Ok(bytes),
                None => used_on_device(),
            },
        }
    }

    /// The part of [`reserved`](Self::reserved) that belongs to others; to be asked before the
    /// first event.
    pub(super) fn reserved_by_others(&self) -> Result<u64, Error> {
        match &self.top {
            Top::FixedSize(_) | Top::Other if reserved(&self.resource.describe()).is_none() => {
                used_on_device()
            }
            _ => Ok(0),
        }
    }

    /// How often a stream was made to wait for another. The driver's pool does not count it.
    pub(super) fn stream_waits(&self) -> u64 {
        self.pool_statistics().map_or(0, |statistics| statistics.stream_waits)
    }

    /// A map of the memory of the pool, if there is one.
    pub(super) fn blocks(&self) -> Vec<PoolBlock> {
        match &self.top {
            Top::VirtualPool(pool) => pool.blocks(),
            _ => self.plain_pool().map_or_else(Vec::new, PoolMemoryResource::blocks),
        }
    }

    fn pool_statistics(&self) -> Option<PoolStatistics> {
        self.statistics().or_else(|| self.plain_pool().map(PoolMemoryResource::statistics))
    }

    /// The pool over `cudaMalloc` in the stack.
    fn plain_pool(&self) -> Option<&PoolMemoryResource<CudaMemoryResource>> {
        self.resource.find()
    }
}

fn used_on_device() -> Result<u64, Error> {
    let memory = Device::memory_info()?;
    Ok(memory.total - memory.free)
}

fn reserved(description: &Description) -> Option<u64> {
    match description.metric("reserved") {
        Some(Metric::Bytes(bytes)) => Some(*bytes),
        _ => description.below().find_map(reserved),
    }
}
