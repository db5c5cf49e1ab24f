//! Virtual memory: mappings, access rights, and refused calls.

use rmm_sim::{Fault, Kernel, LeakKind, Machine, Schedule, ViolationKind};
use rmm_sys::{
    CuDeviceAttribute, CuDevicePtr, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp,
    CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemLocationType, CuMemPool,
    CuMemoryType, CuPointerAttribute, CuResult,
};

use crate::common::{MIB, alloc, alloc_async, enter, peek, start, stream};
use crate::mapped::{
    GRANULE, at, create, grant, grant_to, map, mapped, on_device, release, reserve, rights_of,
    try_create, unmap,
};
use crate::memory::{signal_of_child, touch};

const REFUSED: CuResult = CuResult::INVALID_VALUE;

fn attribute<T: Default>(
    attribute: CuPointerAttribute,
    pointer: CuDevicePtr,
) -> Result<T, CuResult> {
    let mut value = T::default();
    cu!(cuPointerGetAttribute((&raw mut value).cast(), attribute, pointer)).result().map(|()| value)
}

#[test]
fn a_range_grows_where_it_is_and_accesses_span_its_mappings() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, range) = (stream(), reserve(8 * GRANULE));
    // In this order, so that adjacent addresses are not adjacent in physical memory.
    let (second, first) = (create(GRANULE), create(GRANULE));
    map(range, GRANULE, first);
    grant(range, GRANULE);
    ok!(cuMemsetD8Async(range, 1, GRANULE, a));
    let over = at(range, GRANULE - 8);
    assert_eq!(cu!(cuMemsetD8Async(over, 2, 16, a)), REFUSED, "it is not mapped yet");
    map(at(range, GRANULE), GRANULE, second);
    grant(at(range, GRANULE), GRANULE);
    assert_eq!(machine.violations().len(), 1);
    ok!(cuMemsetD32Async(over, 0x0202_0202, 4, a));
    machine
        .launch(
            a,
            Kernel::new("swap", move |memory| {
                let mut bytes = [0; 16];
                memory.read(over, &mut bytes).unwrap();
                assert_eq!(bytes, [2; 16]);
                memory.write(at(over, 4), &[3, 4, 5, 6, 7, 8]).unwrap();
            })
            .writes(over, 16),
        )
        .unwrap();
    let mut bytes = [0_u8; 16];
    ok!(cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), over, 16, a));
    assert_eq!(bytes, [2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 2, 2, 2]);
    // Copies with one side in two pieces, and with both sides in two pieces that are split at
    // different offsets.
    let whole = at(range, 512);
    ok!(cuMemcpyDtoDAsync_v2(whole, over, 16, a));
    let late = at(range, GRANULE - 2);
    ok!(cuMemcpyDtoDAsync_v2(late, whole, 16, a));
    let later = at(range, 2 * GRANULE - 5);
    map(at(range, 2 * GRANULE), GRANULE, create(GRANULE));
    grant(at(range, 2 * GRANULE), GRANULE);
    ok!(cuMemcpyDtoDAsync_v2(later, late, 16, a));
    ok!(cuStreamSynchronize(a));
    for copy in [whole, late, later] {
        let mut seen = [0; 16];
        machine.read(copy, &mut seen).unwrap();
        assert_eq!(seen, bytes);
    }
    assert_eq!(machine.violations().len(), 1);
}

#[test]
fn the_host_cannot_access_mapped_memory() {
    if std::env::var_os("RMM_SIM_CHILD").is_some() {
        let (_machine, _here) = start(Schedule::Eager);
        let memory = mapped(1);
        touch(std::ptr::with_exposed_provenance(usize::try_from(memory.0).unwrap()));
        return;
    }
    let test = "virtual_memory::the_host_cannot_access_mapped_memory";
    assert_eq!(signal_of_child(test), Some(11));
}

