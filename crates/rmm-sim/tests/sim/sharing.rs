//! Exported physical memory, in this process and in others.
#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rmm_sim::{Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuMemAccessFlags, CuMemAllocationProp, CuMemHandle,
    CuMemHandleType, CuResult,
};

use crate::common::{MIB, alloc, enter};
use crate::mapped::{GRANULE, grant, grant_to, map, on_device, put, release, reserve, unmap};
use crate::processes::{Peer, parent, receive, role, send};

const FILE: CuMemHandleType = CuMemHandleType::POSIX_FILE_DESCRIPTOR;
const REFUSED: CuResult = CuResult::INVALID_VALUE;
const TOTAL: usize = 64 * MIB;

fn create_as(kind: CuMemHandleType, bytes: usize) -> Result<CuMemHandle, CuResult> {
    let properties = CuMemAllocationProp { requested_handle_types: kind, ..on_device(0) };
    let mut handle = CuMemHandle(0);
    cu!(cuMemCreate(&raw mut handle, bytes, &raw const properties, 0)).result().map(|()| handle)
}

fn create(bytes: usize) -> CuMemHandle {
    create_as(FILE, bytes).expect("there is memory")
}

fn export(handle: CuMemHandle) -> Result<OwnedFd, CuResult> {
    let mut file: c_int = -1;
    cu!(cuMemExportToShareableHandle((&raw mut file).cast(), handle, FILE, 0)).result()?;
    // SAFETY: the driver opened it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn import_raw(file: c_int) -> Result<CuMemHandle, CuResult> {
    let place: *mut c_void =
        std::ptr::without_provenance_mut(usize::try_from(file).unwrap_or(usize::MAX));
    let mut handle = CuMemHandle(0);
    cu!(cuMemImportFromShareableHandle(&raw mut handle, place, FILE)).result().map(|()| handle)
}

fn import(file: &impl AsRawFd) -> Result<CuMemHandle, CuResult> {
    import_raw(file.as_raw_fd())
}

fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(total, TOTAL);
    free
}

fn start() -> (Machine, MachineGuard) {
    start_with(None)
}

fn start_with(ledger: Option<&str>) -> (Machine, MachineGuard) {
    let builder = Machine::builder().memory(TOTAL).schedule(Schedule::Eager);
    enter(match ledger {
        Some(file) => builder.shared(file).build(),
        None => builder.build(),
    })
}

/// Maps memory with read and write access.
fn mapped(handle: CuMemHandle, bytes: usize) -> CuDevicePtr {
    let range = reserve(bytes);
    put(range, bytes, handle);
    range
}

/// A ledger's file, removed when dropped.
struct Ledger(PathBuf);

impl Ledger {
    fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("rmm-sim-{name}-{}", process::id()));
        Self(file)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("the folder's name is text")
    }

    /// The files of processes and of exported memory.
    fn entries(&self) -> usize {
        fs::read_dir(format!("{}.d", self.name())).map_or(0, Iterator::count)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ignored = fs::remove_dir_all(format!("{}.d", self.name()));
        let _ignored = fs::remove_file(&self.0);
    }
}

#[test]
fn a_descriptor_names_the_memory_that_was_exported() {
    let (machine, _here) = start();
    let handle = create(2 * GRANULE);
    let memory = mapped(handle, 2 * GRANULE);
    ok!(cuMemsetD8_v2(memory, 7, 2 * GRANULE));
    let (first, second) = (export(handle).unwrap(), export(handle).unwrap());
    assert_ne!(first.as_raw_fd(), second.as_raw_fd());
    let mut seen = [0; 4];
    machine.read(memory, &mut seen).unwrap();
    assert_eq!(seen, [7; 4], "it kept its bytes");
    let again = import(&first).unwrap();
    let mut properties = on_device(3);
    ok!(cuMemGetAllocationPropertiesFromHandle(&raw mut properties, again));
    assert_eq!((properties.location.id, properties.requested_handle_types), (0, FILE));
    let other = mapped(again, 2 * GRANULE);
    ok!(cuMemsetD8_v2(other, 8, GRANULE));
    ok!(cuCtxSynchronize());
    machine.read(memory, &mut seen).unwrap();
    assert_eq!(seen, [8; 4]);
    assert_eq!(free(), TOTAL - 2 * GRANULE, "it is counted once");
    release(handle);
    release(again);
    unmap(memory, 2 * GRANULE);
    assert_eq!(free(), TOTAL - 2 * GRANULE);
    unmap(other, 2 * GRANULE);
    assert_eq!(free(), TOTAL);
    machine.assert_no_violations();
}

