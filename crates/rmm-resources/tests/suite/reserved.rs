//! Reserved addresses: ranges, memory that comes and goes, and refusals of the driver.

use std::cell::Cell;

use rmm_core::{CudaStream, Device, ErrorKind, SynchronousResource};
use rmm_resources::{ReservedAddresses, VirtualMemoryResource};
use rmm_sim::{Checker, Fault, Kernel};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::short::{MIB, layout, unified};

const PAGE: usize = 2 * MIB;

fn decommit_all(addresses: &mut ReservedAddresses) {
    for range in addresses.committed().collect::<Vec<_>>() {
        // SAFETY: nothing uses the pages.
        unsafe { addresses.decommit(range) }.expect("they are committed");
    }
}

#[test]
fn ranges_that_are_wrong_are_named() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(8 * PAGE - 1).unwrap();
    assert_eq!((addresses.bytes(), addresses.page_size()), (8 * PAGE, PAGE));
    addresses.commit(2 * PAGE..4 * PAGE).unwrap();
    let wrong = [
        (0..0, ErrorKind::InvalidArgument, "0..0 of 16777216: the range is empty"),
        (PAGE..PAGE + 1, ErrorKind::InvalidArgument, "2097152..2097153"),
        (1..PAGE, ErrorKind::InvalidArgument, "not of whole pages of 2097152 bytes"),
        (PAGE..3 * PAGE, ErrorKind::InvalidArgument, "the page at 4194304 is committed"),
        (3 * PAGE..5 * PAGE, ErrorKind::InvalidArgument, "the page at 6291456 is committed"),
        (7 * PAGE..9 * PAGE, ErrorKind::OutOfRange, "14680064..18874368 of 16777216"),
        (0..usize::MAX, ErrorKind::OutOfRange, "of 16777216"),
    ];
    for (range, kind, message) in wrong {
        let error = addresses.commit(range).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(message), "{error}");
    }
    for (range, message) in [
        (0..PAGE, "0..2097152 of 16777216: the page at 0 is not committed"),
        (3 * PAGE..5 * PAGE, "the page at 8388608 is not committed"),
        (2 * PAGE..2 * PAGE, "the range is empty"),
        (2 * PAGE..3 * PAGE + 1, "not of whole pages"),
    ] {
        // SAFETY: nothing uses the pages.
        let error = unsafe { addresses.decommit(range) }.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    addresses.check_committed(&(2 * PAGE + 1..4 * PAGE - 1)).unwrap();
    addresses.check_committed(&(0..0)).unwrap();
    assert!(addresses.check_committed(&(2 * PAGE..4 * PAGE + 1)).is_err());
    assert_eq!(resource.statistics().mapped_bytes, 2 * PAGE as u64);
    let error = resource.reserve(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    decommit_all(&mut addresses);
    drop((addresses, resource));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn addresses_are_taken_from_blocks_and_returned() {
    let machine = unified().enter();
    let address_space = 8 * PAGE as u64;
    let resource = VirtualMemoryResource::builder().address_space(address_space).build().unwrap();
    let mut addresses = resource.reserve(4 * PAGE).unwrap();
    addresses.commit(0..PAGE).unwrap();
    let block = resource.allocate_sync(layout(PAGE, 256)).unwrap();
    assert_eq!(block.0, addresses.as_ptr().0 + 4 * PAGE as u64);
    assert_eq!(resource.statistics().blocks, 2);
    let start = addresses.as_ptr();
    decommit_all(&mut addresses);
    drop(addresses);
    assert_eq!(resource.reserve(4 * PAGE).unwrap().as_ptr(), start);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(block, layout(PAGE, 256)) };
    assert_eq!(resource.statistics().reserved_bytes, address_space);
    drop(resource);
    assert_eq!(machine.leaks(), []);
}

// Each page is a block of the resource, so that exports and the access of peers know it.
#[test]
fn pages_are_reached_by_other_devices_that_were_granted_access() {
    let machine = rmm_sim::Machine::builder().devices(2).enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(4 * PAGE).unwrap();
    addresses.commit(0..PAGE).unwrap();
    let other = Device::new(1).unwrap();
    let stream = {
        let _current = other.make_current().unwrap();
        CudaStream::new().unwrap()
    };
    let refused = addresses.check_stream((&stream).into()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    resource.grant_access(other).unwrap();
    addresses.check_stream((&stream).into()).unwrap();
    addresses.commit(PAGE..2 * PAGE).unwrap();
    let start = CuDevicePtr(addresses.as_ptr().0);
    let kernel = Kernel::new("of the other device", |_| ()).writes(start, 2 * PAGE);
    machine.launch(stream.as_raw(), kernel).unwrap();
    stream.synchronize().unwrap();
    decommit_all(&mut addresses);
    drop((stream, addresses, resource));
    machine.assert_no_violations();
}

#[cfg(target_os = "linux")]
#[test]
fn committed_pages_are_exported() {
    let machine = unified().enter();
    let file = rmm_resources::ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let resource = VirtualMemoryResource::builder().export(file).build().unwrap();
    let mut addresses = resource.reserve(4 * PAGE).unwrap();
    addresses.commit(PAGE..3 * PAGE).unwrap();
    let start = rmm_core::DevicePtr(addresses.as_ptr().0 + PAGE as u64);
    let pieces = rmm_resources::export_range(start, 2 * PAGE as u64).unwrap();
    assert_eq!(pieces.len(), 2);
    decommit_all(&mut addresses);
    let refused = rmm_resources::export_range(start, 64).unwrap_err();
    assert!(refused.is_out_of_range(), "{refused}");
    drop((pieces, addresses, resource));
    machine.assert_no_violations();
}

#[test]
fn all_or_nothing_is_committed() {
    let machine = unified().memory(8 * PAGE).enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(32 * PAGE).unwrap();
    addresses.commit(PAGE..3 * PAGE).unwrap();
    let error = addresses.commit(4 * PAGE..12 * PAGE).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("to commit 8388608..25165824 of 67108864"), "{error}");
    assert_eq!(machine.memory_in_use(0), 2 * PAGE);
    addresses.commit(4 * PAGE..10 * PAGE).unwrap();
    decommit_all(&mut addresses);
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn committed_pages_outlive_their_addresses_owner() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(2 * PAGE).unwrap();
    addresses.commit(0..PAGE).unwrap();
    let start = addresses.as_ptr();
    drop(addresses); // the device might still use the page
    assert_eq!(machine.memory_in_use(0), PAGE);
    assert_ne!(resource.reserve(2 * PAGE).unwrap().as_ptr(), start);
    machine.assert_no_violations();
}

#[test]
fn every_call_fails_once_and_nothing_is_lost() {
    let failures = Cell::new(0);
    Checker::new().machine(unified()).fail_each_call(CuResult::UNKNOWN, |machine| {
        let (resource, mut addresses) = machine.without_faults(|| {
            let resource = VirtualMemoryResource::new().unwrap();
            let addresses = resource.reserve(8 * PAGE).unwrap();
            (resource, addresses)
        });
        let committed = addresses.commit(0..3 * PAGE);
        if committed.is_err() {
            failures.set(failures.get() + 1);
            assert_eq!(addresses.committed().count(), 0);
            machine.clear_faults();
            addresses.commit(0..3 * PAGE).unwrap();
        }
        // SAFETY: nothing uses the pages.
        let decommitted = unsafe { addresses.decommit(PAGE..3 * PAGE) };
        machine.clear_faults();
        if decommitted.is_err() {
            failures.set(failures.get() + 1);
            if addresses.check_committed(&(PAGE..3 * PAGE)).is_ok() {
                // SAFETY: as above.
                unsafe { addresses.decommit(PAGE..3 * PAGE) }.unwrap();
            }
        }
        assert_eq!(addresses.committed().next(), Some(0..PAGE));
        assert_eq!(addresses.committed().count(), 1);
        addresses.commit(PAGE..3 * PAGE).unwrap();
        assert_eq!(machine.memory_in_use(0), 3 * PAGE);
        assert_eq!(resource.statistics().mapped_bytes, 3 * PAGE as u64);
        decommit_all(&mut addresses);
        assert_eq!(resource.statistics().mapped_bytes, 0);
        assert_eq!(resource.statistics().blocks, 0);
        drop((addresses, resource));
        assert_eq!(machine.leaks(), []);
    });
    assert!(failures.get() > 8, "{}", failures.get());
}

// The failures after the first are of both pages, at the step back and at the next commit.
#[test]
fn a_page_that_is_not_unmapped_is_tried_again() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(4 * PAGE).unwrap();
    machine.fail(Fault::nth("cuMemSetAccess", 1, CuResult::UNKNOWN));
    for number in 1..=4 {
        machine.fail(Fault::nth("cuMemUnmap", number, CuResult::UNKNOWN));
    }
    addresses.commit(0..2 * PAGE).unwrap_err();
    assert_eq!(machine.memory_in_use(0), 2 * PAGE);
    assert_eq!(addresses.commit(0..PAGE).unwrap_err().kind(), ErrorKind::NotReady);
    assert_eq!(resource.statistics().mapped_bytes, 2 * PAGE as u64);
    addresses.commit(0..2 * PAGE).unwrap();
    assert_eq!(resource.statistics().mapped_bytes, 2 * PAGE as u64);
    decommit_all(&mut addresses);
    drop((addresses, resource));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn a_commit_asks_once_for_access_to_all_of_its_pages() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut addresses = resource.reserve(16 * PAGE).unwrap();
    let calls = |name| {
        let counts = machine.call_counts();
        counts.into_iter().find(|&(call, _)| call == name).map_or(0, |(_, count)| count)
    };
    addresses.commit(2 * PAGE..10 * PAGE).unwrap();
    assert_eq!((calls("cuMemMap"), calls("cuMemSetAccess")), (8, 1));
    decommit_all(&mut addresses);
    let in_use = machine.memory_in_use(0);
    machine.fail(Fault::nth("cuMemSetAccess", 1, CuResult::UNKNOWN));
    addresses.commit(0..4 * PAGE).expect_err("the driver refuses");
    assert_eq!((machine.memory_in_use(0), resource.statistics().mapped_bytes), (in_use, 0));
    addresses.commit(0..4 * PAGE).unwrap();
    decommit_all(&mut addresses);
    drop((addresses, resource));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}