#[test]
fn physical_memory_is_counted_until_its_last_reference_ends() {
    let (machine, _here) = start(Schedule::Eager);
    let range = reserve(16 << 30);
    assert_eq!(machine.memory_in_use(0), 0, "addresses cost nothing");
    let handle = create(3 * GRANULE);
    let used = 3 * GRANULE;
    assert_eq!(machine.memory_in_use(0), used);
    map(range, used, handle);
    map(at(range, used), used, handle);
    release(handle);
    assert_eq!(machine.memory_in_use(0), used, "it is mapped");
    let mut again = CuMemHandle(0);
    let inside = std::ptr::with_exposed_provenance_mut(usize::try_from(range.0).unwrap() + 5);
    ok!(cuMemRetainAllocationHandle(&raw mut again, inside));
    assert_eq!(again, handle, "the same handle as it was mapped by");
    unmap(range, 2 * used);
    assert_eq!(machine.memory_in_use(0), used, "there is a reference");
    assert_eq!(cu!(cuMemRetainAllocationHandle(&raw mut again, inside)), REFUSED);
    release(handle);
    assert_eq!(machine.memory_in_use(0), 0);
    machine.assert_no_violations();
}

#[test]
fn physical_memory_takes_what_pools_reserve_before_it_runs_out() {
    let builder = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy);
    let (machine, _here) = enter(builder.build());
    let a = stream();
    let pooled = alloc_async(1, a);
    ok!(cuStreamSynchronize(a));
    ok!(cuMemFree_v2(pooled));
    let handle = create(62 * MIB);
    assert_eq!(try_create(4 * MIB), Err(CuResult::OUT_OF_MEMORY));
    assert_eq!(try_create(1 << 62), Err(CuResult::OUT_OF_MEMORY));
    assert_eq!(machine.memory_in_use(0), 62 * MIB);
    let _last = create(2 * MIB);
    release(handle);
    let _anew = create(62 * MIB);
    let mut pointer = CuDevicePtr::NULL;
    let endless = usize::MAX / GRANULE * GRANULE;
    let code = cu!(cuMemAddressReserve(&raw mut pointer, endless, 0, CuDevicePtr::NULL, 0));
    assert_eq!(code, CuResult::OUT_OF_MEMORY);
}

#[test]
fn new_physical_memory_is_zeroed() {
    let (machine, _here) = start(Schedule::Eager);
    let memory = mapped(1);
    ok!(cuMemsetD8_v2(memory, 9, 2 * MIB));
    ok!(cuCtxSynchronize());
    unmap(memory, GRANULE);
    let anew = create(GRANULE);
    map(memory, GRANULE, anew);
    assert_eq!(peek(&machine, memory), 0);
}

#[test]
fn random_programs_find_the_bytes_that_a_model_predicts() {
    const PLACES: usize = 12;
    let (machine, _here) = start(Schedule::Seeded(5));
    let range = reserve(PLACES * GRANULE);
    let sizes = [1, 1, 2, 3];
    let handles = sizes.map(|granules| create(granules * GRANULE));
    // Only the first and the last byte of each granule are checked.
    let mut bytes = sizes.map(|granules| vec![[0_u8; 2]; granules]);
    let mut places: [Option<(usize, usize)>; PLACES] = [None; PLACES];
    let mut state = 1_usize;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for round in 0..2000_u32 {
        let (place, which) = (below(PLACES), below(sizes.len()));
        let start = at(range, place * GRANULE);
        if below(3) == 0 {
            let free = places.get(place..place + sizes[which]);
            let fits = free.is_some_and(|places| places.iter().all(Option::is_none));
            let code = cu!(cuMemMap(start, sizes[which] * GRANULE, 0, handles[which], 0));
            assert_eq!(code.is_success(), fits, "round {round}");
            if fits {
                grant(start, sizes[which] * GRANULE);
                (0..sizes[which]).for_each(|part| places[place + part] = Some((which, part)));
            }
        } else if let Some((which, part)) = places[place] {
            if below(3) == 0 {
                let first = place - part;
                unmap(at(range, first * GRANULE), sizes[which] * GRANULE);
                places[first..first + sizes[which]].fill(None);
            } else {
                // The last byte of this granule and the first of the next.
                let value = u8::try_from(round % 251).unwrap();
                let next = places.get(place + 1).copied().flatten();
                let code = cu!(cuMemsetD8_v2(at(start, GRANULE - 1), value, 2));
                assert_eq!(code.is_success(), next.is_some(), "round {round}");
                ok!(cuCtxSynchronize());
                if let Some((other, follower)) = next {
                    bytes[which][part][1] = value;
                    bytes[other][follower][0] = value;
                }
            }
        }
        for (place, mapped) in places.iter().enumerate() {
            let Some((which, part)) = *mapped else { continue };
            let start = at(range, place * GRANULE);
            let found = [peek(&machine, start), peek(&machine, at(start, GRANULE - 1))];
            assert_eq!(found, bytes[which][part], "round {round}, place {place}");
        }
    }
    let refused = [ViolationKind::OutOfBounds, ViolationKind::UseAfterFree];
    assert!(machine.violations().iter().all(|violation| refused.contains(&violation.kind)));
}

