//! The functions that PyTorch and ONNX Runtime load, on several software devices.
//!
//! They keep their resources for as long as the process runs, so all tests share one machine. A
//! test whose device other tests must not use has a number of its own.

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;

use rmm_core::sys::{CuCaptureMode, CuGraph, CuResult, Driver};
use rmm_core::{CudaStream, Device, DevicePtr, StreamRef, copy};
use rmm_rs::calls::allocate::{rmm_rs_resource_allocate_sync, rmm_rs_resource_deallocate_sync};
use rmm_rs::calls::base::rmm_rs_cuda_resource_new;
use rmm_rs::calls::pool::rmm_rs_pool_new;
use rmm_rs::calls::registry::rmm_rs_set_per_device_resource;
use rmm_rs::frameworks::ort::*;
use rmm_rs::frameworks::torch::*;
use rmm_rs::handle::library::rmm_rs_last_error_message;
use rmm_rs::handle::resource::rmm_rs_resource_release;
use rmm_rs::handle::status::RMM_RS_OK;
use rmm_sim::Machine;

/// Calls functions of C.
macro_rules! c {
    ($($call:tt)*) => {{
        // SAFETY: the tests pass what the crate's contract asks for: streams and memory that they
        // made before and did not release yet.
        unsafe { $($call)* }
    }};
}

const BYTES: isize = 1 << 20;
const LEGACY: *mut c_void = ptr::null_mut();

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::builder().devices(8).build());

fn device(ordinal: usize) -> rmm_core::DeviceGuard {
    Device::new(ordinal).and_then(Device::make_current).expect("the device is there")
}

fn last_error() -> String {
    let mut buffer = [0_u8; 256];
    let length = c!(rmm_rs_last_error_message(buffer.as_mut_ptr().cast(), buffer.len()));
    String::from_utf8_lossy(&buffer[..length.min(buffer.len() - 1)]).into_owned()
}

/// Enqueues work that uses a block.
fn fill<'s>(stream: impl Into<StreamRef<'s>>, block: *mut c_void) {
    fill_some(stream, block, 1 << 20);
}

/// Enqueues work that uses the beginning of a block.
fn fill_some<'s>(stream: impl Into<StreamRef<'s>>, block: *mut c_void, bytes: usize) {
    let block = DevicePtr::new(block.addr() as u64);
    // SAFETY: the block is allocated; the order of its uses is what is tested.
    unsafe { copy::fill(block, 7, bytes, stream.into()) }.expect("a fill");
}

fn raw(stream: &CudaStream) -> *mut c_void {
    stream.as_raw().as_raw()
}

fn ordinal(device: usize) -> i32 {
    i32::try_from(device).expect("a small number")
}

/// Sets the device's resource to a new pool over `cudaMalloc`, to which only the registry refers.
fn set_new_pool(device: usize) {
    let (mut cuda, mut pool) = (ptr::null(), ptr::null());
    assert_eq!(c!(rmm_rs_cuda_resource_new(&raw mut cuda)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_pool_new(cuda, ptr::null(), &raw mut pool)), RMM_RS_OK);
    assert_eq!(
        c!(rmm_rs_set_per_device_resource(ordinal(device), pool, ptr::null_mut())),
        RMM_RS_OK
    );
    c!(rmm_rs_resource_release(pool));
    c!(rmm_rs_resource_release(cuda));
}

/// A way in which a framework gets and frees memory of the device that is current.
struct Framework {
    name: &'static str,
    allocate: fn(device: usize, stream: &CudaStream) -> *mut c_void,
    free: fn(block: *mut c_void, device: usize, streams: &[CudaStream; 2]),
}