#[test]
fn what_is_no_export_is_refused() {
    let (_machine, _here) = start();
    let private = create_as(CuMemHandleType::NONE, GRANULE).unwrap();
    assert_eq!(export(private).map(drop), Err(REFUSED));
    let handle = create(GRANULE);
    let mut file: c_int = -1;
    let place: *mut c_void = (&raw mut file).cast();
    let kinds = [CuMemHandleType::NONE, CuMemHandleType::FABRIC, CuMemHandleType::WIN32];
    for kind in kinds {
        assert_eq!(cu!(cuMemExportToShareableHandle(place, handle, kind, 0)), REFUSED);
    }
    assert_eq!(cu!(cuMemExportToShareableHandle(place, handle, FILE, 1)), REFUSED);
    assert_eq!(file, -1);
    let closed = export(handle).unwrap().as_raw_fd();
    assert_eq!(import_raw(closed), Err(CuResult::UNKNOWN), "it was closed");
    assert_eq!(import_raw(-1), Err(REFUSED));
    assert_eq!(import(&File::open("/dev/zero").unwrap()), Err(REFUSED));
    assert_eq!(import(&File::open("/proc/self/exe").unwrap()), Err(REFUSED));
    let mut imported = CuMemHandle(0);
    let kind = CuMemHandleType::FABRIC;
    let code = cu!(cuMemImportFromShareableHandle(&raw mut imported, place, kind));
    assert_eq!(code, CuResult::NOT_PERMITTED);
    // The attribute says that there are fabric handles.
    assert_eq!(create_as(kind, GRANULE), Err(CuResult::NOT_PERMITTED));
    let both = CuMemHandleType(kind.0 | FILE.0);
    assert_eq!(create_as(both, GRANULE), Err(CuResult::NOT_PERMITTED));
}

#[test]
fn a_fabric_handle_names_the_memory_in_one_domain() {
    let builder = Machine::builder().memory(TOTAL).schedule(Schedule::Eager);
    let (_machine, _here) = enter(builder.fabric(true).build());
    let handle = create_as(CuMemHandleType::FABRIC, GRANULE).unwrap();
    let mut name = [0_u8; 64];
    let place: *mut c_void = (&raw mut name).cast();
    ok!(cuMemExportToShareableHandle(place, handle, CuMemHandleType::FABRIC, 0));
    let mut file: c_int = -1;
    let file: *mut c_void = (&raw mut file).cast();
    assert_eq!(cu!(cuMemExportToShareableHandle(file, handle, FILE, 0)), REFUSED);
    let import = |place: *mut c_void| {
        let mut imported = CuMemHandle(0);
        let kind = CuMemHandleType::FABRIC;
        let code = cu!(cuMemImportFromShareableHandle(&raw mut imported, place, kind));
        code.result().map(|()| imported)
    };
    assert_eq!(import(place).unwrap(), handle);
    let mut other = [7_u8; 64];
    assert_eq!(import((&raw mut other).cast()), Err(REFUSED));
    ok!(cuMemRelease(handle));
    ok!(cuMemRelease(handle));
    assert_eq!(import(place), Err(REFUSED), "the memory is released");
}

#[test]
fn a_read_only_mapping_is_not_written() {
    let (machine, _here) = start();
    let handle = create(GRANULE);
    let (memory, view) = (mapped(handle, GRANULE), reserve(GRANULE));
    let again = import(&export(handle).unwrap()).unwrap();
    map(view, GRANULE, again);
    grant_to(0, view, GRANULE, CuMemAccessFlags::READ);
    ok!(cuMemsetD8_v2(memory, 3, GRANULE));
    let mut seen = [0_u8; 2];
    ok!(cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), view, 2));
    assert_eq!(seen, [3; 2]);
    assert_eq!(cu!(cuMemsetD8_v2(view, 4, 16)), REFUSED);
    let kinds: Vec<_> = machine.violations().iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, [ViolationKind::NoAccess]);
}

