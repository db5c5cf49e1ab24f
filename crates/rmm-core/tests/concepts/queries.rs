//! `HasResource`, alignment, contexts and searches of stacks.

use std::alloc::Layout;
use std::sync::Arc;

use rmm_adaptors::{BinningMemoryResource, FallbackMemoryResource, FixedSizeMemoryResource};
use rmm_core::{
    AnyContext, AnyResource, CudaStream, DevicePtr, Error, HasMemoryKind, HasResource, Introspect,
    MemoryKind, MemoryResource, StreamBound, StreamContext, SynchronousResource,
    allocation_alignment, copy,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::heap::SyncHeap;

fn source<H: HasResource<Resource: PartialEq> + ?Sized>(of: &H) -> &H::Resource {
    of.memory_resource()
}

/// A program's settings.
struct Settings {
    heap: SyncHeap,
}

impl HasResource for Settings {
    type Resource = SyncHeap;

    fn memory_resource(&self) -> &SyncHeap {
        &self.heap
    }
}

#[test]
fn a_resource_returns_itself_and_settings_theirs() {
    let heap = SyncHeap::new(0);
    assert_eq!(source(&heap), &heap);
    let shared = Arc::new(heap.clone());
    assert_eq!(**source(&shared), heap, "a pointer to a resource is a resource");
    let erased: AnyResource = AnyResource::new(CudaMemoryResource::new());
    assert_eq!(source(&erased), &erased);
    let settings = Arc::new(Settings { heap: heap.clone() });
    assert_eq!(settings.memory_resource(), &heap, "a pointer to anything else is seen through");
    let object: &dyn HasResource<Resource = SyncHeap> = &*settings;
    assert_eq!(source(object), &heap);
    let unsized_one: &dyn SynchronousResource = &heap;
    assert_eq!(unsized_one.memory_resource().find(), Some(&heap));
}

#[test]
fn an_alignment_is_checked_against_the_type() {
    assert_eq!(allocation_alignment::<u32>(4).unwrap(), 4);
    assert_eq!(allocation_alignment::<[u8; 3]>(1).unwrap(), 1);
    assert_eq!(allocation_alignment::<u64>(1 << 20).unwrap(), 1 << 20);
    assert_eq!(allocation_alignment::<u64>(align_of::<u128>()).unwrap(), align_of::<u128>());
    assert!(allocation_alignment::<u64>(align_of::<u16>()).unwrap_err().is_invalid_argument());
    for wrong in [0, 3, 24, 257, usize::MAX] {
        let error = allocation_alignment::<u8>(wrong).unwrap_err();
        assert!(error.is_invalid_argument());
        let text =
            format!("invalid argument to allocation_alignment: {wrong} bytes are no power of two");
        assert_eq!(error.to_string(), text);
    }
}

/// Allocates, has `used` use the memory, and frees.
fn through<C>(
    resource: &(impl MemoryResource<C> + ?Sized),
    used: impl FnOnce(&C, DevicePtr) -> Result<(), Error>,
) -> Result<(), Error> {
    let layout = Layout::new::<[u64; 8]>();
    let pointer = resource.allocate_in_context(layout)?;
    used(resource.context(), pointer)?;
    // SAFETY: allocated above with this layout; what `used` enqueues is on the context's stream or
    // has completed.
    unsafe { resource.deallocate_in_context(pointer, layout) };
    Ok(())
}

#[test]
fn every_synchronous_resource_is_one_for_any_context() -> Result<(), Error> {
    let heap = SyncHeap::new(0);
    through(&heap, |AnyContext, _| {
        assert_eq!(heap.live(), 64);
        Ok(())
    })?;
    assert_eq!(heap.live(), 0);
    let boxed: Box<dyn SynchronousResource> = Box::new(heap);
    through(&boxed, |AnyContext, _| Ok(()))
}

#[test]
fn a_bound_resource_allocates_in_the_order_of_its_stream() -> Result<(), Error> {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let stream = CudaStream::new()?;
    let bound = StreamBound::new(CudaAsyncMemoryResource::new()?, stream.clone());
    let fill = |context: &StreamContext, memory| {
        assert_eq!(context.stream(), stream.as_stream_ref());
        for _ in 0..8 {
            // SAFETY: the memory has 64 bytes and is the stream's.
            unsafe { copy::fill(memory, 0, 64, context.stream()) }?;
        }
        Ok(())
    };
    through(&bound, fill)?;
    let object: &dyn MemoryResource<StreamContext> = &bound;
    through(object, |context, memory| {
        assert!(!context.stream().is_idle()?, "it waited");
        fill(context, memory)
    })?;
    assert!(!stream.is_idle()?, "it waited");
    stream.synchronize()?;
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn pointers_and_bound_resources_have_the_kind_of_their_resource() {
    type Bound = StreamBound<CudaAsyncMemoryResource>;
    fn kind<R: MemoryResource<C> + HasMemoryKind, C>() -> MemoryKind {
        R::KIND
    }
    assert_eq!(kind::<Arc<CudaMemoryResource>, AnyContext>(), MemoryKind::Device);
    assert_eq!(kind::<&CudaMemoryResource, AnyContext>(), MemoryKind::Device);
    assert_eq!(kind::<Box<CudaMemoryResource>, AnyContext>(), MemoryKind::Device);
    assert_eq!(kind::<Bound, StreamContext>(), MemoryKind::Device);
}

#[test]
fn find_searches_bins_and_fallbacks() {
    let _machine = rmm_sim::enter();
    let cuda = CudaMemoryResource::new();
    let fallback = FallbackMemoryResource::new(cuda, ManagedMemoryResource::new());
    assert!(fallback.find::<ManagedMemoryResource>().is_some());
    let binning = BinningMemoryResource::builder(fallback).bin(4096).expect("a bin").build();
    let erased: AnyResource = AnyResource::new(binning);
    let bin = erased.find::<FixedSizeMemoryResource>().expect("the bin is below");
    assert_eq!(bin.block_size(), 4096);
    assert!(erased.as_resource_ref().find::<ManagedMemoryResource>().is_some());
    assert!(erased.find::<CudaAsyncMemoryResource>().is_none());
}