const FRAMEWORKS: [Framework; 3] = [
    Framework {
        name: "PyTorch",
        allocate: |device, stream| c!(rmm_rs_torch_allocate(BYTES, ordinal(device), raw(stream))),
        free: |block, device, [own, _]| {
            c!(rmm_rs_torch_deallocate(block, BYTES, ordinal(device), raw(own)));
        },
    },
    Framework {
        name: "PyTorch, with a recorded stream",
        allocate: |device, stream| c!(rmm_rs_torch_allocate(BYTES, ordinal(device), raw(stream))),
        free: |block, device, [own, other]| {
            c!(rmm_rs_torch_record_stream(block, raw(other)));
            c!(rmm_rs_torch_deallocate(block, BYTES, ordinal(device), raw(own)));
        },
    },
    Framework {
        name: "ONNX Runtime",
        allocate: |_, _| c!(rmm_rs_ort_allocate(1 << 20)),
        free: |block, _, _| c!(rmm_rs_ort_deallocate(block)),
    },
];

#[test]
fn memory_goes_back_to_the_resource_it_came_from() {
    const DEVICE: usize = 2;
    let _entered = MACHINE.enter();
    let _own = device(DEVICE);
    let streams = [(); 2].map(|()| CudaStream::non_blocking().expect("a stream"));
    for framework in &FRAMEWORKS {
        set_new_pool(DEVICE);
        let first = (framework.allocate)(DEVICE, &streams[0]);
        let in_use = MACHINE.memory_in_use(DEVICE);
        set_new_pool(DEVICE);
        assert_eq!(MACHINE.memory_in_use(DEVICE), in_use, "the first pool lives with its block");
        let second = (framework.allocate)(DEVICE, &streams[0]);
        assert_eq!(MACHINE.memory_in_use(DEVICE), 2 * in_use, "{}: the second", framework.name);
        (framework.free)(first, DEVICE, &streams);
        MACHINE.run_all();
        assert_eq!(MACHINE.memory_in_use(DEVICE), in_use, "{}: the first ends", framework.name);
        (framework.free)(second, DEVICE, &streams);
        set_new_pool(DEVICE);
        MACHINE.run_all();
        assert_eq!(MACHINE.memory_in_use(DEVICE), 0, "{}: the second ends", framework.name);
    }
    assert_eq!(last_error(), "");
    MACHINE.assert_no_violations();
}

#[test]
fn memory_is_of_its_device_whichever_is_current() {
    const DEVICE: usize = 6;
    let _entered = MACHINE.enter();
    let own = {
        let _own = device(DEVICE);
        CudaStream::non_blocking().expect("a stream")
    };
    let mut cuda = ptr::null();
    assert_eq!(c!(rmm_rs_cuda_resource_new(&raw mut cuda)), RMM_RS_OK);
    let number = ordinal(DEVICE);
    assert_eq!(c!(rmm_rs_set_per_device_resource(number, cuda, ptr::null_mut())), RMM_RS_OK);
    c!(rmm_rs_resource_release(cuda));
    let _another = device(0);
    for stream in [LEGACY, raw(&own)] {
        let block = c!(rmm_rs_torch_allocate(BYTES, number, stream));
        assert_ne!(MACHINE.memory_in_use(DEVICE), 0);
        c!(rmm_rs_torch_deallocate(block, BYTES, number, stream));
        assert_eq!(MACHINE.memory_in_use(DEVICE), 0);
    }
    MACHINE.assert_no_violations();
}

#[test]
fn a_reset_reaches_a_former_resource_with_live_memory() {
    const DEVICE: usize = 7;
    let _entered = MACHINE.enter();
    let _own = device(DEVICE);
    set_new_pool(DEVICE);
    let number = ordinal(DEVICE);
    let live = c!(rmm_rs_torch_allocate(BYTES, number, LEGACY));
    let idle = c!(rmm_rs_torch_allocate(64 * BYTES, number, LEGACY));
    set_new_pool(DEVICE);
    c!(rmm_rs_torch_deallocate(idle, 64 * BYTES, number, LEGACY));
    MACHINE.run_all();
    assert!(MACHINE.memory_in_use(DEVICE) >= 64 << 20);
    c!(rmm_rs_torch_reset());
    assert!(MACHINE.memory_in_use(DEVICE) < 64 << 20);
    c!(rmm_rs_torch_deallocate(live, BYTES, number, LEGACY));
}

