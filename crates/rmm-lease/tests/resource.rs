//! The memory of a session below pools: commit, sleep at the same addresses, refusals.
#![cfg(target_os = "linux")]

mod owner;

use std::alloc::Layout;
use std::time::{Duration, Instant};

use owner::Owner;
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, DevicePtr, ErrorKind, SynchronousResource, current_driver};
use rmm_lease::protocol::{Granted, Lock};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource};
use rmm_sim::{Fault, ViolationKind};
use rmm_sys::{CuMemAccessFlags, CuMemLocation, CuMemLocationType, CuResult};

const BYTES: usize = 2 << 20;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("it is small")
}

fn pages(owner: &Owner, lock: Lock) -> LeasedMemoryResource {
    LeasedMemoryResource::new(owner.connect(lock)).expect("the device is here")
}

fn byte_at(pointer: DevicePtr) -> u8 {
    let (mut byte, driver) = ([0_u8; 1], current_driver().expect("there is a driver"));
    // SAFETY: the place has one byte, and the memory is mapped.
    let code = unsafe { driver.cuMemcpyDtoH_v2(byte.as_mut_ptr().cast(), pointer, 1) };
    code.result().expect("it is mapped");
    byte[0]
}

/// Whether work of the device may write there.
fn may_write(pointer: DevicePtr) -> bool {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 };
    let (mut flags, driver) = (0, current_driver().expect("there is a driver"));
    // SAFETY: `flags` may be written to, and the location read.
    let code = unsafe { driver.cuMemGetAccess(&raw mut flags, &raw const location, pointer) };
    code.result().expect("it is mapped");
    flags == CuMemAccessFlags::READ_WRITE.0.into()
}

/// An allocation of this name with this byte, committed.
fn publish(owner: &Owner, id: &str, bytes: usize, value: u8) {
    let mut lease = owner.connect(Lock::Write);
    lease.allocate(id, bytes as u64).expect("there is memory");
    let pages = LeasedMemoryResource::new(lease).expect("the device is here");
    let pointer = pages.map(id).expect("it is allocated").pointer;
    // SAFETY: it is mapped for writing, and nothing else uses it.
    let code = unsafe {
        current_driver().expect("there is a driver").cuMemsetD8_v2(pointer, value, bytes)
    };
    code.result().expect("it is mapped");
    pages.commit().expect("it writes");
}

#[test]
fn a_pool_over_a_lease_publishes_what_was_written() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let pool = PoolMemoryResource::builder(pages.clone()).build().expect("a pool");
    let stream = CudaStream::new().expect("a device");
    let mut weights =
        DeviceBuffer::from_slice_in(&vec![7; 3 << 20], &stream, &pool).expect("memory");
    assert!(may_write(weights.as_ptr()));
    weights.fill(5).expect("it is written");
    pages.commit().expect("it writes");
    assert_eq!(pages.lock(), Some(Granted::Read));
    assert!(!may_write(weights.as_ptr()), "read-only, at the same addresses");
    assert_eq!(byte_at(weights.as_ptr()), 5);
    let error = pages.allocate_sync(layout(BYTES)).expect_err("it reads");
    assert_eq!(error.kind(), ErrorKind::NotReady);
    assert!(matches!(pages.commit(), Err(LeaseError::Refused(_))), "twice");

    let reader = LeasedMemoryResource::new(owner.connect(Lock::Read)).expect("the device is here");
    let record = reader.list().expect("it reads").remove(0);
    let range = reader.map(&record.allocation_id).expect("it is committed");
    assert_eq!(range.bytes, record.aligned_size);
    assert_eq!(reader.map(&record.allocation_id).expect("it is mapped"), range, "once");
    assert_eq!(byte_at(range.pointer), 5);
    assert!(!may_write(range.pointer));
    assert!(matches!(reader.map("other"), Err(LeaseError::Refused(_))));

    drop((weights, pool, pages));
    assert_eq!(byte_at(range.pointer), 5, "what is freed here is the owner's");
    drop((reader, stream, here));
    owner.machine.assert_no_violations();
}

#[test]
fn a_block_that_was_not_freed_stays_mapped() {
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let [block, freed] = [(); 2].map(|()| pages.allocate_sync(layout(BYTES)).expect("memory"));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(freed, layout(BYTES)) };
    pages.commit().expect("it writes");
    let named = pages.list().expect("it reads").remove(0);
    drop(pages);
    byte_at(block);
    let reader = LeasedMemoryResource::new(owner.connect(Lock::Read)).expect("the device is here");
    let range = reader.map(&named.allocation_id).expect("it is committed");
    drop(reader);
    let mut byte = [0_u8; 1];
    let driver = current_driver().expect("there is a driver");
    // SAFETY: the place has one byte; the driver refuses what is not mapped.
    let code = unsafe { driver.cuMemcpyDtoH_v2(byte.as_mut_ptr().cast(), range.pointer, 1) };
    assert_eq!(code, CuResult::INVALID_VALUE, "what was mapped by name goes");
}

