//! Adaptors defined by the macro.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_core::{
    AnyResource, CudaStream, DeviceAccessible, DevicePtr, Error, Introspect, MemoryKind, Resource,
    SynchronousResource,
};
use rmm_resources::CudaMemoryResource;

/// What `Wilful` does with an allocation.
#[derive(Clone, Copy, Debug)]
enum Will {
    Forward,
    Larger,
    Twice,
    FailAfterwards,
}

#[derive(Clone, Debug)]
struct Wilful<R> {
    upstream: R,
    will: Will,
    freed: Arc<AtomicUsize>,
}

rmm_core::adaptor! {
    Wilful<R> over upstream, name = "wilful";
    fn allocate(&self, below, layout) {
        match self.will {
            Will::Forward => below.allocate(layout),
            Will::Larger => {
                let larger = Layout::from_size_align(2 * layout.size(), layout.align());
                below.allocate(larger.expect("a small size"))
            }
            Will::Twice => {
                let _dropped = below.allocate(layout)?;
                below.allocate(layout)
            }
            Will::FailAfterwards => {
                let block = below.allocate(layout)?;
                assert_ne!(block.pointer(), DevicePtr::NULL);
                assert_eq!(block.layout(), layout);
                Err(Error::out_of_memory("wilful"))
            }
        }
    }
    fn freed(&self, layout) {
        self.freed.fetch_add(layout.size(), Ordering::Relaxed);
    }
}

/// The parameter's name is the author's choice.
#[derive(Clone, Debug)]
struct Plain<C> {
    upstream: C,
}

rmm_core::adaptor! {
    Plain<C> over upstream, name = "plain";
    fn allocate(&self, below, layout) {
        below.allocate(layout)
    }
}

fn wilful(will: Will) -> Wilful<CudaMemoryResource> {
    Wilful { upstream: CudaMemoryResource::new(), will, freed: Arc::default() }
}

fn layout() -> Layout {
    Layout::from_size_align(1000, 256).expect("a power of two")
}

/// Allocates and frees, synchronously and on a stream. The machine reports memory that is leaked.
fn both_ways(resource: &Wilful<CudaMemoryResource>) -> Result<(), Error> {
    let stream = CudaStream::new()?;
    let pointer = resource.allocate(&stream, layout())?;
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate(&stream, pointer, layout()) };
    let pointer = resource.allocate_sync(layout())?;
    // SAFETY: as above.
    unsafe { resource.deallocate_sync(pointer, layout()) };
    Ok(())
}

#[test]
fn an_adaptor_forwards_both_kinds_of_calls_and_sees_frees() {
    let machine = rmm_sim::enter();
    for will in [Will::Forward, Will::Twice] {
        let resource = wilful(will);
        both_ways(&resource).expect("there is memory");
        assert_eq!(resource.freed.load(Ordering::Relaxed), 2000, "{will:?}");
    }
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn a_block_that_is_not_returned_is_freed() {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new().expect("a stream");
    let resource = wilful(Will::FailAfterwards);
    assert!(resource.allocate_sync(layout()).unwrap_err().is_out_of_memory());
    assert!(resource.allocate(&stream, layout()).unwrap_err().is_out_of_memory());
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn a_block_of_another_layout_is_refused_and_freed() {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new().expect("a stream");
    let resource = wilful(Will::Larger);
    let error = resource.allocate(&stream, layout()).unwrap_err();
    assert!(error.is_invalid_argument() && error.requested() == Some(1000), "{error}");
    assert!(resource.allocate_sync(layout()).unwrap_err().is_invalid_argument());
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn properties_equality_and_the_stack_are_the_upstreams() {
    let (one, other) = (wilful(Will::Forward), wilful(Will::Larger));
    assert!(one == other, "each may free the other's memory");
    assert!(one.declares::<DeviceAccessible>() && one.declares::<MemoryKind>());
    assert_eq!(one.stack().map(SynchronousResource::name).collect::<Vec<_>>(), ["wilful", "cuda"]);
    let any: AnyResource = AnyResource::new(Plain { upstream: one });
    assert!(any.find::<CudaMemoryResource>().is_some());
}
