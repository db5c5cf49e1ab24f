//! Resources over the host's heap, as fixtures.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, HasPropertyValue, HostAccessible, Property,
    PropertyWithValue, Query, Resource, StreamRef, SynchronousResource,
};

/// The NUMA node of the memory: a property with a value, defined by this test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumaNode;

impl Property for NumaNode {
    const NAME: &'static str = "numa-node";
}

impl PropertyWithValue for NumaNode {
    type Value = u32;
}

/// A synchronous resource. Counts the allocated bytes.
#[derive(Clone, Debug)]
pub(crate) struct SyncHeap {
    node: u32,
    live: Arc<AtomicUsize>,
}

impl SyncHeap {
    pub(crate) fn new(node: u32) -> Self {
        Self { node, live: Arc::default() }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
}

impl PartialEq for SyncHeap {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.live, &other.live)
    }
}

// SAFETY: the heap hands out each piece of memory once, aligned as asked for.
unsafe impl SynchronousResource for SyncHeap {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        assert!(layout.size() > 0);
        // SAFETY: the size is not zero.
        let pointer = unsafe { std::alloc::alloc(layout) };
        if pointer.is_null() {
            return Err(Error::out_of_memory("sync-heap"));
        }
        self.live.fetch_add(layout.size(), Ordering::Relaxed);
        Ok(DevicePtr(pointer.expose_provenance() as u64))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        let address = usize::try_from(pointer.0).expect("it was an address of this machine");
        let pointer = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: by the caller's contract it came from `allocate_sync` with this layout and is not
        // freed already.
        unsafe { std::alloc::dealloc(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "sync-heap"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query
            .properties(self)
            .has::<HostAccessible>()
            .has::<DeviceAccessible>()
            .has_value::<NumaNode>();
    }
}

// SAFETY: it is the host's memory.
unsafe impl HasProperty<HostAccessible> for SyncHeap {}

// SAFETY: no device of these tests touches it.
unsafe impl HasProperty<DeviceAccessible> for SyncHeap {}

// SAFETY: the node is what the test says it is.
unsafe impl HasProperty<NumaNode> for SyncHeap {}

impl HasPropertyValue<NumaNode> for SyncHeap {
    fn property_value(&self) -> u32 {
        self.node
    }
}

/// A resource whose type declares host access, and which provides no property at run time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Silent(pub(crate) SyncHeap);

// SAFETY: every call goes to the heap.
unsafe impl SynchronousResource for Silent {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "silent"
    }
}

// SAFETY: the tests enqueue no work that uses its memory.
unsafe impl Resource for Silent {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract, and no work uses the memory.
        unsafe { self.deallocate_sync(pointer, layout) }
    }
}

// SAFETY: it is the host's memory.
unsafe impl HasProperty<HostAccessible> for Silent {}
