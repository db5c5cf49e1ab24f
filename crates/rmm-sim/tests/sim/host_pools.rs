//! Pools of host and of managed memory, and pageable memory that devices access.

use rmm_sim::{Machine, Schedule};
use rmm_sys::{
    CuDeviceAttribute, CuDevicePtr, CuMemAccessFlags, CuMemAdvise, CuMemAllocationType,
    CuMemLocation, CuMemLocationType, CuMemPool, CuMemPoolAttribute, CuMemPoolProps, CuMemoryType,
    CuPointerAttribute, CuResult, CuStream,
};

use crate::common::{MIB, enter, start, stream};

fn location(kind: CuMemLocationType, id: i32) -> CuMemLocation {
    CuMemLocation { kind, id }
}

const HOST: CuMemLocation = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };

fn create(place: CuMemLocation) -> Result<CuMemPool, CuResult> {
    let (mut pool, props) = (CuMemPool::NULL, CuMemPoolProps::pinned(place));
    cu!(cuMemPoolCreate(&raw mut pool, &raw const props)).result().map(|()| pool)
}

fn alloc_from(pool: CuMemPool, bytes: usize, stream: CuStream) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemAllocFromPoolAsync(&raw mut pointer, bytes, pool, stream)).result().map(|()| pointer)
}

fn reserved(pool: CuMemPool) -> u64 {
    let mut bytes = 0u64;
    let attribute = CuMemPoolAttribute::RESERVED_MEM_CURRENT;
    ok!(cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()));
    bytes
}

fn address(pointer: CuDevicePtr) -> usize {
    usize::try_from(pointer.0).expect("an address")
}

/// Writes and reads a byte as the host.
fn touch(pointer: CuDevicePtr, value: u8) -> u8 {
    let block: *mut u8 = std::ptr::with_exposed_provenance_mut(address(pointer));
    // SAFETY: the tests ask for live memory that the host may touch.
    unsafe { block.write_volatile(value) };
    // SAFETY: as above.
    unsafe { block.read_volatile() }
}

#[test]
fn a_host_pool_allocates_memory_that_the_host_can_access() {
    let (machine, _here) = start(Schedule::Lazy);
    let (pool, stream) = (create(HOST).unwrap(), stream());
    let pointer = alloc_from(pool, MIB, stream).unwrap();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(touch(pointer, 5), 5);
    assert_eq!(machine.memory_in_use(0), 0);
    let (mut kind, attribute) = (CuMemoryType(0), CuPointerAttribute::MEMORY_TYPE);
    ok!(cuPointerGetAttribute((&raw mut kind).cast(), attribute, pointer));
    assert_eq!(kind, CuMemoryType::HOST);
    ok!(cuMemsetD8Async(pointer, 6, 1, stream));
    ok!(cuMemFreeAsync(pointer, stream));
    assert_eq!(alloc_from(pool, MIB, stream), Ok(pointer), "freed and used again in order");
    ok!(cuMemFreeAsync(pointer, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemPoolTrimTo(pool, 0));
    assert_eq!(reserved(pool), 0);
    ok!(cuMemPoolDestroy(pool));
    machine.assert_no_violations();
}

#[test]
fn devices_access_a_host_pool_only_with_a_right() {
    let (_machine, _here) = enter(Machine::builder().devices(2).build());
    let pool = create(HOST).unwrap();
    let mut flags = CuMemAccessFlags::READ;
    let mut first = location(CuMemLocationType::DEVICE, 0);
    ok!(cuMemPoolGetAccess(&raw mut flags, pool, &raw mut first));
    assert_eq!(flags, CuMemAccessFlags::NONE);
    let access = rmm_sys::CuMemAccessDesc { location: first, flags: CuMemAccessFlags::READ_WRITE };
    ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
    ok!(cuMemPoolGetAccess(&raw mut flags, pool, &raw mut first));
    assert_eq!(flags, CuMemAccessFlags::READ_WRITE);
}

#[test]
fn host_pools_exist_where_the_attributes_say_so() {
    let node = location(CuMemLocationType::HOST_NUMA, 0);
    {
        let (_machine, _here) = enter(Machine::builder().driver_version(12090).build());
        assert_eq!(create(HOST), Err(CuResult::NOT_SUPPORTED));
        assert_eq!(create(node), Err(CuResult::NOT_SUPPORTED));
    }
    let numa = CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED;
    let (_machine, _here) = enter(Machine::builder().attribute(numa, 1).build());
    create(HOST).unwrap();
    create(node).unwrap();
    let elsewhere = location(CuMemLocationType::HOST_NUMA, 7);
    assert_eq!(create(elsewhere), Err(CuResult::NOT_SUPPORTED));
}

#[test]
fn each_device_has_a_default_pool_of_managed_memory() {
    let (machine, _here) = enter(Machine::builder().devices(2).build());
    let managed_of = |id| {
        let (mut pool, mut place) = (CuMemPool::NULL, location(CuMemLocationType::DEVICE, id));
        let kind = CuMemAllocationType::MANAGED;
        ok!(cuMemGetDefaultMemPool(&raw mut pool, &raw mut place, kind));
        pool
    };
    assert_ne!(managed_of(0), managed_of(1));
    let (pool, stream) = (managed_of(0), stream());
    assert_eq!(managed_of(0), pool);
    let pointer = alloc_from(pool, MIB, stream).unwrap();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(touch(pointer, 9), 9);
    assert_eq!(machine.memory_in_use(0), 0);
    let (mut managed, attribute) = (0i32, CuPointerAttribute::IS_MANAGED);
    ok!(cuPointerGetAttribute((&raw mut managed).cast(), attribute, pointer));
    assert_eq!(managed, 1);
    ok!(cuMemFreeAsync(pointer, stream));
    assert_eq!(cu!(cuMemPoolDestroy(pool)), CuResult::INVALID_VALUE, "it is the driver's");
}

#[test]
fn pageable_memory_is_accessible_only_with_the_attribute() {
    let mut block = [1u8; 64];
    let pointer = CuDevicePtr(block.as_mut_ptr().expose_provenance() as u64);
    let advise = || {
        let set = CuMemAdvise::SET_PREFERRED_LOCATION;
        cu!(cuMemAdvise_v2(pointer, 64, set, HOST))
    };
    {
        let (_machine, _here) = start(Schedule::Lazy);
        assert_eq!(cu!(cuMemsetD8_v2(pointer, 2, 64)), CuResult::INVALID_VALUE);
        assert_eq!(advise(), CuResult::INVALID_VALUE);
    }
    let pageable = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
    let (_machine, _here) = enter(Machine::builder().attribute(pageable, 1).build());
    ok!(cuMemsetD8_v2(pointer, 2, 64));
    ok!(cuCtxSynchronize());
    assert_eq!(touch(CuDevicePtr(pointer.0 + 1), 3), 3);
    assert_eq!(advise(), CuResult::SUCCESS);
    assert_eq!(cu!(cuMemsetD8_v2(CuDevicePtr::NULL, 2, 64)), CuResult::INVALID_VALUE);
    // SAFETY: the block is alive, and no work uses it.
    assert_eq!(unsafe { block.as_ptr().read_volatile() }, 2);
}