#[test]
fn a_pool_says_why_the_owner_has_refused() {
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let pool = PoolMemoryResource::builder(pages.clone()).build().expect("a pool");
    let refused = pool.allocate_sync(layout(1 << 40)).expect_err("no device has a TiB").to_string();
    let why = "the upstream is out of memory, leased says: out of memory: cuMemCreate";
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn a_reader_finds_buffers_by_their_names() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let pool = PoolMemoryResource::builder(pages.clone()).build().expect("a pool");
    let stream = CudaStream::new().expect("a device");
    let buffers: Vec<DeviceBuffer> = (1..=3_u8)
        .map(|value| DeviceBuffer::from_slice_in(&[value; 1000], &stream, &pool).expect("memory"))
        .collect();
    for (index, buffer) in buffers.iter().enumerate() {
        let name = format!("layer {index}");
        pages.put(&name, buffer.as_ptr(), 1000, b"u8[1000]").expect("a part of a block");
    }
    let outside = DeviceBuffer::from_slice(&[0; 10], &stream).expect("memory");
    let refused = pages.put("x", outside.as_ptr(), 10, b"");
    assert!(matches!(refused, Err(LeaseError::Memory(_))), "{refused:?}");
    let beyond = pages.put("x", buffers[0].as_ptr(), u64::MAX, b"");
    assert!(matches!(beyond, Err(LeaseError::Memory(_))), "{beyond:?}");
    let long = pages.put(&"x".repeat(2 << 20), buffers[0].as_ptr(), 1, b"");
    assert!(matches!(long, Err(LeaseError::Frame(_))), "{long:?}");
    pages.commit().expect("it writes");

    let reader = LeasedMemoryResource::new(owner.connect(Lock::Read)).expect("the device is here");
    assert_eq!(reader.names().expect("it reads"), ["layer 0", "layer 1", "layer 2"]);
    for (name, value) in [("layer 2", 3), ("layer 0", 1), ("layer 1", 2)] {
        let found = reader.get(name).expect("it is committed");
        assert_eq!((found.size, &*found.bytes), (1000, &b"u8[1000]"[..]));
        assert_eq!(byte_at(found.pointer), value);
        assert_eq!(byte_at(DevicePtr(found.pointer.0 + 999)), value);
        assert!(!may_write(found.pointer));
    }
    assert!(matches!(reader.get("layer 3"), Err(LeaseError::Refused(_))));
    drop((buffers, outside, pool, pages, reader, stream, here));
    owner.machine.assert_no_violations();
}

#[test]
fn what_was_found_by_a_name_outlives_its_block() {
    let mut owner = Owner::start();
    let machine = owner.machine.clone();
    let here = machine.enter();
    let pages = pages(&owner, Lock::Write);
    let stream = CudaStream::new().expect("a device");
    let weights = DeviceBuffer::from_slice_in(&[7; 1000], &stream, &pages).expect("memory");
    pages.put("weights", weights.as_ptr(), 1000, b"").expect("a part of a block");
    let found = pages.get("weights").expect("it was put").pointer;
    assert_eq!(found, weights.as_ptr());
    let other = DeviceBuffer::from_slice_in(&[8; 1000], &stream, &pages).expect("memory");
    pages.put("other", other.as_ptr(), 1000, b"").expect("a part of a block");
    drop(weights);
    assert_eq!(byte_at(found), 7, "it stays");
    pages.commit().expect("it writes");
    drop(other);
    let again = pages.get("other").expect("it is the owner's").pointer;
    assert_eq!((byte_at(found), byte_at(again)), (7, 8));
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("it reads");
    pages.attach(None).expect("no one writes");
    assert_eq!((byte_at(found), byte_at(again)), (7, 8));
    drop((pages, stream, here));
    owner.end();
    assert_eq!(owner.machine.leaks(), []);
    owner.machine.assert_no_violations();
}

