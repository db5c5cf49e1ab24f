//! Imported memory that is unmapped, mapped again and made read-only at its addresses.

use rmm_core::{Device, ErrorKind, SynchronousResource};
use rmm_resources::{
    ExportHandleTypes, ImportAccess, ImportedMemory, Piece, PieceRange, VirtualMemoryResource,
    export_range,
};
use rmm_sim::Fault;
use rmm_sys::{CuMemAccessFlags, CuMemLocation, CuMemLocationType, CuResult};

use crate::short::{MIB, layout, unified};

fn pages() -> VirtualMemoryResource {
    let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    VirtualMemoryResource::builder().export(types).build().expect("the device has virtual memory")
}

/// The access of device 0, if it is mapped.
fn access(memory: &ImportedMemory) -> Result<u64, CuResult> {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 };
    let (mut flags, driver) = (0, rmm_core::current_driver().expect("there is a driver"));
    // SAFETY: `flags` may be written to, and the location read.
    unsafe { driver.cuMemGetAccess(&raw mut flags, &raw const location, memory.as_ptr()) }
        .result()
        .map(|()| flags)
}

#[test]
fn memory_is_mapped_again_at_its_addresses() {
    let machine = unified().enter();
    let pages = pages();
    let blocks = [(); 2].map(|()| pages.allocate_sync(layout(4 * MIB, 256)).unwrap());
    let pieces = |index: usize, bytes: usize| -> Vec<Piece> {
        export_range(blocks[index], bytes as u64).unwrap()
    };
    machine.write(blocks[0], &[1]).unwrap();
    machine.write(blocks[1], &[2]).unwrap();
    let device = Device::new(0).unwrap();
    let (read, write) = (ImportAccess::ReadOnly, ImportAccess::ReadWrite);
    let (may_read, may_write) = (CuMemAccessFlags::READ.0, CuMemAccessFlags::READ_WRITE.0);
    let mut memory = ImportedMemory::map(pieces(0, 3 * MIB), device, write).unwrap();
    let start = memory.as_ptr();
    assert_eq!(access(&memory), Ok(may_write.into()));
    memory.grant_access(device, read).unwrap();
    assert_eq!(access(&memory), Ok(may_read.into()));
    let error = memory.remap(pieces(1, 3 * MIB), read).unwrap_err();
    assert_eq!((error.kind(), memory.is_mapped()), (ErrorKind::NotReady, true));
    for _ in 0..2 {
        // SAFETY: nothing uses the memory.
        unsafe { memory.unmap() }.unwrap(); // the second time nothing is done
    }
    assert!(!memory.is_mapped() && access(&memory).is_err());
    assert_eq!(memory.grant_access(device, write).unwrap_err().kind(), ErrorKind::NotReady);
    for (other, bytes) in [(0, 4 * MIB), (1, MIB)] {
        let error = memory.remap(pieces(other, bytes), read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bytes} bytes");
    }
    let endless = (0..2).map(|index| {
        let mut piece = pieces(1, 3 * MIB).remove(0);
        let (handle_bytes, bytes) = (1 << 63, 1 << 63);
        piece.range = PieceRange { export: 1, index, count: 2, handle_bytes, offset: 0, bytes };
        piece
    });
    let error = memory.remap(endless.collect(), read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "more than can be addressed");
    for call in ["cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"] {
        machine.fail(Fault::nth(call, 1, CuResult::UNKNOWN));
        memory.remap(pieces(1, 3 * MIB), read).unwrap_err();
        assert!(!memory.is_mapped(), "{call}");
    }
    memory.remap(pieces(1, 3 * MIB), write).unwrap();
    let mut byte = [0];
    machine.read(start, &mut byte).unwrap();
    assert_eq!((memory.as_ptr(), byte, access(&memory)), (start, [2], Ok(may_write.into())));
    // SAFETY: nothing uses the memory.
    unsafe { memory.unmap() }.unwrap();
    drop(memory);
    for block in blocks {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pages.deallocate_sync(block, layout(4 * MIB, 256)) };
    }
    drop(pages);
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn memory_that_cannot_be_closed_stays_mapped_and_is_closed_later() {
    let machine = unified().enter();
    let pages = pages();
    let block = pages.allocate_sync(layout(2 * MIB, 256)).unwrap();
    let pieces = export_range(block, 2 * MIB as u64).unwrap();
    let before = machine.leaks().len();
    let mut memory =
        ImportedMemory::map(pieces, Device::new(0).unwrap(), ImportAccess::ReadOnly).unwrap();
    for (call, code) in [("cuCtxSynchronize", CuResult::UNKNOWN), ("cuMemUnmap", CuResult::UNKNOWN)]
    {
        machine.fail(Fault::from_nth(call, 1, code));
        let (same, error) = memory.close().unwrap_err();
        assert_eq!(error.code(), Some(code), "{call}");
        machine.clear_faults();
        assert!(same.is_mapped() && access(&same).is_ok(), "{call}");
        memory = same;
    }
    machine.fail(Fault::from_nth("cuMemAddressFree", 1, CuResult::UNKNOWN));
    let (memory, _error) = memory.close().unwrap_err();
    machine.clear_faults();
    assert!(access(&memory).is_err());
    memory.close().unwrap();
    assert_eq!(machine.leaks().len(), before);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout(2 * MIB, 256)) };
    machine.assert_no_violations();
}
