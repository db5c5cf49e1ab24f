//! The allocator that merges free lists with the bug of RMM #2490, or without it, as a resource
//! over the driver's memory.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource,
    StreamRef, SynchronousResource,
};
use rmm_resources::CudaMemoryResource;

use crate::merging_lists::MergingLists;

const UPSTREAM: CudaMemoryResource = CudaMemoryResource::new();
const NAME: &str = "merging";

/// Whether the allocator has its bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    Present,
    Fixed,
}

/// Blocks of one size, whatever the request; a handle.
#[derive(Clone, Debug)]
pub(crate) struct Merging(Arc<State>);

#[derive(Debug)]
struct State {
    block: Layout,
    /// # Invariant
    /// From `UPSTREAM`, of the layout `all`; the lists suballocate it.
    memory: DevicePtr,
    all: Layout,
    lists: Mutex<MergingLists>,
}

impl Merging {
    /// Takes memory for `blocks` blocks.
    pub(crate) fn new(bug: Bug, block_bytes: usize, blocks: usize) -> Result<Self, Error> {
        let layout = |bytes| {
            Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT)
                .map_err(|_| Error::invalid_argument(NAME, "too many bytes"))
        };
        let block = layout(block_bytes.next_multiple_of(CUDA_ALLOCATION_ALIGNMENT))?;
        let all = layout(block.size() * blocks)?;
        let memory = UPSTREAM.allocate_sync(all)?;
        let lists = Mutex::new(MergingLists::new(block, bug == Bug::Fixed));
        let new = Self(Arc::new(State { block, memory, all, lists }));
        for place in 0..blocks {
            let block = DevicePtr(memory.0 + (place * block.size()) as u64);
            new.lists().add(StreamRef::legacy(), block)?;
        }
        Ok(new)
    }

    fn lists(&self) -> MutexGuard<'_, MergingLists> {
        self.0.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: by the invariant, and no block of it is allocated; the upstream waits for the
        // device.
        unsafe { UPSTREAM.deallocate_sync(self.memory, self.all) };
    }
}

impl PartialEq for Merging {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

// SAFETY: with the bug it is not kept, which is the point. What is broken is the contents of the
// device's memory, nothing that the host relies on: the tests read it as plain words, on the
// device.
unsafe impl SynchronousResource for Merging {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = self.allocate(StreamRef::legacy(), layout)?;
        StreamRef::legacy().synchronize()?;
        Ok(pointer)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { self.deallocate(StreamRef::legacy(), pointer, layout) };
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: as above.
unsafe impl Resource for Merging {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let none = || Error::out_of_memory(NAME).with_layout(layout);
        if layout.size() > self.0.block.size() || layout.align() > CUDA_ALLOCATION_ALIGNMENT {
            return Err(none());
        }
        self.lists().allocate(stream)?.ok_or_else(none)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, _layout: Layout) {
        // If no event can be recorded, the block comes after the next one that can: the tests then
        // fail for another reason.
        let _ignored = self.lists().free(stream, pointer);
    }
}

// SAFETY: the upstream's memory is the device's.
unsafe impl HasProperty<DeviceAccessible> for Merging {}
