//! Attributes of managed memory that was prefetched, and of memory for the decompression engine.

use std::ffi::{c_int, c_void};

use rmm_sim::{Machine, Schedule};
use rmm_sys::{
    CuDevice, CuDeviceAttribute, CuDevicePtr, CuMemLocation, CuMemLocationType, CuMemPool,
    CuMemPoolProps, CuMemRangeAttribute, CuPointerAttribute, CuResult, CuStream, MEM_ATTACH_GLOBAL,
    MEM_POOL_CREATE_USAGE_HW_DECOMPRESS,
};

use crate::common::{MIB, alloc, enter, pinned, start};

const DEVICE: CuMemLocation = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 };

fn managed() -> CuDevicePtr {
    let mut pointer = CuDevicePtr::NULL;
    ok!(cuMemAllocManaged(&raw mut pointer, MIB, MEM_ATTACH_GLOBAL));
    pointer
}

fn prefetch(at: CuDevicePtr, bytes: usize, to: CuMemLocation) {
    ok!(cuMemPrefetchAsync_v2(at, bytes, to, 0, CuStream::NULL));
}

fn attribute(of: CuMemRangeAttribute, at: CuDevicePtr, bytes: usize) -> Result<c_int, CuResult> {
    let mut value: c_int = 77;
    let place = (&raw mut value).cast::<c_void>();
    cu!(cuMemRangeGetAttribute(place, 4, of, at, bytes)).result().map(|()| value)
}

fn last(at: CuDevicePtr, bytes: usize) -> CuDevice {
    let found = attribute(CuMemRangeAttribute::LAST_PREFETCH_LOCATION, at, bytes);
    CuDevice(found.expect("the memory is managed"))
}

#[test]
fn freed_memory_has_no_prefetch_location() {
    let (_machine, _here) = start(Schedule::Eager);
    let memory = managed();
    prefetch(memory, MIB, DEVICE);
    ok!(cuMemFree_v2(memory));
    assert_eq!((managed(), last(memory, MIB)), (memory, CuDevice::INVALID));
}

#[test]
fn only_managed_memory_has_attributes_of_ranges() {
    let (_machine, _here) = start(Schedule::Eager);
    let of = CuMemRangeAttribute::LAST_PREFETCH_LOCATION;
    assert_eq!(attribute(of, alloc(MIB), MIB), Err(CuResult::INVALID_VALUE));
    assert_eq!(attribute(of, managed(), MIB + 1), Err(CuResult::INVALID_VALUE));
    assert_eq!(attribute(CuMemRangeAttribute(99), managed(), MIB), Err(CuResult::INVALID_VALUE));
}

fn decompresses(at: CuDevicePtr) -> Result<bool, CuResult> {
    let mut value = false;
    let place = (&raw mut value).cast::<c_void>();
    let attribute = CuPointerAttribute::IS_HW_DECOMPRESS_CAPABLE;
    cu!(cuPointerGetAttribute(place, attribute, at)).result().map(|()| value)
}

#[test]
fn memory_reports_whether_the_decompression_engine_can_use_it() {
    let engine = CuDeviceAttribute::MEM_DECOMPRESS_ALGORITHM_MASK;
    for formats in [0, 1] {
        let (_machine, _here) = enter(Machine::builder().attribute(engine, formats).build());
        for usage in [0, MEM_POOL_CREATE_USAGE_HW_DECOMPRESS] {
            let properties = CuMemPoolProps { usage, ..CuMemPoolProps::pinned(DEVICE) };
            let (mut pool, mut block) = (CuMemPool::NULL, CuDevicePtr::NULL);
            ok!(cuMemPoolCreate(&raw mut pool, &raw const properties));
            ok!(cuMemAllocFromPoolAsync(&raw mut block, MIB, pool, CuStream::NULL));
            assert_eq!(decompresses(block), Ok(formats != 0 && usage != 0));
        }
        let page = CuDevicePtr(pinned(MIB).addr() as u64);
        assert_eq!(decompresses(alloc(MIB)), Ok(formats != 0));
        assert_eq!(decompresses(page), Ok(formats != 0));
        assert_eq!(decompresses(managed()), Ok(false));
    }
}