#[test]
fn reservations_and_mappings_take_no_wrong_arguments() {
    let (_machine, _here) = start(Schedule::Eager);
    let properties = on_device(0);
    for option in [CuMemGranularity::MINIMUM, CuMemGranularity::RECOMMENDED] {
        let mut bytes = 0;
        ok!(cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, option));
        assert_eq!(bytes, GRANULE);
    }
    let mut pointer = CuDevicePtr::NULL;
    let mut reserve_as = |bytes, alignment, flags| {
        cu!(cuMemAddressReserve(&raw mut pointer, bytes, alignment, CuDevicePtr::NULL, flags))
    };
    let wrong = [(65536, 0, 0), (GRANULE, 3, 0), (GRANULE, 0, 1)];
    for (bytes, alignment, flags) in wrong {
        assert_eq!(reserve_as(bytes, alignment, flags), REFUSED, "{bytes} {alignment} {flags}");
    }
    assert_eq!(reserve_as(GRANULE, 1 << 30, 0), CuResult::SUCCESS);
    assert!(pointer.0.is_multiple_of(1 << 30));

    let (range, handle) = (reserve(8 * GRANULE), create(2 * GRANULE));
    let map_as =
        |start, bytes, offset, handle, flags| cu!(cuMemMap(start, bytes, offset, handle, flags));
    let (two, half) = (2 * GRANULE, GRANULE / 2);
    assert_eq!(map_as(range, 0, 0, handle, 0), REFUSED);
    assert_eq!(map_as(range, GRANULE, half, handle, 0), REFUSED);
    assert_eq!(map_as(at(range, 7 * GRANULE), two, 0, handle, 0), REFUSED, "over the end");
    assert_eq!(map_as(range, two, 0, handle, 1), REFUSED);
    assert_eq!(map_as(range, two, 0, CuMemHandle(0), 0), REFUSED);
    assert_eq!(map_as(alloc(8 * MIB), two, 0, handle, 0), REFUSED, "not reserved");
}

#[test]
fn reservations_follow_the_hint_if_they_can() {
    let (_machine, _here) = start(Schedule::Eager);
    let first = reserve(2 * GRANULE);
    let hinted = |hint| {
        let mut pointer = CuDevicePtr::NULL;
        ok!(cuMemAddressReserve(&raw mut pointer, GRANULE, 0, hint, 0));
        pointer
    };
    assert_eq!(hinted(at(first, 8 * GRANULE)), at(first, 8 * GRANULE));
    let taken = hinted(first);
    assert!(taken.0 >= at(first, 2 * GRANULE).0);
    assert!(hinted(at(first, 12 * GRANULE + 512)).0.is_multiple_of(GRANULE as u64));
}

#[test]
fn mappings_are_made_and_ended_whole() {
    let (machine, _here) = start(Schedule::Eager);
    let range = reserve(8 * GRANULE);
    let (a, b) = (create(2 * GRANULE), create(2 * GRANULE));
    map(range, 2 * GRANULE, a);
    map(at(range, 4 * GRANULE), 2 * GRANULE, b);
    for (offset, handle) in [(0, a), (GRANULE, b), (3 * GRANULE, b), (5 * GRANULE, a)] {
        let code = cu!(cuMemMap(at(range, offset), 2 * GRANULE, 0, handle, 0));
        assert_eq!(code, REFUSED, "something is mapped there");
    }
    for (offset, granules) in [(0, 1), (1, 1), (1, 4), (0, 5), (5, 3)] {
        let code = cu!(cuMemUnmap(at(range, offset * GRANULE), granules * GRANULE));
        assert_eq!(code, REFUSED, "a part of a mapping");
    }
    let access = rights(0, CuMemAccessFlags::READ_WRITE);
    for (offset, granules) in [(0, 1), (1, 2), (0, 6), (2, 2)] {
        let start = at(range, offset * GRANULE);
        let code = cu!(cuMemSetAccess(start, granules * GRANULE, &raw const access, 1));
        assert_eq!(code, REFUSED, "not whole mappings without a gap");
    }
    assert_eq!(cu!(cuMemAddressFree(range, 8 * GRANULE)), REFUSED, "something is mapped there");
    assert_eq!(cu!(cuMemUnmap(range, 9 * GRANULE)), REFUSED, "over the end");
    unmap(range, 8 * GRANULE);
    unmap(range, 2 * GRANULE); // unmapping a gap is allowed
    map(at(range, GRANULE), 2 * GRANULE, a);
    unmap(at(range, GRANULE), 2 * GRANULE);
    assert_eq!(cu!(cuMemAddressFree(range, 4 * GRANULE)), REFUSED);
    ok!(cuMemAddressFree(range, 8 * GRANULE));
    machine.assert_no_violations();
}

