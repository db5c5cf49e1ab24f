//! Pools that are exported, and imported as another process would.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rmm_sim::{Kernel, LeakKind, Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::{
    CuDeviceAttribute, CuDevicePtr, CuMemHandleType, CuMemLocation, CuMemLocationType, CuMemPool,
    CuMemPoolProps, CuMemPoolPtrExportData, CuPointerAttribute, CuResult, CuStream,
};

use crate::common::{MIB, alloc, default_pool, enter, event, peek, start, stream};

const FILE: CuMemHandleType = CuMemHandleType::POSIX_FILE_DESCRIPTOR;

/// A machine that shares pools, entered.
fn sharing() -> (Machine, MachineGuard) {
    let builder = Machine::builder().schedule(Schedule::Lazy).memory(64 * MIB);
    enter(builder.attribute(CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES, 1).build())
}

fn create(handle_types: CuMemHandleType) -> Result<CuMemPool, CuResult> {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 };
    let properties = CuMemPoolProps { handle_types, ..CuMemPoolProps::pinned(location) };
    let mut pool = CuMemPool::NULL;
    cu!(cuMemPoolCreate(&raw mut pool, &raw const properties)).result().map(|()| pool)
}

fn export(pool: CuMemPool) -> Result<OwnedFd, CuResult> {
    let mut file: c_int = -1;
    cu!(cuMemPoolExportToShareableHandle((&raw mut file).cast(), pool, FILE, 0)).result()?;
    // SAFETY: the driver opened it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn import(file: c_int) -> Result<CuMemPool, CuResult> {
    let handle: *mut c_void =
        std::ptr::without_provenance_mut(usize::try_from(file).expect("not negative"));
    let mut pool = CuMemPool::NULL;
    cu!(cuMemPoolImportFromShareableHandle(&raw mut pool, handle, FILE, 0)).result().map(|()| pool)
}

fn export_pointer(pointer: CuDevicePtr) -> Result<CuMemPoolPtrExportData, CuResult> {
    let mut data = CuMemPoolPtrExportData { reserved: [0; 64] };
    cu!(cuMemPoolExportPointer(&raw mut data, pointer)).result().map(|()| data)
}

fn import_pointer(
    pool: CuMemPool,
    mut data: CuMemPoolPtrExportData,
) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemPoolImportPointer(&raw mut pointer, pool, &raw mut data)).result().map(|()| pointer)
}

fn alloc_from(pool: CuMemPool, stream: CuStream) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemAllocFromPoolAsync(&raw mut pointer, 4096, pool, stream)).result().map(|()| pointer)
}

fn kinds(machine: &Machine) -> Vec<ViolationKind> {
    machine.violations().iter().map(|violation| violation.kind).collect()
}

/// A block of an exported pool, and its imported address.
struct Shared {
    pool: CuMemPool,
    imported_pool: CuMemPool,
    home: CuStream,
    away: CuStream,
    block: CuDevicePtr,
    imported: CuDevicePtr,
}

fn shared() -> Shared {
    let pool = create(FILE).expect("it is shared");
    let imported_pool =
        import(export(pool).expect("it is shared").as_raw_fd()).expect("it is shared");
    let (home, away) = (stream(), stream());
    let block = alloc_from(pool, home).expect("it is shared");
    ok!(cuMemsetD8Async(block, 5, 4096, home));
    ok!(cuStreamSynchronize(home));
    let imported = import_pointer(imported_pool, export_pointer(block).expect("it is shared"))
        .expect("it is shared");
    Shared { pool, imported_pool, home, away, block, imported }
}

#[test]
fn an_import_shares_the_exporters_memory() {
    let (machine, _here) = sharing();
    let shared = shared();
    assert_ne!(shared.imported, shared.block);
    assert_eq!(peek(&machine, shared.imported), 5);
    let target = shared.imported;
    let kernel = Kernel::new("write", move |memory| {
        // A refused access is reported.
        let _ignored = memory.write(CuDevicePtr(target.0 + 100), &[6; 8]);
    });
    machine.launch(shared.away, kernel.writes(target, 4096)).unwrap();
    let mut pool = CuMemPool::NULL;
    let attribute = CuPointerAttribute::MEMPOOL_HANDLE;
    ok!(cuPointerGetAttribute((&raw mut pool).cast(), attribute, shared.imported));
    assert_eq!(pool, shared.imported_pool);
    ok!(cuMemFreeAsync(shared.imported, shared.away));
    ok!(cuStreamSynchronize(shared.away));
    assert_eq!(peek(&machine, CuDevicePtr(shared.block.0 + 100)), 6);
    ok!(cuMemFreeAsync(shared.block, shared.home));
    ok!(cuMemPoolDestroy(shared.imported_pool));
    ok!(cuMemPoolDestroy(shared.pool));
    ok!(cuCtxSynchronize());
    machine.assert_no_violations();
    let is_memory = |kind| matches!(kind, LeakKind::Allocation | LeakKind::Pool);
    assert!(!machine.leaks().iter().any(|leak| is_memory(leak.kind)), "{:?}", machine.leaks());
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn accesses_by_both_addresses_are_to_the_same_memory() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemsetD8Async(shared.imported, 1, 64, shared.away));
    ok!(cuMemsetD8Async(shared.block, 2, 64, shared.home));
    assert_eq!(kinds(&machine), [ViolationKind::Race]);
}

