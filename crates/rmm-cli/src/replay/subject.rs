//! What a replay asks of a resource beside memory.

use rmm_adaptors::{PoolBlock, PoolMemoryResource, PoolPreset};
use rmm_core::{
    AnyResource, Description, Device, Error, Introspect, Metric, Resource, SyncResource,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

/// A pool over the driver's plain allocations.
pub(super) fn pool() -> Result<PoolMemoryResource<CudaMemoryResource>, Error> {
    PoolMemoryResource::builder(CudaMemoryResource::new()).build()
}

/// A pool over virtual memory.
pub(super) fn virtual_pool(
    preset: PoolPreset,
) -> Result<PoolMemoryResource<VirtualMemoryResource>, Error> {
    PoolMemoryResource::builder(VirtualMemoryResource::new()?).preset(preset).build()
}

/// A resource that can be replayed against.
pub(super) trait Subject: Resource {
    /// Events between two looks at [`reserved`](Self::reserved), where it is slow to tell.
    const SAMPLE_EVERY: u64;

    /// Bytes held of the upstream or the driver now.
    fn reserved(&self) -> Result<u64, Error>;

    /// What of these is not the resource's own, as can be told before the first event.
    fn reserved_by_others(&self) -> Result<u64, Error> {
        Ok(0)
    }

    /// The most bytes held so far, if the resource keeps count.
    fn peak_reserved(&self) -> Result<Option<u64>, Error>;

    /// How often a stream was made to wait for another.
    fn stream_waits(&self) -> u64;

    /// A map of the memory, if there is one.
    fn blocks(&self) -> Vec<PoolBlock>;
}

impl<U: SyncResource> Subject for PoolMemoryResource<U> {
    const SAMPLE_EVERY: u64 = 1;

    fn reserved(&self) -> Result<u64, Error> {
        Ok(self.reserved_bytes())
    }

    fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        Ok(Some(self.statistics().peak_reserved_bytes))
    }

    fn stream_waits(&self) -> u64 {
        self.statistics().stream_waits
    }

    fn blocks(&self) -> Vec<PoolBlock> {
        Self::blocks(self)
    }
}

impl Subject for CudaAsyncMemoryResource {
    const SAMPLE_EVERY: u64 = 16;

    fn reserved(&self) -> Result<u64, Error> {
        self.reserved_bytes()
    }

    fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        self.peak_reserved_bytes().map(Some)
    }

    fn stream_waits(&self) -> u64 {
        0 // the driver does not tell
    }

    fn blocks(&self) -> Vec<PoolBlock> {
        Vec::new()
    }
}

impl Subject for CudaMemoryResource {
    const SAMPLE_EVERY: u64 = 128;

    /// All that is in use on the device, by whomever.
    fn reserved(&self) -> Result<u64, Error> {
        let memory = Device::memory_info()?;
        Ok((memory.total - memory.free) as u64)
    }

    fn reserved_by_others(&self) -> Result<u64, Error> {
        self.reserved()
    }

    fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    fn stream_waits(&self) -> u64 {
        0
    }

    fn blocks(&self) -> Vec<PoolBlock> {
        Vec::new()
    }
}

/// A stack that was described.
impl Subject for AnyResource {
    const SAMPLE_EVERY: u64 = 128;

    /// What the first resource of the stack tells that keeps memory; else all that is in use on the
    /// device, by whomever.
    fn reserved(&self) -> Result<u64, Error> {
        match reserved(&self.describe()) {
            Some(bytes) => Ok(bytes),
            None => CudaMemoryResource::new().reserved(),
        }
    }

    fn reserved_by_others(&self) -> Result<u64, Error> {
        match reserved(&self.describe()) {
            Some(_) => Ok(0),
            None => CudaMemoryResource::new().reserved_by_others(),
        }
    }

    fn peak_reserved(&self) -> Result<Option<u64>, Error> {
        let pool = plain_pool(self);
        Ok(pool.map(|pool| pool.statistics().peak_reserved_bytes))
    }

    fn stream_waits(&self) -> u64 {
        plain_pool(self).map_or(0, |pool| pool.statistics().stream_waits)
    }

    fn blocks(&self) -> Vec<PoolBlock> {
        plain_pool(self).map_or_else(Vec::new, PoolMemoryResource::blocks)
    }
}

/// The pool over plain memory in a stack: the one whose blocks can be told.
fn plain_pool(resource: &AnyResource) -> Option<&PoolMemoryResource<CudaMemoryResource>> {
    resource.find()
}

fn reserved(description: &Description) -> Option<u64> {
    match description.metric("reserved") {
        Some(Metric::Bytes(bytes)) => Some(*bytes),
        _ => description.below().find_map(reserved),
    }
}
