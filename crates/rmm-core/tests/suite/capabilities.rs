//! Capabilities of each device.

use std::thread;

use rmm_core::Device;
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuDeviceAttribute, CuMemHandleType, CuResult};

use crate::world::calls_of;

#[test]
fn each_attribute_has_its_own_field() {
    use CuDeviceAttribute as A;
    let _machine = Machine::builder()
        .attribute(A::COMPUTE_CAPABILITY_MAJOR, 12)
        .attribute(A::COMPUTE_CAPABILITY_MINOR, 1)
        .attribute(A::INTEGRATED, 1)
        .attribute(A::MEMORY_POOLS_SUPPORTED, 0)
        .attribute(A::MEMPOOL_SUPPORTED_HANDLE_TYPES, 9)
        .attribute(A::MANAGED_MEMORY, 0)
        .attribute(A::MEM_DECOMPRESS_ALGORITHM_MASK, 6)
        .enter();
    let special = Device::current().unwrap().capabilities().unwrap();
    assert_eq!(special.compute_capability, (12, 1));
    assert!(special.integrated && special.decompression);
    assert!(!special.memory_pools && !special.managed_memory);
    let kinds = CuMemHandleType::POSIX_FILE_DESCRIPTOR.0 | CuMemHandleType::FABRIC.0;
    assert_eq!(special.pool_handle_types, CuMemHandleType(kinds));

    let only = |attribute| {
        let machine = [
            A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            A::CONCURRENT_MANAGED_ACCESS,
            A::PAGEABLE_MEMORY_ACCESS,
            A::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
            A::HOST_MEMORY_POOLS_SUPPORTED,
            A::IPC_EVENT_SUPPORTED,
        ]
        .into_iter()
        .fold(Machine::builder(), |builder, other| {
            builder.attribute(other, i32::from(other == attribute))
        })
        .build();
        machine.scope(|| Device::current().unwrap().capabilities().unwrap())
    };
    let fields = [
        only(A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
        only(A::CONCURRENT_MANAGED_ACCESS),
        only(A::PAGEABLE_MEMORY_ACCESS),
        only(A::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
        only(A::HOST_MEMORY_POOLS_SUPPORTED),
        only(A::IPC_EVENT_SUPPORTED),
    ]
    .map(|found| {
        [
            found.virtual_memory,
            found.concurrent_managed_access,
            found.pageable_memory_access,
            found.host_page_tables,
            found.host_memory_pools,
            found.ipc_events,
        ]
    });
    for (row, found) in fields.iter().enumerate() {
        let expected: Vec<bool> = (0..6).map(|column| column == row).collect();
        assert_eq!(found.as_slice(), expected, "attribute {row}");
    }
}

#[test]
fn threads_share_one_query_per_device() {
    let machine = Machine::builder().devices(2).build();
    let ask_all = || {
        let _entered = machine.enter();
        Device::all().unwrap().map(|device| device.capabilities().unwrap()).collect::<Vec<_>>()
    };
    let first = ask_all();
    let asked = calls_of(&machine, "cuDeviceGetAttribute");
    assert!(asked > 0);
    thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(ask_all));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), first);
        }
    });
    assert_eq!(calls_of(&machine, "cuDeviceGetAttribute"), asked);
}

#[test]
fn an_attribute_unknown_to_the_driver_counts_as_unsupported() {
    let machine = rmm_sim::enter();
    let device = Device::current().unwrap();
    machine.fail(Fault::from_nth("cuDeviceGetAttribute", 1, CuResult::INVALID_VALUE));
    let found = device.capabilities().unwrap();
    assert!(!found.memory_pools && !found.managed_memory);
    assert_eq!(found.compute_capability, (0, 0));
}

#[test]
fn a_failed_query_is_an_error_and_not_cached() {
    let machine = rmm_sim::enter();
    let device = Device::current().unwrap();
    machine.fail(Fault::nth("cuDeviceGetAttribute", 3, CuResult::SYSTEM_NOT_READY));
    assert_eq!(device.capabilities().unwrap_err().code(), Some(CuResult::SYSTEM_NOT_READY));
    assert!(device.capabilities().unwrap().memory_pools);
}
