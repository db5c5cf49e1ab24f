//! The resource that a trace is replayed against, with its statistics.

use rmm_adaptors::{PoolBlock, PoolStatistics};
use rmm_core::{AnyResource, Device, Error, Introspect as _};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, VirtualMemoryResource,
};

use crate::suballocators::Suballocators;

/// A type-erased resource, and the figures of the resources in it.
#[derive(Debug)]
pub struct ReplaySubject {
    /// The resource, called through the type-erased handle, as the parts of a program call it.
    pub resource: AnyResource,
}

impl ReplaySubject {
    /// The figures of this resource.
    pub fn new(resource: AnyResource) -> Self {
        Self { resource }
    }

    /// The counters of the pool at the top, if it is one.
    pub fn statistics(&self) -> Option<PoolStatistics> {
        let top = self.resource.stack().next()?;
        top.as_trimmable().and_then(|_| top.try_value())
    }

    /// The largest number of bytes reserved so far, if one pool or arena holds all memory of the
    /// stack and counts them, ours or the driver's.
    ///
    /// # Errors
    /// The driver's error, if the resource is a pool of the driver.
    pub fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        if let Some(bytes) = Suballocators::of(&self.resource).peak_reserved_bytes() {
            return Ok(Some(bytes));
        }
        // Of all memory, if there are no branches.
        let has_branches = self.resource.stack().any(|part| !part.other_upstreams().is_empty());
        let driver_pool = self.resource.find::<CudaAsyncMemoryResource>();
        let driver_pool = driver_pool.filter(|_| !has_branches);
        driver_pool.map(CudaAsyncMemoryResource::peak_reserved_bytes).transpose()
    }

    /// Returns unused memory to the driver. Returns whether the resource at the top is a pool.
    pub fn trim(&self) -> bool {
        let is_pool = self.statistics().is_some();
        if is_pool {
            self.resource.trim(0);
        }
        is_pool
    }

    /// The counters of the pool that holds all memory of the stack, if one does.
    pub(super) fn counted(&self) -> Option<PoolStatistics> {
        Suballocators::of(&self.resource).pool_statistics()
    }

    /// How often a stream was made to wait for another; `None` if the driver's pools may have done
    /// that, which do not count it.
    pub(super) fn stream_waits(&self) -> Option<u64> {
        let waits = Suballocators::of(&self.resource).stream_waits();
        (!self.has_driver_pool()).then_some(waits)
    }

    /// How often pools of ours made a stream wait for another, or the calling thread for the
    /// device.
    pub(super) fn waits(&self) -> u64 {
        let found = Suballocators::of(&self.resource);
        found.stream_waits() + found.host_waits()
    }

    /// Whether pools of the driver decide how much memory the stack holds: no pool of ours is over
    /// them.
    pub(super) fn is_of_driver_pools(&self) -> bool {
        self.has_driver_pool() && !Suballocators::of(&self.resource).are_ours()
    }

    /// Whether a pool of the stack can map free pages elsewhere.
    pub(super) fn joins_pages(&self) -> bool {
        self.resource.find::<VirtualMemoryResource>().is_some()
    }

    /// Whether memory of the stack comes from pools of the driver.
    pub(super) fn has_driver_pool(&self) -> bool {
        let resource = &self.resource;
        resource.find::<CudaAsyncMemoryResource>().is_some()
            || resource.find::<CudaAsyncViewMemoryResource>().is_some()
            || resource.find::<CudaAsyncManagedMemoryResource>().is_some()
            || resource.find::<CudaAsyncPinnedMemoryResource>().is_some()
    }
}

/// What is asked after each event.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    found: Suballocators<'a>,
    /// What is in use on the device that is not the resource's, if its suballocators do not hold
    /// all of its memory.
    others: Option<u64>,
    counts_waits: bool,
}

impl<'a> Meter<'a> {
    /// To be made before the first event.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn of(subject: &'a ReplaySubject) -> Result<Self, Error> {
        let found = Suballocators::of(&subject.resource);
        let others = match found.reserved_bytes() {
            Some(_) => None,
            None => Some(used_on_device()?),
        };
        Ok(Self { found, others, counts_waits: !subject.has_driver_pool() })
    }

    /// Bytes reserved from the driver now by the lowest suballocators or, if they do not hold all
    /// memory of the stack, what is in use on the device beyond others. That is at least what is
    /// `live`: the device does not count memory of the host.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn reserved(&self, live: u64) -> Result<u64, Error> {
        match (self.found.reserved_bytes(), self.others) {
            (Some(bytes), _) => Ok(bytes),
            (None, others) => Ok(used_on_device()?.saturating_sub(others.unwrap_or(0)).max(live)),
        }
    }

    /// How often a stream was made to wait for another so far, as far as that is counted.
    pub(super) fn waits(&self) -> u64 {
        if self.counts_waits { self.found.stream_waits() } else { 0 }
    }

    /// How often the calling thread waited for the device so far, in pools of ours.
    pub(super) fn host_waits(&self) -> u64 {
        self.found.host_waits()
    }

    /// The counters of the pools that [`blocks`](Self::blocks) maps; to be read before it, which
    /// empties the caches of threads.
    pub(super) fn counters(&self) -> Vec<PoolStatistics> {
        self.found.mapped()
    }

    /// A map of the memory of the pools.
    pub(super) fn blocks(&self) -> Vec<PoolBlock> {
        self.found.map()
    }
}

fn used_on_device() -> Result<u64, Error> {
    let memory = Device::memory_info()?;
    Ok(memory.total - memory.free)
}