fn rights(device: i32, flags: CuMemAccessFlags) -> CuMemAccessDesc {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device };
    CuMemAccessDesc { location, flags }
}

#[test]
fn access_rights_are_per_device_and_start_at_none() {
    let (machine, _here) = enter(Machine::builder().devices(2).build());
    let (range, handle) = (reserve(GRANULE), create(GRANULE));
    assert_eq!(rights_of(0, range), Err(REFUSED));
    map(range, GRANULE, handle);
    let none = CuMemAccessFlags::NONE;
    assert_eq!([rights_of(0, range), rights_of(1, range)], [Ok(none); 2]);
    grant_to(1, range, GRANULE, CuMemAccessFlags::READ);
    assert_eq!(rights_of(0, at(range, 9)), Ok(none));
    assert_eq!(rights_of(1, at(range, 9)), Ok(CuMemAccessFlags::READ));
    assert_eq!(rights_of(7, range), Err(CuResult::INVALID_DEVICE));
    let wrong = [
        (rights(0, CuMemAccessFlags(2)), REFUSED),
        (rights(2, CuMemAccessFlags::READ), CuResult::INVALID_DEVICE),
    ];
    for (wrong, code) in wrong {
        let both = [rights(0, CuMemAccessFlags::READ_WRITE), wrong];
        assert_eq!(cu!(cuMemSetAccess(range, GRANULE, both.as_ptr(), 2)), code);
    }
    assert_eq!(rights_of(0, range), Ok(none), "all or nothing");
    unmap(range, GRANULE);
    map(range, GRANULE, handle);
    assert_eq!(rights_of(1, range), Ok(none));
    machine.assert_no_violations();
}

#[test]
fn pointer_attributes_describe_mappings() {
    let (_machine, _here) = start(Schedule::Eager);
    let (range, handle) = (reserve(4 * GRANULE), create(GRANULE));
    let second = at(range, GRANULE);
    let kind = |pointer| attribute::<u32>(CuPointerAttribute::MEMORY_TYPE, pointer);
    map(second, GRANULE, handle);
    assert_eq!(kind(at(second, 5)), Ok(CuMemoryType::DEVICE.0));
    assert_eq!(kind(range), Err(REFUSED), "nothing is mapped there");
    let inside = at(second, 5);
    assert_eq!(attribute(CuPointerAttribute::RANGE_START_ADDR, inside), Ok(range.0));
    assert_eq!(attribute(CuPointerAttribute::RANGE_SIZE, inside), Ok(4 * GRANULE));
    assert_eq!(attribute(CuPointerAttribute::CONTEXT, inside), Ok(0_usize));
    assert_eq!(attribute(CuPointerAttribute::DEVICE_ORDINAL, inside), Ok(0_i32));
    assert_eq!(attribute(CuPointerAttribute::IS_MANAGED, inside), Ok(0_i32));
    assert_eq!(attribute(CuPointerAttribute::MEMPOOL_HANDLE, inside), Ok(CuMemPool::NULL.addr()));
    assert_eq!(attribute::<usize>(CuPointerAttribute::HOST_POINTER, inside), Err(REFUSED));
    assert_eq!(cu!(cuMemFree_v2(second)), REFUSED);
}

#[test]
fn handles_and_addresses_find_their_machine() {
    let (one, _here) = start(Schedule::Eager);
    let (memory, handle) = (mapped(1), create(GRANULE));
    let range = reserve(GRANULE);
    let other = Machine::new();
    other.scope(|| {
        ok!(cuMemsetD8_v2(memory, 5, 16));
        assert_eq!(peek(&one, memory), 5);
        assert_eq!(rights_of(0, memory), Ok(CuMemAccessFlags::READ_WRITE));
        map(range, GRANULE, handle);
        release(handle);
        unmap(range, GRANULE);
        ok!(cuMemAddressFree(range, GRANULE));
        assert_eq!(other.leaks(), []);
        assert!(other.call_counts().is_empty());
    });
    assert_eq!(one.memory_in_use(0), GRANULE);
}