#[test]
fn blocks_of_a_writer_are_freed_at_the_owner() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let first = pages.allocate_sync(layout(1)).expect("memory");
    let second = pages.allocate_sync(layout(BYTES + 1)).expect("memory");
    let sizes: Vec<u64> =
        pages.list().expect("it writes").iter().map(|one| one.aligned_size).collect();
    assert_eq!(sizes, [BYTES as u64, 2 * BYTES as u64], "whole pages");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(first, layout(1)) };
    // SAFETY: as above.
    unsafe { pages.deallocate_sync(second, layout(BYTES + 1)) };
    assert_eq!(pages.list().expect("it writes"), []);
    let odd = Layout::from_size_align(1, 512).expect("a layout");
    assert!(pages.allocate_sync(odd).expect_err("too aligned").is_invalid_argument());
    drop((pages, here));
    assert_eq!(owner.machine.leaks(), []);
    owner.machine.assert_no_violations();
}

#[test]
fn memory_sleeps_and_wakes_at_the_same_addresses() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let stream = CudaStream::new().expect("a device");
    let weights = DeviceBuffer::from_slice_in(&vec![7; BYTES], &stream, &pages).expect("memory");
    // SAFETY: it fails, and unmaps nothing.
    let refused = unsafe { pages.detach() };
    assert!(matches!(refused, Err(LeaseError::State(_))), "not committed: {refused:?}");
    assert!(matches!(pages.attach(None), Err(LeaseError::State(_))), "it is attached");
    pages.commit().expect("it writes");
    let before = weights.as_ptr();
    for _ in 0..3 {
        // SAFETY: nothing uses the memory before it is attached.
        unsafe { pages.detach() }.expect("it reads");
        assert_eq!(pages.lock(), None);
        assert!(matches!(pages.map("x"), Err(LeaseError::State(_))));
        // SAFETY: as above.
        assert!(matches!(unsafe { pages.detach() }, Err(LeaseError::State(_))), "twice");
        pages.attach(None).expect("no one writes");
        assert_eq!((weights.as_ptr(), byte_at(before)), (before, 7));
        assert!(!may_write(before));
    }
    // A block can be freed while it sleeps.
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("it reads");
    drop(weights);
    pages.attach(None).expect("no one writes");
    drop((pages, stream, here));
    owner.machine.assert_no_violations();
}

#[test]
fn writes_after_a_commit_and_uses_of_a_sleeper_are_found() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let stream = CudaStream::new().expect("a device");
    let mut weights =
        DeviceBuffer::from_slice_in(&vec![7; BYTES], &stream, &pages).expect("memory");
    pages.commit().expect("it writes");
    let _refused = weights.fill(6);
    let found = owner.machine.violations();
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [ViolationKind::NoAccess]);
    // SAFETY: the use below is refused.
    unsafe { pages.detach() }.expect("it reads");
    weights.as_slice().to_vec_on(&stream).expect_err("it is unmapped");
    pages.attach(None).expect("no one writes");
    assert_eq!(weights.as_slice().to_vec_on(&stream).expect("it is mapped"), vec![7; BYTES]);
    drop((weights, pages, stream, here));
}

#[test]
fn a_sleeper_lets_a_writer_in_and_wakes_with_what_it_wrote() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    publish(&owner, "weights", BYTES, 1);
    let pages = pages(&owner, Lock::Read);
    let pointer = pages.map("weights").expect("it is committed").pointer;
    let soon = || Some(Instant::now() + Duration::from_millis(30));
    let late = Lease::connect(owner.socket(), Lock::Write, soon());
    assert!(matches!(late, Err(LeaseError::Deadline(_))), "it reads");
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("it reads");
    publish(&owner, "weights", BYTES, 2);
    pages.attach(None).expect("the same layout");
    assert_eq!(byte_at(pointer), 2);
    // SAFETY: as above.
    unsafe { pages.detach() }.expect("it reads");
    publish(&owner, "weights", 2 * BYTES, 3);
    let other = pages.attach(None).expect_err("larger");
    assert!(other.to_string().contains("\"weights\" has 4194304 bytes, and had"), "{other}");
    publish(&owner, "other", BYTES, 3);
    let other = pages.attach(None).expect_err("another name");
    assert!(matches!(&other, LeaseError::Layout(text) if text.contains("not there")), "{other}");
    let writer = owner.connect(Lock::Write);
    assert!(matches!(pages.attach(soon()), Err(LeaseError::Deadline(_))), "one writes");
    drop(writer);
    publish(&owner, "weights", BYTES, 4);
    pages.attach(None).expect("the same layout");
    assert_eq!(byte_at(pointer), 4);
    drop((pages, here));
    owner.machine.assert_no_violations();
}

