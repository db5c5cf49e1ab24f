//! Fault injection: every driver call fails once, nothing is leaked, and the next attempt succeeds.

use std::cell::Cell;

use rmm_core::{Error, Resource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource,
    SamHeadroomMemoryResource, SystemMemoryResource, VirtualMemoryResource,
};
use rmm_sim::{Checker, Fault};
use rmm_sys::CuResult;

use crate::allocator::live;
use crate::short::{MIB, layout, mib, unified};

/// Makes a resource and allocates one block.
fn attempt<R: Resource>(make: impl Fn() -> Result<R, Error>) -> Result<(), Error> {
    let resource = make()?;
    let asked = layout(4 * MIB, 256);
    let pointer = resource.allocate_sync(asked)?;
    // SAFETY: allocated just now with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, asked) };
    Ok(())
}

fn survives<R: Resource>(make: impl Fn() -> Result<R, Error>) {
    let failures = Cell::new(0);
    Checker::new().machine(unified()).fail_each_call(CuResult::UNKNOWN, |machine| {
        machine.without_faults(|| attempt(&make).expect("no fault yet"));
        let outcome = attempt(&make);
        machine.clear_faults();
        // A failed free cannot be reported, and leaves the memory allocated.
        if outcome.is_err() {
            failures.set(failures.get() + 1);
            assert_ne!(machine.failed_calls().len(), 0, "no call failed: {outcome:?}");
            machine.run_all();
            assert_eq!(machine.leaks().len(), 0, "{:?}", machine.leaks());
            assert_eq!(live(), 0);
        }
        attempt(&make).expect("the fault is over");
    });
    assert!(failures.get() > 1);
}

// Memory allocated before a failing step was leaked.
#[test]
fn a_failure_at_any_call_leaves_nothing_behind() {
    survives(|| Ok(ManagedMemoryResource::new()));
    survives(|| Ok(PinnedHostMemoryResource::new()));
    survives(SystemMemoryResource::new);
    survives(VirtualMemoryResource::new);
    survives(|| SamHeadroomMemoryResource::new((16 << 30) - mib(1)));
    survives(|| CudaAsyncMemoryResource::builder().initial_size(mib(1)).build());
    survives(|| CudaAsyncPinnedMemoryResource::builder().initial_size(mib(1)).build());
    survives(CudaAsyncPinnedMemoryResource::of_default_pool);
    survives(CudaAsyncManagedMemoryResource::new);
    survives(|| CudaAsyncManagedMemoryResource::builder().initial_size(mib(1)).build());
    survives(|| CudaAsyncViewMemoryResource::of_default_pool(rmm_core::Device::current()?));
}

// A pool whose threshold could not be set, or that could not be primed, was leaked.
#[test]
fn a_pool_whose_setup_fails_is_destroyed() {
    for function in ["cuMemPoolSetAttribute", "cuMemAllocFromPoolAsync", "cuStreamSynchronize"] {
        let machine = unified().enter();
        machine.fail(Fault::nth(function, 1, CuResult::UNKNOWN));
        let failed = CudaAsyncMemoryResource::builder().initial_size(mib(1)).build().unwrap_err();
        assert_eq!(failed.origin(), function);
        machine.run_all();
        assert_eq!(machine.leaks().len(), 0, "{function}");
    }
    let machine = unified().enter();
    machine.fail(Fault::nth("cuMemPoolSetAccess", 1, CuResult::UNKNOWN));
    CudaAsyncPinnedMemoryResource::new().unwrap_err();
    assert_eq!(machine.leaks().len(), 0);
}
