//! Exports and imports, as they arrive in C. What these do is tested in Rust.

use std::ffi::c_void;
use std::ptr;

use rmm_core::sys::CuDevicePtr;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::driver_pools::*;
use rmm_rs::calls::pool::*;
use rmm_rs::calls::sharing::*;
use rmm_rs::handle::status::*;
use rmm_sim::{Machine, Schedule};

use super::common::*;
use super::resources::options;

const MIB: u64 = 1 << 20;

fn exportable() -> Owned {
    let base = made(|out| {
        c!(rmm_rs_virtual_resource_for_export(RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false, out))
    });
    let base = base.unwrap_or_else(|status| panic!("status {status}: {}", last_error()));
    let with = options();
    made(|out| c!(rmm_rs_pool_new(base.0, &raw const with, out))).expect("a pool")
}

fn kinds(resource: &Owned) -> (u32, bool) {
    let (mut kinds, mut rdma) = (77, true);
    assert_eq!(c!(rmm_rs_export_kinds(resource.0, &raw mut kinds, &raw mut rdma)), RMM_RS_OK);
    (kinds, rdma)
}

/// The pieces of memory, or the status.
fn export(pointer: *const c_void, bytes: u64) -> Result<Vec<ExportPiece>, i32> {
    let (mut pieces, mut count) = (ptr::dangling_mut(), 77);
    let status = c!(rmm_rs_export(pointer, bytes, &raw mut pieces, &raw mut count));
    if status != RMM_RS_OK {
        assert!(pieces.is_null() && count == 0, "a failed function stores null");
        return Err(status);
    }
    let copied = c!(std::slice::from_raw_parts(pieces, count)).to_vec();
    // The descriptors are kept; the array goes.
    for piece in c!(std::slice::from_raw_parts_mut(pieces, count)) {
        piece.file = -1;
    }
    c!(rmm_rs_pieces_release(pieces, count));
    Ok(copied)
}

fn close(pieces: &[ExportPiece]) {
    for piece in pieces {
        assert_eq!(c!(libc::close(piece.file)), 0);
    }
}

fn import(pieces: &[ExportPiece], writable: bool) -> Result<(*mut c_void, *mut Imported), i32> {
    let (mut pointer, mut imported) = (ptr::dangling_mut(), ptr::dangling_mut());
    let (start, count) = (pieces.as_ptr(), pieces.len());
    let places = (&raw mut pointer, &raw mut imported);
    match c!(rmm_rs_import(start, count, 0, writable, places.0, places.1)) {
        RMM_RS_OK => Ok((pointer, imported)),
        status => {
            assert!(pointer.is_null() && imported.is_null(), "a failed function stores null");
            Err(status)
        }
    }
}

#[test]
fn memory_is_exported_and_mapped_again() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let pool = exportable();
    assert_eq!(kinds(&pool), (RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false));
    let block = allocate(&pool, ptr::null_mut(), 5 << 20).expect("there is memory");
    machine.write(CuDevicePtr(block.addr() as u64), &[7; 16]).expect("it is allocated");
    let pieces = export(block, 5 * MIB).expect("it is exportable");
    assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), 5 * MIB);
    for writable in [false, true] {
        let (pointer, imported) = import(&pieces, writable).expect("they are an export");
        let mut seen = [0; 16];
        machine.read(CuDevicePtr(pointer.addr() as u64), &mut seen).expect("it is mapped");
        assert_eq!(seen, [7; 16]);
        c!(rmm_rs_import_release(imported));
    }
    close(&pieces);
    assert_eq!(import(&pieces, false), Err(RMM_RS_INVALID_ARGUMENT), "they are closed");
    assert!(last_error().contains("piece 0: "), "{}", last_error());
    c!(rmm_rs_resource_deallocate(pool.0, ptr::null_mut(), block, 5 << 20, 256));
    machine.assert_no_violations();
}

#[test]
fn blocks_lie_within_one_handle_where_that_is_asked_for() {
    let _machine = Machine::builder().schedule(Schedule::Eager).enter();
    let is_single = |resource: &Owned| {
        let mut single = true;
        let status = c!(rmm_rs_export_has_single_handle(resource.0, &raw mut single));
        (status, single)
    };
    let base = made(|out| {
        c!(rmm_rs_virtual_resource_for_export(RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, false, out))
    });
    let base = base.expect("the device has virtual memory");
    let plain = made(|out| c!(rmm_rs_virtual_resource_new(out))).expect("a resource");
    assert_eq!(is_single(&base), (RMM_RS_OK, true));
    assert_eq!(is_single(&plain), (RMM_RS_OK, false), "it cannot be exported");
    let null = c!(rmm_rs_export_has_single_handle(base.0, ptr::null_mut()));
    assert_eq!(null, RMM_RS_INVALID_ARGUMENT);
    for (flags, segment_size) in [
        (0, 2 * MIB),
        (RMM_RS_POOL_SINGLE_HANDLE, 2 * MIB),
        (RMM_RS_POOL_SINGLE_HANDLE | RMM_RS_POOL_PINNED_SEGMENTS, 8 * MIB),
    ] {
        let with = PoolOptions { flags, segment_size, ..options() };
        let pool = made(|out| c!(rmm_rs_pool_new(base.0, &raw const with, out))).expect("a pool");
        let single = flags & RMM_RS_POOL_SINGLE_HANDLE != 0;
        assert_eq!(is_single(&pool), (RMM_RS_OK, single));
        let block = allocate(&pool, ptr::null_mut(), 5 << 20).expect("there is memory");
        let pieces = export(block, 5 * MIB).expect("it is exportable");
        assert_eq!(pieces.len(), if single { 1 } else { 3 });
        close(&pieces);
        c!(rmm_rs_resource_deallocate(pool.0, ptr::null_mut(), block, 5 << 20, 256));
        let mut trimmed = 77;
        assert_eq!(c!(rmm_rs_pool_trim(pool.0, 0, &raw mut trimmed)), RMM_RS_OK);
        assert_eq!(trimmed == 0, flags & RMM_RS_POOL_PINNED_SEGMENTS != 0, "{trimmed}");
    }
    let odd = PoolOptions { segment_size: 3 * MIB, ..options() };
    let odd = made(|out| c!(rmm_rs_pool_new(base.0, &raw const odd, out))).map(drop);
    assert_eq!(odd, Err(RMM_RS_INVALID_ARGUMENT));
    // A program that was built before there was the last field says so by its size.
    let size = std::mem::offset_of!(PoolOptions, segment_size);
    let older = PoolOptions { size, segment_size: 3 * MIB, ..options() };
    made(|out| c!(rmm_rs_pool_new(base.0, &raw const older, out))).expect("it is not read");
}