#[test]
fn a_restarted_owner_is_refused_unless_asked_for() {
    let mut owner = Owner::start();
    let machine = owner.machine.clone();
    let here = machine.enter();
    publish(&owner, "weights", BYTES, 1);
    let pages = pages(&owner, Lock::Read);
    let pointer = pages.map("weights").expect("it is committed").pointer;
    owner.restart();
    assert_eq!(byte_at(pointer), 1, "mappings stay");
    assert!(matches!(pages.list(), Err(LeaseError::Ended)));
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("its session is over");
    publish(&owner, "weights", BYTES, 2);
    assert!(matches!(pages.attach(None), Err(LeaseError::Refused(_))));
    assert_eq!(pages.lock(), None);
    pages.attach_to_any_owner(None).expect("the same layout");
    assert_eq!(byte_at(pointer), 2);
    // SAFETY: as above.
    unsafe { pages.detach() }.expect("it reads");
    pages.attach(None).expect("the owner that it had last");
    // Blocks have names that no other owner has.
    drop(pages);
    let pages = LeasedMemoryResource::new(owner.connect(Lock::Write)).expect("the device is here");
    let block = pages.allocate_sync(layout(BYTES)).expect("memory");
    pages.commit().expect("it writes");
    // SAFETY: as above.
    unsafe { pages.detach() }.expect("it reads");
    owner.restart();
    publish(&owner, "weights", BYTES, 3);
    assert!(matches!(pages.attach_to_any_owner(None), Err(LeaseError::Layout(_))));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(BYTES)) };
    drop((pages, here));
    machine.assert_no_violations();
}

#[test]
fn an_owner_that_has_gone_is_an_error_and_loses_no_mapping() {
    let mut owner = Owner::start();
    let machine = owner.machine.clone();
    let here = machine.enter();
    let pages = pages(&owner, Lock::Write);
    let block = pages.allocate_sync(layout(BYTES)).expect("memory");
    owner.end();
    assert!(matches!(pages.commit(), Err(LeaseError::Ended)));
    assert!(!may_write(block), "it may have been published");
    let error = pages.allocate_sync(layout(BYTES)).expect_err("no owner");
    assert_eq!(error.kind(), ErrorKind::NotReady);
    assert_eq!(byte_at(block), 0);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(BYTES)) };
    drop((pages, here));
    assert_eq!(machine.leaks(), []);
}

#[test]
fn each_call_that_fails_is_an_error_and_leaves_nothing() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let calls = [
        "cuMemCreate",
        "cuMemExportToShareableHandle",
        "cuMemAddressReserve",
        "cuMemImportFromShareableHandle",
        "cuMemGetAllocationPropertiesFromHandle",
        "cuMemMap",
        "cuMemSetAccess",
    ];
    for call in calls {
        owner.machine.fail(Fault::nth(call, 1, CuResult::UNKNOWN));
        pages.allocate_sync(layout(BYTES)).expect_err(call);
        assert_eq!(pages.list().expect("it writes"), [], "{call}");
    }
    owner.machine.fail(Fault::nth("cuMemCreate", 1, CuResult::OUT_OF_MEMORY));
    assert!(pages.allocate_sync(layout(BYTES)).expect_err("no memory").is_out_of_memory());
    let block = pages.allocate_sync(layout(BYTES)).expect("no call fails");

    owner.machine.fail(Fault::nth("cuMemSetAccess", 1, CuResult::UNKNOWN));
    assert!(matches!(pages.commit(), Err(LeaseError::Memory(_))));
    assert_eq!(pages.lock(), Some(Granted::Write));
    assert!(may_write(block));
    pages.commit().expect("no call fails");

    owner.machine.fail(Fault::nth("cuMemUnmap", 1, CuResult::UNKNOWN));
    // SAFETY: nothing uses the memory before it is attached.
    assert!(matches!(unsafe { pages.detach() }, Err(LeaseError::Memory(_))));
    assert_eq!((pages.lock(), byte_at(block)), (Some(Granted::Read), 0));
    // SAFETY: as above.
    unsafe { pages.detach() }.expect("no call fails");
    // The owner has kept the descriptor that the writer got.
    for call in ["cuMemImportFromShareableHandle", "cuMemMap"] {
        owner.machine.fail(Fault::nth(call, 1, CuResult::UNKNOWN));
        pages.attach(None).expect_err(call);
        assert_eq!(pages.lock(), None, "{call}");
    }
    // It cannot be accessed, and is not unmapped either.
    owner.machine.fail(Fault::nth("cuMemSetAccess", 1, CuResult::UNKNOWN));
    owner.machine.fail(Fault::nth("cuMemUnmap", 1, CuResult::UNKNOWN));
    pages.attach(None).expect_err("no access");
    pages.attach(None).expect("no call fails");
    assert_eq!(byte_at(block), 0);
    let counts = owner.machine.call_counts();
    let exports = counts.iter().find(|(name, _)| *name == "cuMemExportToShareableHandle");
    // One that failed, and one for each of six blocks.
    assert_eq!(exports.expect("it was called").1, 7);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(BYTES)) };
    drop((pages, here));
    owner.machine.assert_no_violations();
}

