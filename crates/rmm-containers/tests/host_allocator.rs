//! Host collections in the memory of a resource.

#![cfg(feature = "allocator-api2")]

use std::alloc::{Layout, System};
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use rmm_containers::HostAllocator;
use rmm_core::{DevicePtr, Error, HasProperty, HostAccessible, SynchronousResource};

/// The system allocator, with a limit per allocation and counters.
#[derive(Debug)]
struct Heap {
    limit: usize,
    live: AtomicUsize,
    calls: AtomicUsize,
}

impl Heap {
    fn new(limit: usize) -> Self {
        Self { limit, live: AtomicUsize::new(0), calls: AtomicUsize::new(0) }
    }

    fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

// SAFETY: the system allocator keeps the contract.
unsafe impl SynchronousResource for Heap {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert_ne!(layout.size(), 0, "empty allocations do not reach the resource");
        if layout.size() > self.limit {
            return Err(Error::out_of_memory("heap").with_layout(layout));
        }
        // SAFETY: the layout is not empty.
        let pointer: *mut u8 = unsafe { std::alloc::GlobalAlloc::alloc(&System, layout) };
        if pointer.is_null() {
            return Err(Error::out_of_memory("heap").with_layout(layout));
        }
        self.live.fetch_add(layout.size(), Ordering::Relaxed);
        Ok(DevicePtr(pointer.expose_provenance() as u64))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        let address = usize::try_from(pointer.0).expect("a host address");
        // SAFETY: allocated above with this layout, by the caller's contract.
        unsafe {
            std::alloc::GlobalAlloc::dealloc(&System, with_exposed_provenance_mut(address), layout);
        }
    }

    fn name(&self) -> &'static str {
        "heap"
    }
}

// SAFETY: it is host memory.
unsafe impl HasProperty<HostAccessible> for Heap {}

#[test]
fn a_vector_grows_shrinks_and_frees_all_memory() {
    let heap = Heap::new(usize::MAX);
    let mut vector: Vec<u64, _> = Vec::new_in(HostAllocator::new(&heap));
    assert_eq!(heap.calls(), 0, "an empty vector allocates nothing");
    vector.extend(0..1000);
    assert_eq!(vector.iter().sum::<u64>(), 999 * 1000 / 2);
    assert_eq!(heap.live(), vector.capacity() * 8);
    vector.truncate(3);
    vector.shrink_to_fit();
    assert_eq!(vector.as_slice(), [0, 1, 2]);
    assert_eq!(heap.live(), 3 * 8);
    let copy = vector.clone();
    drop(vector);
    assert_eq!(copy.as_slice(), [0, 1, 2]);
    drop(copy);
    assert_eq!(heap.live(), 0);
}

#[test]
fn an_empty_allocation_is_aligned_and_makes_no_call() {
    let heap = Heap::new(usize::MAX);
    let allocator = HostAllocator::new(&heap);
    for alignment in [1, 8, 4096, 1 << 30] {
        let layout = Layout::from_size_align(0, alignment).unwrap();
        let empty = allocator.allocate(layout).unwrap();
        assert_eq!(empty.len(), 0);
        assert!(empty.cast::<u8>().addr().get().is_multiple_of(alignment));
        // SAFETY: allocated above with this layout.
        unsafe { allocator.deallocate(empty.cast(), layout) };
    }
    let unit = Box::new_in((), allocator);
    assert_eq!(*unit, ());
    drop(unit);
    assert_eq!(heap.calls(), 0);
}

#[test]
fn memory_is_aligned_and_grows_from_and_shrinks_to_empty() {
    let heap = Heap::new(usize::MAX);
    let allocator = HostAllocator::new(&heap);
    let layout = |size| Layout::from_size_align(size, 1024).unwrap();
    let empty = allocator.allocate(layout(0)).unwrap().cast::<u8>();
    // SAFETY: `empty` was allocated above with the first layout, and the second is larger.
    let some = unsafe { allocator.grow_zeroed(empty, layout(0), layout(100)) }.unwrap();
    assert_eq!(some.len(), 100);
    let some: NonNull<u8> = some.cast();
    assert!(some.addr().get().is_multiple_of(1024));
    // SAFETY: 100 bytes were allocated and zeroed.
    let bytes = unsafe { std::slice::from_raw_parts(some.as_ptr(), 100) };
    assert!(bytes.iter().all(|byte| *byte == 0));
    // SAFETY: `some` was allocated above with the first layout, and the second is smaller.
    let empty = unsafe { allocator.shrink(some, layout(100), layout(0)) }.unwrap();
    assert_eq!(heap.live(), 0);
    // SAFETY: as above.
    unsafe { allocator.deallocate(empty.cast(), layout(0)) };
}

#[test]
fn out_of_memory_is_reported() {
    let heap = Heap::new(64);
    let mut vector: Vec<u8, _> = Vec::new_in(HostAllocator::new(&heap));
    vector.try_reserve_exact(64).unwrap();
    assert!(vector.try_reserve_exact(65).is_err());
    assert_eq!((vector.capacity(), heap.live()), (64, 64), "a failed growth changes nothing");
}

#[test]
fn clones_are_one_allocator_and_keep_the_resource() {
    let allocator = HostAllocator::new(Heap::new(usize::MAX));
    let clone = allocator.clone();
    let layout = Layout::new::<[u64; 4]>();
    let memory = allocator.allocate(layout).unwrap();
    drop(allocator);
    assert_eq!(clone.resource().live(), 32);
    // SAFETY: allocated above with this layout, by an allocator of which this is a clone.
    unsafe { clone.deallocate(memory.cast(), layout) };
    assert_eq!(clone.resource().live(), 0);
}

#[test]
fn a_collection_may_outlive_the_machine_of_its_memory() {
    let machine = rmm_sim::Machine::new();
    let entered = machine.enter();
    let resource = rmm_resources::PinnedHostMemoryResource::new();
    let mut numbers = Vec::new_in(HostAllocator::new(resource));
    numbers.extend(0..1000);
    drop((entered, machine));
    assert_eq!(numbers[999], 999);
}

#[cfg(feature = "allocator-api2-04")]
#[test]
fn collections_of_the_newer_trait_allocate_from_it() {
    use allocator_api2_04::vec::Vec as NewVec;

    let allocator = HostAllocator::new(Heap::new(1 << 20));
    let mut new = NewVec::new_in(allocator.clone());
    new.extend(0..100u64);
    let mut old = Vec::new_in(allocator.clone());
    old.extend(new.iter().copied());
    assert_eq!((new.len(), old.len()), (100, 100));
    assert!(allocator.resource().live() >= 2 * 800);
    assert!(new.try_reserve(1 << 20).is_err(), "the limit is an error");
    drop((new, old));
    assert_eq!(allocator.resource().live(), 0);
}