#[test]
fn processes_use_the_same_bytes_after_a_writer_is_killed() {
    const TEST: &str = "sharing::processes_use_the_same_bytes_after_a_writer_is_killed";
    let (machine, _here) = start();
    if role().is_some() {
        let socket = parent();
        let handle = create(GRANULE);
        ok!(cuMemsetD8_v2(mapped(handle, GRANULE), 5, GRANULE));
        ok!(cuCtxSynchronize());
        send(&socket, 0, Some(&export(handle).unwrap()));
        let (_killed, _) = receive(&socket);
        return;
    }
    let mut writer = Peer::start(TEST, "writer", &[]);
    let (_, file) = writer.hear();
    let file = file.expect("a descriptor was sent");
    let handle = import(&file).unwrap();
    let memory = mapped(handle, GRANULE);
    writer.kill();
    drop(file);
    release(handle);
    let mut seen = [0; 4];
    machine.read(memory, &mut seen).unwrap();
    assert_eq!(seen, [5; 4]);
    ok!(cuMemsetD8_v2(memory, 6, 4));
    ok!(cuCtxSynchronize());
    unmap(memory, GRANULE);
    machine.assert_no_violations();
}

/// What a peer of the tests of a ledger does, by number.
fn serve(ledger: &str) {
    let (machine, _here) = start_with(Some(ledger));
    let socket = parent();
    loop {
        let (wanted, file) = receive(&socket);
        if let Some(file) = file {
            let memory = mapped(import(&file).expect("it is an export"), GRANULE);
            let mut byte = [0];
            machine.read(memory, &mut byte).expect("it is mapped");
            send(&socket, u64::from(byte[0]), None);
            continue;
        }
        match wanted {
            0 => return,
            1 => send(&socket, free() as u64, None),
            2 => send(&socket, alloc(GRANULE).0, None),
            3 => {
                let handle = create(GRANULE);
                ok!(cuMemsetD8_v2(mapped(handle, GRANULE), 9, GRANULE));
                send(&socket, 0, Some(&export(handle).expect("it is exportable")));
            }
            4 => {
                // A child that does not end: the parent's memory goes back all the same.
                // SAFETY: the child calls nothing but `pause`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: it has no arguments; the timer ends the child if the test does not.
                    unsafe { libc::alarm(60) };
                    loop {
                        // SAFETY: it has no arguments.
                        unsafe { libc::pause() };
                    }
                }
                send(&socket, u64::try_from(child).expect("it is a process"), None);
            }
            _ => panic!("no such request: {wanted}"),
        }
    }
}

fn ask(peer: &mut Peer, wanted: u64) -> u64 {
    peer.send_to(wanted, None);
    peer.hear().0
}

#[test]
fn free_memory_and_refusals_are_those_of_all_processes() {
    const TEST: &str = "sharing::free_memory_and_refusals_are_those_of_all_processes";
    if let Some(ledger) = role() {
        return serve(&ledger);
    }
    let ledger = Ledger::new("free");
    let (_machine, _here) = start_with(Some(ledger.name()));
    let mut peers = [(); 2].map(|()| Peer::start(TEST, ledger.name(), &[]));
    let own = alloc(32 * MIB);
    for peer in &mut peers {
        ask(peer, 2);
    }
    let left = TOTAL - 32 * MIB - 2 * GRANULE;
    assert_eq!(free(), left);
    for peer in &mut peers {
        assert_eq!(ask(peer, 1), left as u64);
    }
    let mut pointer = CuDevicePtr::NULL;
    let code = cu!(cuMemAlloc_v2(&raw mut pointer, left + 1));
    assert_eq!(code, CuResult::OUT_OF_MEMORY);
    let all = alloc(left);
    assert_eq!(ask(&mut peers[0], 1), 0);
    ok!(cuMemFree_v2(all));
    let [killed, mut other] = peers;
    killed.kill();
    assert_eq!(free(), left + GRANULE, "what it had went back");
    ok!(cuMemFree_v2(own));
    assert_eq!(ask(&mut other, 1), (TOTAL - GRANULE) as u64);
    other.send_to(0, None);
    other.end();
    assert_eq!(free(), TOTAL);
    assert_eq!(ledger.entries(), 1, "this process's own");
}

