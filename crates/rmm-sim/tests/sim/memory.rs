//! Memory: faults, accounting, placement, and refused calls.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rmm_sim::{LeakKind, Machine, Schedule};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::common::{MIB, alloc, alloc_async, enter, pinned, start, stream};

/// Runs the named test again in another process, with an environment variable that makes it
/// misbehave.
pub(crate) fn signal_of_child(test: &str) -> Option<i32> {
    let program = std::env::current_exe().expect("the system provides it");
    // A sanitizer's handler would turn the signal into an exit.
    let child = Command::new(program)
        .args([test, "--exact"])
        .env("RMM_SIM_CHILD", "1")
        .env("ASAN_OPTIONS", "handle_segv=0")
        .output();
    child.expect("the test's own program starts").status.signal()
}

pub(crate) fn touch(address: *const u8) {
    // SAFETY: there is nothing valid here; the process is to die of it.
    let byte = unsafe { address.read_volatile() };
    assert_eq!(byte, 0);
}

#[test]
fn the_host_cannot_access_device_memory() {
    if std::env::var_os("RMM_SIM_CHILD").is_some() {
        let (_machine, _here) = start(Schedule::Eager);
        let pointer = alloc(4096);
        touch(std::ptr::with_exposed_provenance(usize::try_from(pointer.0).unwrap()));
        return;
    }
    assert_eq!(signal_of_child("memory::the_host_cannot_access_device_memory"), Some(11));
}

#[test]
fn the_host_cannot_access_freed_pinned_memory() {
    if std::env::var_os("RMM_SIM_CHILD").is_some() {
        let (_machine, _here) = start(Schedule::Eager);
        let pointer = pinned(4096);
        ok!(cuMemFreeHost(pointer.cast()));
        touch(pointer);
        return;
    }
    assert_eq!(signal_of_child("memory::the_host_cannot_access_freed_pinned_memory"), Some(11));
}

#[test]
fn memory_is_counted_until_it_is_freed() {
    let (machine, _here) = start(Schedule::Seeded(1));
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!((free, total), (16 << 30, 16 << 30));
    let small: Vec<_> = (0..4096).map(|_| alloc(512)).collect();
    let large = alloc(MIB);
    let pooled = alloc_async(1, stream());
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(total - free, 2 * MIB + 2 * MIB + 32 * MIB);
    assert_eq!(machine.memory_in_use(0), total - free);
    assert_eq!(
        machine.leaks().iter().filter(|leak| leak.kind == LeakKind::Allocation).count(),
        4098
    );
    for pointer in small.into_iter().chain([large, pooled]) {
        ok!(cuMemFree_v2(pointer));
    }
    ok!(cuCtxSynchronize());
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn memory_runs_out_and_can_be_used_to_the_last_byte() {
    let (machine, _here) = enter(Machine::builder().memory(64 * MIB).build());
    let blocks: Vec<_> = (0..32).map(|_| alloc(2 * MIB)).collect();
    let mut pointer = CuDevicePtr::NULL;
    for bytes in [1, MIB, usize::MAX, usize::MAX - 511] {
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, bytes)), CuResult::OUT_OF_MEMORY);
        assert_eq!(
            cu!(cuMemAllocAsync(&raw mut pointer, bytes, rmm_sys::CuStream::NULL)),
            CuResult::OUT_OF_MEMORY
        );
        assert_eq!(
            cu!(cuMemAllocManaged(&raw mut pointer, usize::MAX, 1)),
            CuResult::OUT_OF_MEMORY
        );
    }
    assert_eq!(pointer, CuDevicePtr::NULL);
    ok!(cuMemFree_v2(blocks[7]));
    assert_eq!(alloc(1), blocks[7]);
    assert_eq!(machine.memory_in_use(0), 64 * MIB);
}

