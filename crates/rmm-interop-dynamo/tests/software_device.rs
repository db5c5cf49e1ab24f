//! Dynamo's own types over memory of rmm, on the software device.

use std::sync::Arc;

use dynamo_memory::nixl::{MemType, NixlAgent, NixlCompatible, register_with_nixl};
use dynamo_memory::{ArenaAllocator, Buffer, MemoryDescriptor, StorageKind};
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, HostVec, PinnedVec};
use rmm_core::{CudaStream, HostDeviceAccessible};
use rmm_interop_dynamo::{DeviceStorage, PinnedStorage};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource};

const MIB: usize = 1 << 20;

#[test]
fn pages_of_an_arena_come_from_our_pool_and_go_back() {
    let _machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
    let buffer = DeviceBuffer::zeroed_in(8 * MIB, &CudaStream::new().unwrap(), &pool).unwrap();
    let begin = usize::try_from(buffer.as_ptr().0).unwrap();
    let arena = ArenaAllocator::new(DeviceStorage::new(buffer).unwrap(), MIB).unwrap();
    let pages = [(); 8].map(|()| arena.allocate(MIB).unwrap());
    assert!(arena.allocate(1).is_err(), "all pages are taken");
    let mut addresses = pages.each_ref().map(MemoryDescriptor::addr);
    addresses.sort_unstable();
    assert_eq!(addresses, [0, 1, 2, 3, 4, 5, 6, 7].map(|page| begin + page * MIB));
    let erased = Buffer::new(pages.into_iter().next().unwrap());
    assert_eq!(erased.storage_kind(), StorageKind::Device(0));
    assert_eq!(pool.statistics().live_bytes, 8 << 20);
    drop(arena);
    assert_eq!(pool.statistics().live_bytes, 8 << 20, "a page is in use");
    drop(erased);
    assert_eq!(pool.statistics().live_bytes, 0);
}

#[test]
fn storage_waits_for_the_work_on_it() {
    let machine = rmm_sim::Machine::builder().schedule(rmm_sim::Schedule::Lazy).enter();
    let stream = CudaStream::new().unwrap();
    let storage = DeviceStorage::new(DeviceBuffer::filled(7, MIB, &stream).unwrap()).unwrap();
    assert!(stream.is_idle().unwrap(), "the host has waited");
    let (address, bytes, kind, device) = storage.nixl_params();
    assert_eq!((address.addr(), bytes, kind, device), (storage.addr(), MIB, MemType::Vram, 0));
    let bytes = storage.into_buffer().to_vec().unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    drop(machine);
}

#[test]
fn pinned_vectors_of_the_driver_and_of_a_pool_are_storage() {
    let _machine = rmm_sim::enter();
    let alone = PinnedStorage::new(PinnedVec::<u8>::zeroed(MIB).unwrap()).unwrap();
    assert_eq!((alone.storage_kind(), alone.size()), (StorageKind::Pinned, MIB));
    assert_eq!(alone.nixl_params().2, MemType::Dram);
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    );
    let pool = pool.build().unwrap();
    let pooled = PinnedStorage::new(HostVec::<u8, _>::zeroed_in(MIB, pool.clone()).unwrap());
    let arena = ArenaAllocator::new(pooled.unwrap(), 4096).unwrap();
    assert_eq!(arena.allocate(5000).unwrap().size(), 5000);
    drop(arena);
    assert_eq!(pool.statistics().live_bytes, 0);
}

#[test]
fn empty_memory_is_no_storage() {
    let _machine = rmm_sim::enter();
    let empty = DeviceBuffer::zeroed(0, &CudaStream::new().unwrap()).unwrap();
    assert!(DeviceStorage::new(empty).unwrap_err().is_invalid_argument());
    let empty = PinnedVec::<u8>::zeroed(0).unwrap();
    assert!(PinnedStorage::new(empty).unwrap_err().is_invalid_argument());
}

/// Where NIXL is not installed, its absence is an error.
#[test]
fn a_registration_keeps_the_memory_or_says_why_not() {
    let _machine = rmm_sim::enter();
    let Ok(agent) = NixlAgent::new("rmm") else { return };
    let storage =
        DeviceStorage::new(DeviceBuffer::zeroed(MIB, &CudaStream::new().unwrap()).unwrap());
    match register_with_nixl(storage.unwrap(), &agent, None) {
        Ok(registered) => assert_eq!(Arc::new(registered).size(), MIB),
        Err(storage) => assert_eq!(storage.size(), MIB, "it comes back"),
    }
}