#[test]
fn a_process_that_is_killed_while_it_counts_holds_up_no_other() {
    const TEST: &str = "sharing::a_process_that_is_killed_while_it_counts_holds_up_no_other";
    if let Some(ledger) = role() {
        let file = File::options().read(true).write(true).open(ledger).expect("it exists");
        // SAFETY: zeros are a valid `flock`.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK.try_into().expect("it fits");
        // SAFETY: the descriptor is open, and the call reads a live `flock`.
        let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &raw const lock) };
        assert_eq!(status, 0);
        send(&parent(), 0, None);
        loop {
            // SAFETY: it has no arguments.
            unsafe { libc::pause() };
        }
    }
    let ledger = Ledger::new("held");
    let (machine, _here) = start_with(Some(ledger.name()));
    let mut holder = Peer::start(TEST, ledger.name(), &[]);
    holder.hear();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _entered = machine.enter();
            let mut context = CuContext::NULL;
            ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
            ok!(cuCtxSetCurrent(context));
            free()
        });
        holder.kill();
        assert_eq!(waiting.join().expect("no panic"), TOTAL);
    });
}

#[test]
fn a_ledger_that_cannot_be_made_is_an_error() {
    let built = Machine::builder().shared("/proc/none/ledger").try_build();
    assert_eq!(built.map(drop), Err(CuResult::OPERATING_SYSTEM));
}

#[test]
fn exported_memory_is_counted_once_until_its_last_handle() {
    const TEST: &str = "sharing::exported_memory_is_counted_once_until_its_last_handle";
    if let Some(ledger) = role() {
        return serve(&ledger);
    }
    let ledger = Ledger::new("exported");
    let (_machine, _here) = start_with(Some(ledger.name()));
    let [mut writer, mut reader] = [(); 2].map(|()| Peer::start(TEST, ledger.name(), &[]));
    writer.send_to(3, None);
    let (_, file) = writer.hear();
    let file = file.expect("a descriptor was sent");
    let with_it = TOTAL - GRANULE;
    assert_eq!(free(), with_it);
    // A child of the writer outlives it, and has no part in the memory.
    let child = ask(&mut writer, 4);
    writer.kill();
    assert_eq!(free(), with_it, "a descriptor is on its way");
    reader.send_to(0x100, Some(&file));
    assert_eq!(reader.hear().0, 9, "the writer's bytes");
    assert_eq!([free() as u64, ask(&mut reader, 1)], [with_it as u64; 2]);
    drop(file);
    assert_eq!(free(), with_it, "the reader has mapped it");
    reader.kill();
    // A program that another test starts meanwhile has the descriptor until it is executed.
    let deadline = Instant::now() + Duration::from_secs(30);
    while free() != TOTAL && Instant::now() < deadline {
        thread::yield_now();
    }
    assert_eq!((free(), ledger.entries()), (TOTAL, 0));
    // SAFETY: the writer's child, which waits for a signal.
    unsafe { libc::kill(libc::pid_t::try_from(child).unwrap(), libc::SIGKILL) };
    // And from here to a peer.
    let mut reader = Peer::start(TEST, ledger.name(), &[]);
    let handle = create(GRANULE);
    let memory = mapped(handle, GRANULE);
    ok!(cuMemsetD8_v2(memory, 4, GRANULE));
    reader.send_to(0x100, Some(&export(handle).unwrap()));
    assert_eq!(reader.hear().0, 4);
    release(handle);
    unmap(memory, GRANULE);
    assert_eq!(free(), with_it, "the reader has it");
    let mut pointer = CuDevicePtr::NULL;
    let code = cu!(cuMemAlloc_v2(&raw mut pointer, TOTAL));
    assert_eq!(code, CuResult::OUT_OF_MEMORY);
    reader.kill();
    while free() != TOTAL && Instant::now() < deadline {
        thread::yield_now();
    }
    let all = alloc(TOTAL);
    ok!(cuMemFree_v2(all));
    // Memory that was shared is zero when it is used again.
    let handle = create(GRANULE);
    let range = reserve(GRANULE);
    map(range, GRANULE, handle);
    grant(range, GRANULE);
    let mut bytes = [1_u8; 4];
    ok!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), range, 4));
    assert_eq!(bytes, [0; 4]);
}