#[test]
fn the_exporter_frees_after_the_importer() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemsetD8Async(shared.imported, 1, 64, shared.away));
    ok!(cuMemFreeAsync(shared.imported, shared.away));
    let done = event();
    ok!(cuEventRecord(done, shared.away));
    ok!(cuStreamWaitEvent(shared.home, done, 0));
    ok!(cuMemFreeAsync(shared.block, shared.home));
    ok!(cuCtxSynchronize());
    machine.assert_no_violations();
}

#[test]
fn an_exporter_that_does_not_wait_frees_too_early() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemFreeAsync(shared.imported, shared.away));
    ok!(cuMemFreeAsync(shared.block, shared.home));
    assert_eq!(kinds(&machine), [ViolationKind::FreedInUse]);
}

#[test]
fn an_import_ends_with_the_exported_allocation() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemFreeAsync(shared.block, shared.home));
    assert_eq!(kinds(&machine), [ViolationKind::FreedInUse]);
    let used = cu!(cuMemsetD8Async(shared.imported, 1, 64, shared.away));
    let freed = cu!(cuMemFreeAsync(shared.imported, shared.away));
    assert_eq!([used, freed], [CuResult::INVALID_VALUE; 2]);
    let rest = &kinds(&machine)[1..];
    assert_eq!(rest, [ViolationKind::UseAfterFree, ViolationKind::DoubleFree]);
}

#[test]
fn work_on_freed_memory_is_skipped() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemsetD8Async(shared.imported, 1, 64, shared.away));
    ok!(cuMemFree_v2(shared.block));
    ok!(cuMemPoolDestroy(shared.pool));
    assert_eq!(machine.memory_in_use(0), 0);
    ok!(cuStreamSynchronize(shared.away));
    assert!(kinds(&machine).contains(&ViolationKind::UseAfterFree), "{:?}", kinds(&machine));
}

#[test]
fn work_before_an_import_ends_skips_memory_that_the_exporter_freed() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemsetD8Async(shared.imported, 1, 64, shared.away));
    ok!(cuMemFreeAsync(shared.imported, shared.away));
    ok!(cuMemFreeAsync(shared.block, shared.home));
    ok!(cuMemPoolDestroy(shared.pool));
    ok!(cuStreamSynchronize(shared.home));
    ok!(cuStreamSynchronize(shared.away));
    assert!(kinds(&machine).contains(&ViolationKind::UseAfterFree), "{:?}", kinds(&machine));
}

#[test]
fn an_import_may_be_freed_without_a_stream() {
    let (machine, _here) = sharing();
    let shared = shared();
    ok!(cuMemFree_v2(shared.imported));
    ok!(cuMemFree_v2(shared.block));
    assert_eq!(cu!(cuMemFree_v2(shared.imported)), CuResult::INVALID_VALUE);
    assert_eq!(kinds(&machine), [ViolationKind::DoubleFree]);
}

#[test]
fn imported_pools_do_not_allocate_and_imports_cannot_be_mapped() {
    let (machine, _here) = sharing();
    let shared = shared();
    let refused = CuResult::INVALID_VALUE;
    assert_eq!(alloc_from(shared.imported_pool, shared.away), Err(refused));
    assert_eq!(cu!(cuDeviceSetMemPool(rmm_sys::CuDevice(0), shared.imported_pool)), refused);
    assert_eq!(export(shared.imported_pool).err(), Some(refused), "it is imported");
    assert_eq!(export_pointer(shared.imported), Err(refused));
    let bytes = 2 * MIB;
    assert_eq!(cu!(cuMemAddressFree(shared.imported, bytes)), refused);
    assert_eq!(cu!(cuMemUnmap(shared.imported, bytes)), refused);
    assert_eq!(peek(&machine, shared.imported), 5);
}

#[test]
fn invalid_names_are_refused() {
    let (_machine, _here) = sharing();
    let shared = shared();
    let refused = CuResult::INVALID_VALUE;
    let plain = create(CuMemHandleType::NONE).unwrap();
    assert_eq!(export(plain).err(), Some(refused), "it was not created as shareable");
    assert_eq!(export_pointer(alloc(64)), Err(refused));
    assert_eq!(export_pointer(alloc_from(plain, shared.home).unwrap()), Err(refused));
    let other = File::open("/dev/null").unwrap();
    assert_eq!(import(other.as_raw_fd()), Err(refused));
    assert_eq!(import(c_int::MAX), Err(refused));
    let name = export_pointer(shared.block).unwrap();
    assert_eq!(import_pointer(shared.pool, name), Err(refused), "it was not imported");
    let mut altered = name;
    altered.reserved[0] ^= 1;
    assert_eq!(import_pointer(shared.imported_pool, altered), Err(refused));
    ok!(cuMemFreeAsync(shared.imported, shared.home));
    ok!(cuMemFreeAsync(shared.block, shared.home));
    assert_eq!(import_pointer(shared.imported_pool, name), Err(refused), "it is freed");
}

#[test]
fn devices_share_no_pools_by_default() {
    let (_machine, _here) = start(Schedule::Lazy);
    let unsupported = CuResult::NOT_SUPPORTED;
    assert_eq!(create(FILE), Err(unsupported));
    assert_eq!(export(default_pool()).err(), Some(unsupported));
    assert_eq!(import(0), Err(unsupported));
    assert_eq!(export_pointer(alloc(64)), Err(unsupported));
}
