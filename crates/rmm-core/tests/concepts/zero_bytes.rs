//! Requests of zero bytes, which reach no hook of any resource.

use std::alloc::Layout;
use std::sync::Arc;

use rmm_core::{
    AnyResource, AnySynchronousResource, DevicePtr, Error, MemoryResource, Resource, ResourceRef,
    ResourceView, StreamRef, Synchronized, SynchronousResource,
};

/// Has no memory, and panics if it is asked for some.
#[derive(Clone, PartialEq, Debug)]
struct Unasked;

// SAFETY: it returns no memory.
unsafe impl SynchronousResource for Unasked {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        panic!("asked for {layout:?}")
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        panic!("given {pointer:?}, {layout:?}")
    }

    fn name(&self) -> &'static str {
        "unasked"
    }
}

// SAFETY: as above.
unsafe impl Resource for Unasked {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        panic!("asked for {layout:?}")
    }

    unsafe fn do_deallocate(&self, _: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        panic!("given {pointer:?}, {layout:?}")
    }
}

#[derive(Debug)]
struct Adapted<U> {
    upstream: U,
}

rmm_core::adaptor! {
    Adapted<U> over upstream, name = "adapted";
    fn allocate(&self, below, layout) { below.allocate(layout) }
}

const NOTHING: Layout = Layout::new::<()>();
const ANYWHERE: DevicePtr = DevicePtr(u64::MAX);

fn at_once(resource: &(impl SynchronousResource + ?Sized)) {
    assert_eq!(resource.allocate_sync(NOTHING).expect("nothing"), DevicePtr::NULL);
    assert_eq!(resource.allocate_in_context(NOTHING).expect("nothing"), DevicePtr::NULL);
    // SAFETY: there are no bytes to be freed.
    unsafe { resource.deallocate_sync(ANYWHERE, NOTHING) };
    // SAFETY: as above.
    unsafe { resource.deallocate_in_context(ANYWHERE, NOTHING) };
}

fn in_order(resource: &impl Resource) {
    at_once(resource);
    let stream = StreamRef::legacy();
    assert_eq!(resource.allocate(stream, NOTHING).expect("nothing"), DevicePtr::NULL);
    // SAFETY: there are no bytes to be freed.
    unsafe { resource.deallocate(stream, ANYWHERE, NOTHING) };
}

#[test]
fn zero_bytes_reach_no_hook() {
    let object: &dyn Resource = &Unasked;
    in_order(&Unasked);
    in_order(&object);
    in_order(&Arc::new(Unasked));
    in_order(&AnyResource::<()>::new(Unasked));
    in_order(&ResourceRef::<()>::new(&Unasked));
    in_order(&Synchronized::new(Unasked));
    in_order(&Adapted { upstream: Unasked });
    at_once(object);
    at_once(&AnySynchronousResource::<()>::new(Unasked));
    at_once(&ResourceView::<0>::try_new(&Unasked).expect("no capability is asked for"));
}