#[test]
fn a_use_of_memory_of_others_is_theirs() {
    let _entered = MACHINE.enter();
    let _own = device(0);
    let stream = CudaStream::non_blocking().expect("a stream");
    let mut cuda = ptr::null();
    assert_eq!(c!(rmm_rs_cuda_resource_new(&raw mut cuda)), RMM_RS_OK);
    let mut foreign = ptr::null_mut();
    let allocated = c!(rmm_rs_resource_allocate_sync(cuda, 1 << 20, 256, &raw mut foreign));
    assert_eq!(allocated, RMM_RS_OK);
    c!(rmm_rs_torch_record_stream(foreign, raw(&stream)));
    assert_eq!(last_error(), "");
    c!(rmm_rs_torch_deallocate(foreign, BYTES, 0, LEGACY));
    assert!(last_error().contains("was allocated here"), "{}", last_error());
    c!(rmm_rs_resource_deallocate_sync(cuda, foreign, 1 << 20, 256));
    c!(rmm_rs_resource_release(cuda));
}

#[test]
fn memory_of_a_default_stream_is_freed_on_its_own_device() {
    let _entered = MACHINE.enter();
    let own = device(1);
    let block = c!(rmm_rs_torch_allocate(BYTES, 1, LEGACY));
    fill(StreamRef::legacy(), block);
    {
        let _another = device(0);
        c!(rmm_rs_torch_deallocate(block, BYTES, 1, LEGACY));
    }
    let other = CudaStream::non_blocking().expect("a stream");
    let again = c!(rmm_rs_torch_allocate(BYTES, 1, raw(&other)));
    fill(&other, again);
    c!(rmm_rs_torch_deallocate(again, BYTES, 1, raw(&other)));
    drop(own);
    assert_eq!(last_error(), "");
    MACHINE.assert_no_violations();
}

#[test]
fn a_stream_of_another_device_may_be_recorded() {
    let _entered = MACHINE.enter();
    let theirs = {
        let _another = device(1);
        CudaStream::non_blocking().expect("a stream")
    };
    let _own = device(0);
    let stream = CudaStream::non_blocking().expect("a stream");
    let block = c!(rmm_rs_torch_allocate(BYTES, 0, raw(&stream)));
    c!(rmm_rs_torch_record_stream(block, raw(&theirs)));
    c!(rmm_rs_torch_deallocate(block, BYTES, 0, raw(&stream)));
    assert_eq!(last_error(), "");
}

#[test]
fn a_block_recorded_on_its_own_stream_is_reused_at_once() {
    let _entered = MACHINE.enter();
    // Its pool has no other free block.
    let _own = device(7);
    let stream = CudaStream::non_blocking().expect("a stream");
    let block = c!(rmm_rs_torch_allocate(BYTES, 7, raw(&stream)));
    c!(rmm_rs_torch_record_stream(block, raw(&stream)));
    c!(rmm_rs_torch_deallocate(block, BYTES, 7, raw(&stream)));
    assert_eq!(c!(rmm_rs_torch_allocate(BYTES, 7, raw(&stream))), block);
    c!(rmm_rs_torch_deallocate(block, BYTES, 7, raw(&stream)));
}