#[test]
fn the_same_calls_have_the_same_addresses() {
    let addresses = || {
        let (_machine, _here) = start(Schedule::Lazy);
        let first = alloc(100);
        let hole = alloc(5 * MIB);
        let rest = [alloc(3 * MIB), alloc(700)];
        ok!(cuMemFree_v2(hole));
        let more = [alloc(MIB), alloc_async(10, stream()), alloc(5 * MIB)];
        rest.into_iter()
            .chain(more)
            .map(|pointer| pointer.0.wrapping_sub(first.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(addresses(), addresses());
}

#[test]
fn allocated_memory_that_is_not_touched_takes_no_host_memory() {
    let (machine, _here) = start(Schedule::Seeded(2));
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok()).unwrap_or(0)
            * 1024
    };
    let before = resident();
    let large: Vec<_> = (0..15).map(|_| alloc(1 << 30)).collect();
    assert_eq!(machine.memory_in_use(0), 15 << 30);
    assert!(resident() < before + 512 * MIB, "15 GiB were not touched");
    let round = |value: u8| {
        ok!(cuMemsetD8_v2(large[0], value, 64 * MIB));
        ok!(cuCtxSynchronize());
    };
    round(1);
    for pointer in &large {
        ok!(cuMemFree_v2(*pointer));
    }
    assert_eq!(alloc(1 << 30), large[0]);
    let mut byte = [9];
    machine.read(large[0], &mut byte).unwrap();
    assert_eq!(byte, [0], "the pages were returned to the system");
}

#[test]
fn frees_of_unallocated_memory_are_refused() {
    let (machine, _here) = start(Schedule::Eager);
    let pointer = alloc(1000);
    assert_eq!(cu!(cuMemFree_v2(CuDevicePtr(pointer.0 + 512))), CuResult::INVALID_VALUE);
    ok!(cuMemFree_v2(pointer));
    assert_eq!(cu!(cuMemFree_v2(pointer)), CuResult::INVALID_VALUE);
    let host = pinned(10);
    assert_eq!(cu!(cuMemFree_v2(CuDevicePtr(host.addr() as u64))), CuResult::INVALID_VALUE);
    ok!(cuMemFreeHost(host.cast()));
    assert_eq!(cu!(cuMemFreeHost(host.cast())), CuResult::INVALID_VALUE);
    ok!(cuMemFree_v2(CuDevicePtr::NULL));
    assert_eq!(machine.leaks(), []);
}

#[test]
fn memory_that_the_host_can_access_is_not_read_by_safe_code() {
    let (machine, _here) = start(Schedule::Eager);
    let page = pinned(16);
    // SAFETY: pinned memory of 16 bytes, which nothing else uses.
    let own = unsafe { std::slice::from_raw_parts_mut(page, 16) };
    let at = CuDevicePtr(page.addr() as u64);
    assert_eq!(machine.read(at, &mut [0]), Err(CuResult::INVALID_VALUE));
    own[0] = 7;
    let mut found = [0];
    // SAFETY: `own` is not used from here on.
    assert_eq!(unsafe { machine.read_shared(at, &mut found) }, Ok(()));
    assert_eq!(found, [7]);
}

#[test]
fn registered_memory_belongs_to_the_program() {
    let (machine, _here) = start(Schedule::Eager);
    let mut memory = vec![0_u8; 4096];
    let start: *mut c_void = memory.as_mut_ptr().cast();
    ok!(cuMemHostRegister_v2(start, 4096, 0));
    let device = CuDevicePtr(start.addr() as u64);
    assert_eq!(machine.read(device, &mut [0]), Err(CuResult::INVALID_VALUE));
    // SAFETY: the memory is not borrowed.
    assert_eq!(unsafe { machine.read_shared(device, &mut [0]) }, Err(CuResult::INVALID_VALUE));
    ok!(cuMemHostUnregister(start));
}

#[test]
fn a_machine_of_more_memory_than_there_are_addresses_is_an_error() {
    for memory in [1 << 62, usize::MAX / 4, usize::MAX] {
        let machine = Machine::builder().memory(memory).try_build();
        assert_eq!(machine.map(drop), Err(CuResult::OUT_OF_MEMORY), "{memory}");
    }
}