#[test]
fn another_device_is_granted_access() {
    let machine = Machine::builder().schedule(Schedule::Eager).devices(2).enter();
    let pool = exportable();
    let block = allocate(&pool, ptr::null_mut(), 100).expect("there is memory");
    let pieces = export(block, 100).expect("it is exportable");
    let (_pointer, imported) = import(&pieces, true).expect("they are an export");
    assert_eq!(c!(rmm_rs_import_grant_access(imported, 1, false)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_import_grant_access(imported, 1, true)), RMM_RS_OK);
    for device in [-1, 7] {
        let refused = c!(rmm_rs_import_grant_access(imported, device, true));
        assert_eq!(refused, RMM_RS_INVALID_ARGUMENT, "{device}");
    }
    let null = c!(rmm_rs_import_grant_access(ptr::null(), 1, true));
    assert_eq!(null, RMM_RS_INVALID_ARGUMENT);
    c!(rmm_rs_import_release(imported));
    close(&pieces);
    c!(rmm_rs_resource_deallocate(pool.0, ptr::null_mut(), block, 100, 256));
    machine.assert_no_violations();
}

#[test]
fn what_is_no_export_is_refused() {
    let _machine = Machine::builder().schedule(Schedule::Eager).enter();
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("a resource");
    assert_eq!(kinds(&cuda), (0, false));
    let foreign = allocate(&cuda, ptr::null_mut(), 100).expect("there is memory");
    assert_eq!(export(foreign, 100).map(drop), Err(RMM_RS_REFUSED));
    assert_eq!(export(foreign, 0).map(drop), Err(RMM_RS_INVALID_ARGUMENT));
    c!(rmm_rs_resource_deallocate(cuda.0, ptr::null_mut(), foreign, 100, 256));
    let fabric =
        |any, kinds| made(|out| c!(rmm_rs_virtual_resource_for_export(kinds, any, out))).map(drop);
    let both = RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR | RMM_RS_EXPORT_FABRIC;
    assert_eq!(fabric(false, both), Err(RMM_RS_REFUSED));
    assert_eq!(fabric(true, RMM_RS_EXPORT_FABRIC), Err(RMM_RS_REFUSED));
    assert_eq!(fabric(true, both), Ok(()));
    assert_eq!(fabric(false, 1 << 20), Err(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(import(&[], false), Err(RMM_RS_INVALID_ARGUMENT));
    let pool = exportable();
    let block = allocate(&pool, ptr::null_mut(), 100).expect("there is memory");
    let pieces = export(block, 100).expect("it is exportable");
    for (kind, file) in [(5, pieces[0].file), (RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR, -1)] {
        let wrong = [ExportPiece { kind, file, ..pieces[0] }];
        assert_eq!(import(&wrong, false), Err(RMM_RS_INVALID_ARGUMENT), "{kind} {file}");
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit may be written to.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    // The descriptor is the highest, as it was the lowest that was free.
    let highest = libc::rlim_t::try_from(pieces[0].file).expect("it is open");
    let least = libc::rlimit { rlim_cur: highest + 1, ..limit };
    // SAFETY: the limit may be read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const least) }, 0);
    let imported = import(&pieces, false);
    let text = last_error();
    let exported = export(block, 100);
    // SAFETY: the limit may be read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    assert_eq!(imported, Err(RMM_RS_NOT_READY));
    assert!(text.contains("Too many open files"), "{text}");
    assert_eq!(exported.map(drop), Err(RMM_RS_CUDA_ERROR));
    assert!(last_error().contains("`ulimit -n`"), "{}", last_error());
    let fabric = [ExportPiece { kind: RMM_RS_EXPORT_FABRIC, ..pieces[0] }];
    assert_eq!(import(&fabric, false), Err(RMM_RS_REFUSED), "there is no fabric");
    close(&pieces);
    c!(rmm_rs_resource_deallocate(pool.0, ptr::null_mut(), block, 100, 256));
    c!(rmm_rs_pieces_release(ptr::null_mut(), 0));
    c!(rmm_rs_import_release(ptr::null_mut()));
}
