//! Elastic memory, as it arrives in C. What it does is tested in Rust.

use std::ffi::c_void;
use std::ptr;

use rmm_core::sys::{CuDevicePtr, CuStream};
use rmm_core::{CudaStream, Device};
use rmm_rs::calls::access::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::elastic::*;
use rmm_rs::handle::status::*;
use rmm_sim::{Kernel, Machine, Schedule};

use super::common::*;

const PAGE: u64 = 2 << 20;

fn reserve(resource: &Owned, capacity: u64) -> Result<*mut Elastic, i32> {
    let mut elastic = ptr::dangling_mut();
    match c!(rmm_rs_elastic_reserve(resource.0, capacity, ptr::null_mut(), &raw mut elastic)) {
        RMM_RS_OK => Ok(elastic),
        status => {
            assert!(elastic.is_null(), "a failed function stores null");
            Err(status)
        }
    }
}

fn figures(elastic: *const Elastic) -> ElasticFigures {
    let mut figures = ElasticFigures {
        size: size_of::<ElasticFigures>(),
        pointer: ptr::null_mut(),
        capacity: 0,
        page_size: 0,
        committed: 0,
        front: 0,
    };
    assert_eq!(c!(rmm_rs_elastic_figures_get(elastic, &raw mut figures)), RMM_RS_OK);
    figures
}

fn decommit(elastic: *mut Elastic, pages: std::ops::Range<u64>, waits: bool) -> Result<u64, i32> {
    let (mut released, bytes) = (77, (pages.end - pages.start) * PAGE);
    let offset = pages.start * PAGE;
    match c!(rmm_rs_elastic_decommit(elastic, offset, bytes, waits, &raw mut released)) {
        RMM_RS_OK => Ok(released),
        status => {
            assert_eq!(released, 0, "a failed function stores 0");
            Err(status)
        }
    }
}

fn virtual_memory() -> Owned {
    made(|out| c!(rmm_rs_virtual_resource_new(out))).expect("a resource")
}

#[test]
fn ranges_come_and_go_after_the_work_on_them() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let resource = virtual_memory();
    let stream = CudaStream::new().expect("a stream");
    let raw: *mut c_void = stream.as_raw().as_raw();
    let elastic = reserve(&resource, 8 * PAGE - 1).expect("addresses");
    assert_eq!(c!(rmm_rs_elastic_commit(elastic, 0, 2 * PAGE)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_elastic_commit(elastic, 4 * PAGE, PAGE)), RMM_RS_OK);
    let seen = figures(elastic);
    assert_eq!((seen.capacity, seen.page_size), (8 * PAGE, PAGE));
    assert_eq!((seen.committed, seen.front), (3 * PAGE, 2 * PAGE));
    let mut ranges = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    loop {
        let next = c!(rmm_rs_elastic_next_range(elastic, from, &raw mut from, &raw mut bytes));
        assert_eq!(next, RMM_RS_OK);
        if bytes == 0 {
            break;
        }
        ranges.push(from / PAGE..(from + bytes) / PAGE);
        from += bytes;
    }
    assert_eq!(ranges, [0..2, 4..5]);
    let start = CuDevicePtr(seen.pointer.addr() as u64);
    let kernel = Kernel::new("own", |_| ()).writes(start, 64);
    machine.launch(stream.as_raw(), kernel).expect("a launch");
    assert_eq!(c!(rmm_rs_elastic_record_stream(elastic, 0, 64, raw)), RMM_RS_OK);
    assert_eq!(decommit(elastic, 0..1, false), Err(RMM_RS_NOT_READY));
    assert!(last_error().contains("0..2097152"), "{}", last_error());
    assert_eq!(decommit(elastic, 1..2, false), Ok(PAGE));
    assert_eq!(decommit(elastic, 0..1, true), Ok(PAGE));
    assert_eq!(figures(elastic).front, 0);
    c!(rmm_rs_elastic_release(elastic));
    assert_eq!(machine.memory_in_use(0), 0);
    machine.assert_no_violations();
}

#[test]
fn a_default_stream_is_that_of_the_current_device() {
    let machine = Machine::builder().devices(2).schedule(Schedule::Lazy).enter();
    let resource = virtual_memory();
    assert_eq!(c!(rmm_rs_resource_grant_access(resource.0, 1)), RMM_RS_OK);
    let elastic = reserve(&resource, PAGE).expect("addresses");
    assert_eq!(c!(rmm_rs_elastic_commit(elastic, 0, PAGE)), RMM_RS_OK);
    let start = CuDevicePtr(figures(elastic).pointer.addr() as u64);
    for handle in [CuStream::NULL, CuStream::PER_THREAD] {
        let _second = Device::new(1).and_then(Device::make_current).expect("two devices");
        let kernel = Kernel::new("own", |_| ()).writes(start, 64);
        machine.launch(handle, kernel).expect("a launch");
        let raw = handle.as_raw();
        assert_eq!(c!(rmm_rs_elastic_record_stream(elastic, 0, 64, raw)), RMM_RS_OK);
        assert_eq!(decommit(elastic, 0..1, false), Err(RMM_RS_NOT_READY));
    }
    assert_eq!(decommit(elastic, 0..1, true), Ok(PAGE));
    c!(rmm_rs_elastic_release(elastic));
    machine.assert_no_violations();
}

#[test]
fn wrong_ranges_and_resources_are_refused() {
    let _machine = Machine::builder().schedule(Schedule::Eager).enter();
    let resource = virtual_memory();
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("a resource");
    assert_eq!(reserve(&cuda, PAGE), Err(RMM_RS_REFUSED));
    assert_eq!(reserve(&resource, 0), Err(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(reserve(&resource, u64::MAX), Err(RMM_RS_INVALID_ARGUMENT));
    let elastic = reserve(&resource, 4 * PAGE).expect("addresses");
    assert_eq!(c!(rmm_rs_elastic_commit(elastic, PAGE, PAGE)), RMM_RS_OK);
    for (offset, bytes, named) in [
        (1, PAGE, "1..2097153"),
        (0, 0, "the range is empty"),
        (0, 4 * PAGE, "the page at 2097152 is committed"),
        (4 * PAGE, PAGE, "8388608..10485760 of 8388608"),
        (PAGE, u64::MAX, "cannot be addressed"),
    ] {
        let status = c!(rmm_rs_elastic_commit(elastic, offset, bytes));
        assert_eq!(status, RMM_RS_INVALID_ARGUMENT);
        assert!(last_error().contains(named), "{}", last_error());
    }
    assert_eq!(decommit(elastic, 0..2, true), Err(RMM_RS_INVALID_ARGUMENT));
    assert!(last_error().contains("the page at 0 is not committed"), "{}", last_error());
    let bytes = c!(rmm_rs_elastic_record_stream(elastic, 0, 64, ptr::null_mut()));
    assert_eq!(bytes, RMM_RS_INVALID_ARGUMENT);
    let null = ptr::null_mut();
    assert_eq!(c!(rmm_rs_elastic_commit(null, 0, PAGE)), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(c!(rmm_rs_elastic_end_graph_uses(null)), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(c!(rmm_rs_elastic_end_graph_uses(elastic)), RMM_RS_OK);
    c!(rmm_rs_elastic_release(null));
    c!(rmm_rs_elastic_release(elastic));
}