#[test]
fn a_recorded_block_waits_for_the_work_of_all_its_streams() {
    let _entered = MACHINE.enter();
    let _own = device(0);
    let streams = [(); 3].map(|()| CudaStream::non_blocking().expect("a stream"));
    let [computes, copies, next] = &streams;
    for _ in 0..4 {
        let block = c!(rmm_rs_torch_allocate(BYTES, 0, raw(computes)));
        copies.wait_for(computes).expect("a wait");
        // From here on none of the two waits for the other.
        fill_some(computes, block, 1 << 19);
        fill_some(copies, block.wrapping_byte_add(1 << 19), 1 << 19);
        c!(rmm_rs_torch_record_stream(block, raw(copies)));
        c!(rmm_rs_torch_deallocate(block, BYTES, 0, raw(computes)));
        for stream in [next, computes] {
            let block = c!(rmm_rs_torch_allocate(BYTES, 0, raw(stream)));
            fill(stream, block);
            c!(rmm_rs_torch_deallocate(block, BYTES, 0, raw(stream)));
        }
    }
    assert_eq!(last_error(), "");
    MACHINE.assert_no_violations();
}

#[test]
fn a_capture_survives_the_free_of_memory_that_it_uses() {
    let _entered = MACHINE.enter();
    let _own = device(0);
    let driver = Driver::get().expect("the software driver");
    let streams = [(); 2].map(|()| CudaStream::non_blocking().expect("a stream"));
    let [computes, captured] = &streams;
    let block = c!(rmm_rs_torch_allocate(BYTES, 0, raw(computes)));
    c!(rmm_rs_torch_record_stream(block, raw(captured)));
    let mode = CuCaptureMode::GLOBAL;
    let begun = c!(driver.cuStreamBeginCapture_v2(captured.as_raw(), mode));
    assert_eq!(begun, CuResult::SUCCESS);
    c!(rmm_rs_torch_deallocate(block, BYTES, 0, raw(computes)));
    let other = c!(rmm_rs_torch_allocate(BYTES, 0, raw(computes)));
    assert_ne!(other, block, "the capture goes on");
    c!(rmm_rs_torch_deallocate(other, BYTES, 0, raw(computes)));
    let mut graph = CuGraph::NULL;
    let ended = c!(driver.cuStreamEndCapture(captured.as_raw(), &raw mut graph));
    assert_eq!(ended, CuResult::SUCCESS, "the capture is valid");
    let again = c!(rmm_rs_torch_allocate(BYTES, 0, raw(computes)));
    assert_eq!(again, block, "the capture is over");
    c!(rmm_rs_torch_deallocate(again, BYTES, 0, raw(computes)));
    assert_eq!(last_error(), "");
}

#[test]
fn a_reset_reaches_the_devices_behind_one_without_a_pool() {
    let _entered = MACHINE.enter();
    let _device_without_a_pool = device(3);
    let mut cuda = ptr::null();
    assert_eq!(c!(rmm_rs_cuda_resource_new(&raw mut cuda)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_set_per_device_resource(3, cuda, ptr::null_mut())), RMM_RS_OK);
    c!(rmm_rs_resource_release(cuda));
    for ordinal in [3, 4] {
        let _own = device(ordinal);
        let ordinal = i32::try_from(ordinal).expect("a small number");
        let block = c!(rmm_rs_torch_allocate(BYTES, ordinal, LEGACY));
        c!(rmm_rs_torch_deallocate(block, BYTES, ordinal, LEGACY));
    }
    MACHINE.run_all();
    assert_ne!(MACHINE.memory_in_use(4), 0);
    c!(rmm_rs_torch_reset());
    assert_eq!(MACHINE.memory_in_use(4), 0);
}

#[test]
fn onnx_runtime_may_free_with_another_device_current() {
    let _entered = MACHINE.enter();
    let _own = device(5);
    let streams = [(); 2].map(|()| CudaStream::non_blocking().expect("a stream"));
    let block = c!(rmm_rs_ort_allocate(1 << 20));
    fill(&streams[0], block);
    {
        let _another = device(0);
        c!(rmm_rs_ort_deallocate(block));
    }
    let again = c!(rmm_rs_ort_allocate(1 << 20));
    assert_eq!(again, block);
    fill(&streams[1], again);
    c!(rmm_rs_ort_deallocate(again));
    MACHINE.assert_no_violations();
}