#[test]
fn what_a_failed_detach_has_unmapped_is_not_found() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let blocks = [(), ()].map(|()| pages.allocate_sync(layout(BYTES)).expect("memory"));
    for (index, block) in blocks.into_iter().enumerate() {
        pages.put(&index.to_string(), block, 1, b"").expect("a part of a block");
    }
    let ids: Vec<String> =
        pages.list().expect("it writes").into_iter().map(|one| one.allocation_id).collect();
    pages.commit().expect("it writes");
    owner.machine.fail(Fault::nth("cuMemUnmap", 2, CuResult::UNKNOWN));
    // SAFETY: nothing uses the memory before it is attached, but what is still mapped.
    assert!(matches!(unsafe { pages.detach() }, Err(LeaseError::Memory(_))));
    let is_refused = |outcome: Result<DevicePtr, LeaseError>| match outcome {
        Ok(pointer) => {
            assert_eq!(byte_at(pointer), 0);
            false
        }
        Err(LeaseError::State(text)) => {
            assert!(text.contains("call it again"), "{text}");
            true
        }
        Err(other) => panic!("{other}"),
    };
    let maps = ids.iter().map(|id| is_refused(pages.map(id).map(|found| found.pointer)));
    assert_eq!(maps.filter(|&refused| refused).count(), 1, "one was unmapped");
    let gets = ["0", "1"].map(|name| is_refused(pages.get(name).map(|found| found.pointer)));
    assert_eq!(gets.iter().filter(|&&refused| refused).count(), 1, "one was unmapped");
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("no call fails");
    pages.attach(None).expect("no one writes");
    for (index, block) in blocks.into_iter().enumerate() {
        assert_eq!(pages.get(&index.to_string()).expect("it is mapped").pointer, block);
    }
    drop((pages, here));
    owner.machine.assert_no_violations();
}

#[test]
fn a_writer_whose_session_is_over_can_sleep() {
    let mut owner = Owner::start();
    let machine = owner.machine.clone();
    let here = machine.enter();
    let pages = pages(&owner, Lock::Write);
    let block = pages.allocate_sync(layout(BYTES)).expect("memory");
    owner.restart();
    assert!(matches!(pages.list(), Err(LeaseError::Ended)));
    assert!(matches!(pages.commit(), Err(LeaseError::Ended)));
    assert!(may_write(block), "nothing has changed");
    // SAFETY: nothing uses the memory before it is attached.
    unsafe { pages.detach() }.expect("its session is over");
    assert_eq!(pages.lock(), None);
    publish(&owner, "weights", BYTES, 2);
    assert!(matches!(pages.attach(None), Err(LeaseError::Refused(_))), "another owner");
    let lost = pages.attach_to_any_owner(None);
    assert!(matches!(lost, Err(LeaseError::Layout(_))), "it was not committed: {lost:?}");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(BYTES)) };
    pages.attach_to_any_owner(None).expect("nothing was mapped");
    assert_eq!(byte_at(pages.map("weights").expect("it is committed").pointer), 2);
    drop((pages, here));
    owner.end();
    machine.assert_no_violations();
}

#[test]
fn a_capture_is_not_invalidated() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let pages = pages(&owner, Lock::Write);
    let stream = CudaStream::new().expect("a device");
    let block = pages.allocate_sync(layout(BYTES)).expect("memory");
    let driver = current_driver().expect("there is a driver");
    // SAFETY: the stream is not captured.
    unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), rmm_sys::CuCaptureMode::GLOBAL) }
        .result()
        .expect("it is not captured");
    let second = pages.allocate_sync(layout(BYTES)).expect("no call is refused");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(second, layout(BYTES)) };
    let mut graph = rmm_sys::CuGraph::NULL;
    // SAFETY: `graph` may be written to.
    unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) }
        .result()
        .expect("the capture is valid");
    // SAFETY: it was made above.
    unsafe { driver.cuGraphDestroy(graph) }.result().expect("it was made above");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(BYTES)) };
    drop((pages, stream, here));
    owner.machine.assert_no_violations();
}