#[test]
fn leaks_of_virtual_memory_are_reported() {
    let (machine, _here) = start(Schedule::Eager);
    let (range, handle) = (reserve(4 * GRANULE), create(2 * GRANULE));
    map(range, 2 * GRANULE, handle);
    let leaks = || machine.leaks().iter().map(|leak| (leak.kind, leak.bytes)).collect::<Vec<_>>();
    let (addresses, mapping) =
        ((LeakKind::AddressRange, 4 * GRANULE), (LeakKind::Mapping, 2 * GRANULE));
    assert_eq!(leaks(), [addresses, (LeakKind::PhysicalMemory, 2 * GRANULE), mapping]);
    release(handle);
    assert_eq!(leaks(), [addresses, mapping]);
    unmap(range, 2 * GRANULE);
    assert_eq!(leaks(), [addresses]);
    ok!(cuMemAddressFree(range, 4 * GRANULE));
    assert_eq!(leaks(), []);
}

#[test]
fn a_refused_call_changes_nothing() {
    let (machine, _here) = start(Schedule::Eager);
    let code = CuResult::UNKNOWN;
    for name in ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemRelease"] {
        machine.fail(Fault::nth(name, 1, code));
    }
    let range = reserve(GRANULE);
    assert_eq!(try_create(GRANULE), Err(code));
    let handle = create(GRANULE);
    assert_eq!(cu!(cuMemMap(range, GRANULE, 0, handle, 0)), code);
    map(range, GRANULE, handle);
    let access = rights(0, CuMemAccessFlags::READ_WRITE);
    assert_eq!(cu!(cuMemSetAccess(range, GRANULE, &raw const access, 1)), code);
    assert_eq!(rights_of(0, range), Ok(CuMemAccessFlags::NONE));
    assert_eq!(cu!(cuMemUnmap(range, GRANULE)), code);
    assert_eq!(cu!(cuMemRelease(handle)), code);
    unmap(range, GRANULE);
    release(handle);
    ok!(cuMemAddressFree(range, GRANULE));
    assert_eq!((machine.leaks(), machine.memory_in_use(0)), (vec![], 0));
}

#[test]
fn unsupported_properties_are_refused() {
    let attribute = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    let (_machine, _here) = enter(Machine::builder().attribute(attribute, 0).build());
    assert_eq!(try_create(GRANULE), Err(CuResult::NOT_SUPPORTED));
    let mut pointer = CuDevicePtr::NULL;
    let code = cu!(cuMemAddressReserve(&raw mut pointer, GRANULE, 0, CuDevicePtr::NULL, 0));
    assert_eq!(code, CuResult::NOT_SUPPORTED);

    let (_machine, _here) = start(Schedule::Eager);
    let exported =
        CuMemAllocationProp { requested_handle_types: CuMemHandleType::WIN32, ..on_device(0) };
    let host = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };
    let cases = [
        (exported, CuResult::NOT_SUPPORTED),
        (CuMemAllocationProp::pinned(host), CuResult::NOT_SUPPORTED),
        (on_device(1), CuResult::INVALID_DEVICE),
    ];
    for (properties, code) in cases {
        let mut handle = CuMemHandle(0);
        assert_eq!(cu!(cuMemCreate(&raw mut handle, GRANULE, &raw const properties, 0)), code);
    }
}

#[test]
fn memory_for_export_and_rdma_is_made_where_the_device_says_so() {
    let exported = CuMemAllocationProp {
        requested_handle_types: CuMemHandleType::POSIX_FILE_DESCRIPTOR,
        ..on_device(0)
    };
    let for_rdma = CuMemAllocationProp { gpu_direct_rdma_capable: 1, ..on_device(0) };
    for (properties, attribute) in [
        (exported, CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
        (for_rdma, CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
    ] {
        for (value, code) in [(0, CuResult::NOT_SUPPORTED), (1, CuResult::SUCCESS)] {
            let (_machine, _here) = enter(Machine::builder().attribute(attribute, value).build());
            let mut handle = CuMemHandle(0);
            assert_eq!(cu!(cuMemCreate(&raw mut handle, GRANULE, &raw const properties, 0)), code);
            if code.is_success() {
                release(handle);
            }
        }
    }
}
