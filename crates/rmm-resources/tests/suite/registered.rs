//! Host memory that is touched in parallel and registered.

use std::num::NonZero;

use rmm_core::{CudaStream, Resource, SynchronousResource, copy};
use rmm_resources::RegisteredHostMemoryResource;
use rmm_sim::{Checker, Fault};
use rmm_sys::{CuMemoryType, CuPointerAttribute, CuResult};

use crate::short::{MIB, calls, layout, lazy};

#[test]
fn registered_memory_is_pinned_and_the_devices_read_it() {
    let machine = lazy().enter();
    let threads = NonZero::new(3).expect("not 0");
    let stream = CudaStream::new().expect("a stream");
    for resource in [
        RegisteredHostMemoryResource::new(),
        RegisteredHostMemoryResource::new().with_threads(threads).on_node(Some(0)),
        // There is no such node.
        RegisteredHostMemoryResource::new().with_threads(threads).on_node(Some(4000)),
    ] {
        for bytes in [1000, 70 * MIB] {
            let asked = layout(bytes, 256);
            let block = resource.allocate(&stream, asked).expect("memory");
            let driver = rmm_core::current_driver().expect("a driver");
            let mut kind = CuMemoryType(0);
            let attribute = CuPointerAttribute::MEMORY_TYPE;
            // SAFETY: this attribute is a `c_uint`, which may be written to.
            let code =
                unsafe { driver.cuPointerGetAttribute((&raw mut kind).cast(), attribute, block) };
            assert_eq!((code, kind), (CuResult::SUCCESS, CuMemoryType::HOST));
            // SAFETY: the block is as long, and its uses are in the stream's order.
            unsafe { copy::fill(block, 7, bytes, &stream) }.expect("a fill");
            stream.synchronize().expect("it is done");
            let last = usize::try_from(block.0).expect("an address") + bytes - 1;
            let last: *const u8 = std::ptr::with_exposed_provenance(last);
            // SAFETY: the last byte of the block, which the device has written.
            assert_eq!(unsafe { last.read() }, 7);
            // SAFETY: allocated above with this layout; the stream is that of its use.
            unsafe { resource.deallocate(&stream, block, asked) };
        }
    }
    assert_eq!(calls(&machine, "cuMemHostRegister_v2"), calls(&machine, "cuMemHostUnregister"));
    drop(stream);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn two_small_blocks_share_no_page() {
    let machine = lazy().enter();
    let resource = RegisteredHostMemoryResource::new();
    let asked = layout(256, 256);
    let blocks = [0; 8].map(|_| resource.allocate_sync(asked).expect("memory"));
    for block in blocks {
        assert!(block.0.is_multiple_of(64 << 10));
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(block, asked) };
    }
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn what_cannot_be_registered_is_given_back() {
    for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
        Checker::new().machine(lazy()).fail_each_call(code, |machine| {
            let _entered = machine.enter();
            let resource = RegisteredHostMemoryResource::new();
            let asked = layout(3 * MIB, 256);
            if let Ok(block) = resource.allocate_sync(asked) {
                // SAFETY: allocated above with this layout, and not used.
                unsafe { resource.deallocate_sync(block, asked) };
            }
        });
    }
    let machine = lazy().enter();
    machine.fail(Fault::nth("cuMemHostGetDevicePointer_v2", 1, CuResult::UNKNOWN));
    let resource = RegisteredHostMemoryResource::new();
    assert!(resource.allocate_sync(layout(MIB, 256)).is_err());
    assert_eq!(calls(&machine, "cuMemHostUnregister"), 1);
    assert!(resource.allocate_sync(layout(MIB, 512)).unwrap_err().is_invalid_argument());
}

#[test]
fn more_than_the_host_has_is_refused_before_it_is_touched() {
    let machine = lazy().enter();
    let resource = RegisteredHostMemoryResource::new();
    let Ok(left) = rmm_resources::Budget::host_fraction(1.0).resolve() else { return };
    let twice = usize::try_from(left).expect("a size") * 2;
    let error = resource.allocate_sync(layout(twice, 256)).expect_err("there is half as much");
    assert!(error.is_out_of_memory() && error.to_string().contains("left"), "{error}");
    assert_eq!(calls(&machine, "cuMemHostRegister_v2"), 0);
}
