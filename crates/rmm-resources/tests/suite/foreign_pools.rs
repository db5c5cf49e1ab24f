//! Driver pools of other libraries: taken over, borrowed and given away.

use std::alloc::Layout;

use rmm_core::{AnyResource, CudaStream, HostAccessible, HostResourceRef, Resource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    ExportHandleTypes,
};
use rmm_sim::Machine;
use rmm_sys::{CuMemPool, CuResult};

const LAYOUT: Layout = Layout::new::<[u64; 1000]>();

fn destroyed(machine: &Machine) -> u64 {
    let counts = machine.call_counts();
    counts.iter().find(|(name, _)| *name == "cuMemPoolDestroy").map_or(0, |(_, count)| *count)
}

fn use_on_a_stream(resource: &impl Resource) {
    let stream = CudaStream::new().expect("a stream");
    let block = resource.allocate(&stream, LAYOUT).expect("memory");
    // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    unsafe { resource.deallocate(&stream, block, LAYOUT) };
    stream.synchronize().expect("done");
}

macro_rules! each_kind {
    ($($name:ident: $resource:ident;)*) => {$(
        #[test]
        fn $name() {
            let machine = rmm_sim::enter();
            let handle = $resource::builder().build().unwrap().into_raw().unwrap();
            assert_eq!(destroyed(&machine), 0, "given away");
            // SAFETY: the pool exists until it is destroyed by the value below.
            let borrowed = unsafe { $resource::borrow_raw(handle) }.unwrap();
            use_on_a_stream(&borrowed);
            let borrowed = borrowed.into_raw().unwrap_err();
            drop(borrowed);
            assert_eq!(destroyed(&machine), 0, "borrowed");
            // SAFETY: only this value destroys the pool.
            let owner = unsafe { $resource::from_raw(handle) }.unwrap();
            use_on_a_stream(&owner);
            let clone = owner.clone();
            let owner = owner.into_raw().unwrap_err();
            assert_eq!(owner, clone, "another clone may use it");
            drop((owner, clone));
            assert_eq!(destroyed(&machine), 1, "taken over");
        }
    )*};
}

each_kind! {
    device_pools_are_taken_over_and_given_away: CudaAsyncMemoryResource;
    managed_pools_are_taken_over_and_given_away: CudaAsyncManagedMemoryResource;
    pinned_pools_are_taken_over_and_given_away: CudaAsyncPinnedMemoryResource;
}

#[test]
fn the_host_reaches_pools_of_others() {
    let _machine = rmm_sim::enter();
    let theirs = CudaAsyncPinnedMemoryResource::new().unwrap();
    // SAFETY: `theirs` keeps the pool until the end of this test.
    let ours = unsafe { CudaAsyncPinnedMemoryResource::borrow_raw(theirs.as_raw()) }.unwrap();
    let _on_host = HostResourceRef::new(&ours);
    let erased: AnyResource<HostAccessible> = AnyResource::new(ours.clone());
    assert_eq!(erased, AnyResource::new(theirs), "the same pool");
}

#[test]
fn a_pool_that_cannot_be_taken_over_stays_the_callers() {
    rmm_sim::fail_each_call(CuResult::UNKNOWN, |machine| {
        let Ok(resource) = CudaAsyncMemoryResource::new() else { return };
        let handle = resource.into_raw().expect("the only one");
        // SAFETY: only the value below destroys the pool.
        let Ok(taken) = (unsafe { CudaAsyncMemoryResource::from_raw(handle) }) else {
            assert_eq!(destroyed(machine), 0);
            // SAFETY: as above; one call at most fails in each run.
            drop(unsafe { CudaAsyncMemoryResource::from_raw(handle) }.expect("taken over"));
            return;
        };
        drop(taken);
    });
}

#[test]
fn a_null_handle_is_no_pool() {
    let _machine = rmm_sim::enter();
    // SAFETY: a null handle is an error.
    let error = unsafe { CudaAsyncMemoryResource::from_raw(CuMemPool::NULL) }.unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
}

#[test]
fn handle_types_are_refused_by_name_for_every_kind() {
    let _machine = rmm_sim::enter();
    let fabric = ExportHandleTypes::FABRIC;
    let errors = [
        CudaAsyncManagedMemoryResource::builder().export_handle_types(fabric).build().unwrap_err(),
        CudaAsyncPinnedMemoryResource::builder().export_handle_types(fabric).build().unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_unsupported() && error.to_string().contains("FABRIC"), "{error}");
    }
}
