//! Device memory that other processes map, and theirs.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::{fmt, ptr, slice};

use rmm_core::{AnyResource, Device, DevicePtr, Introspect};
use rmm_resources::{
    Export, ExportHandleTypes, ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle,
    VirtualMemoryResource, export_range,
};

use super::driver_pools::{RMM_RS_EXPORT_FABRIC, RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR};
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::library::clear_mut;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::{RMM_RS_NOT_READY, Status};

/// A piece of an export: a handle of the driver to physical memory, and which part of it is meant.
/// It has no size of its own, and its layout stays, since programs send it to each other; the
/// descriptor travels by `SCM_RIGHTS`, and the receiver stores its own number.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ExportPiece {
    /// A number that the pieces of one export share.
    pub export_id: u64,
    /// Which piece of the export it is, from 0 on.
    pub index: u64,
    /// How many pieces the export has.
    pub count: u64,
    /// The bytes of the handle's memory, which can be mapped only as a whole.
    pub handle_bytes: u64,
    /// Where the piece begins in the handle's memory, in bytes.
    pub offset: u64,
    /// The bytes of the piece.
    pub bytes: u64,
    /// One of `RMM_RS_EXPORT_*`.
    pub kind: u32,
    /// The file descriptor; -1 for a fabric handle.
    pub file: i32,
    /// The fabric handle; zeros for a file descriptor.
    pub fabric: [u8; 64],
}

impl fmt::Debug for ExportPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportPiece")
            .field("index", &self.index)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl ExportPiece {
    /// The descriptor is the caller's from here on.
    fn from_piece(piece: Piece) -> Self {
        let PieceRange { export, index, count, handle_bytes, offset, bytes } = piece.range;
        let fabric = piece.handle.fabric_bytes();
        let kind = if fabric.is_some() {
            RMM_RS_EXPORT_FABRIC
        } else {
            RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR
        };
        let file = piece.handle.into_descriptor().map_or(-1, OwnedFd::into_raw_fd);
        let fabric = fabric.unwrap_or([0; 64]);
        Self { export_id: export, index, count, handle_bytes, offset, bytes, kind, file, fabric }
    }

    /// The piece with a duplicate of the descriptor.
    ///
    /// # Safety
    /// The descriptor is not closed during the call.
    unsafe fn to_piece(self) -> Result<Piece, Failure> {
        let Self { export_id: export, index, count, handle_bytes, offset, bytes, .. } = self;
        let handle = match self.kind {
            RMM_RS_EXPORT_FABRIC => ShareableHandle::from_fabric_bytes(self.fabric),
            RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR => {
                let file = self.file;
                let closed = || Failure::invalid(format!("piece {index}: {file} is no open file"));
                let file = Some(file).filter(|&file| file >= 0).ok_or_else(closed)?;
                // SAFETY: it is not -1; the caller's contract.
                let file = unsafe { BorrowedFd::borrow_raw(file) };
                let copied = file.try_clone_to_owned().map_err(|error| {
                    if error.raw_os_error() == Some(libc::EBADF) {
                        return closed();
                    }
                    // This process has no descriptor left.
                    Failure::plain(RMM_RS_NOT_READY, format!("piece {index}: {error}"))
                });
                copied?.into()
            }
            other => {
                return Err(Failure::invalid(format!(
                    "piece {index}: {other} is no type of handle"
                )));
            }
        };
        let range = PieceRange { export, index, count, handle_bytes, offset, bytes };
        Ok(Piece { handle, range })
    }
}

/// Memory of another process that is mapped.
#[derive(Debug)]
pub struct Imported {
    memory: ImportedMemory,
}

/// Makes a resource as `rmm_rs_virtual_resource_new` does, whose memory can be exported as handles
/// of these types (bits of `RMM_RS_EXPORT_*`): of all of them, or, if `any` is true, of the first
/// of fabric handles and file descriptors that the device can make, which a page is made to find
/// out. `RMM_RS_REFUSED` if the device cannot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_virtual_resource_for_export(
    kinds: u32,
    any: bool,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let types = ExportHandleTypes::from_bits(kinds);
        let types = types.ok_or_else(|| Failure::invalid(format!("{kinds} has unknown types")))?;
        let builder = VirtualMemoryResource::builder();
        let builder = if any { builder.export_any_of(types) } else { builder.export(types) };
        Ok(ResourceHandle::base(AnyResource::new(builder.build()?)))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Stores the types of handles as which the resource's memory can be exported, also through pools
/// and adaptors, and whether network cards can access it (`GPUDirect` RDMA); 0 and false if it
/// cannot be exported or does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_export_kinds(
    resource: *const ResourceHandle,
    kinds: *mut u32,
    rdma: *mut bool,
) -> Status {
    let store = |export: Option<Export>| {
        if !kinds.is_null() {
            // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
            unsafe { kinds.write(export.map_or(0, |export| export.handles.bits())) };
        }
        if !rdma.is_null() {
            // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
            unsafe { rdma.write(export.is_some_and(|export| export.rdma)) };
        }
    };
    store(None);
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        store(resource.any.try_property::<Export>());
        Ok(())
    })
}

/// Stores whether each block of the resource lies within the memory of one handle, so that its
/// export has one piece, also through pools and adaptors; false if it may span several, cannot be
/// exported, or does not know. A pool's does with `RMM_RS_POOL_SINGLE_HANDLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_export_has_single_handle(
    resource: *const ResourceHandle,
    out: *mut bool,
) -> Status {
    if !out.is_null() {
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { out.write(false) };
    }
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the answer is null"));
        }
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let export = resource.any.try_property::<Export>();
        let single = export.is_some_and(|it| it.single_handle && !it.handles.is_empty());
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { out.write(single) };
        Ok(())
    })
}

/// Exports memory at an address for other processes: blocks of a resource of
/// `rmm_rs_virtual_resource_for_export`, or parts of them, also of pools and adaptors over it.
/// Stores an array of pieces in `pieces`, and their number in `count`; release it by
/// `rmm_rs_pieces_release`. Nothing is waited for: synchronize with the streams that write the
/// memory before others read it, and keep it allocated as long as they use it.
///
/// `RMM_RS_INVALID_ARGUMENT` for no bytes, and for memory that is not allocated;
/// `RMM_RS_REFUSED` for memory that is not of such a resource; `RMM_RS_NOT_READY` while it sleeps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_export(
    pointer: *const c_void,
    bytes: u64,
    pieces: *mut *mut ExportPiece,
    count: *mut usize,
) -> Status {
    // SAFETY: by the clause on pointers, `pieces` is null or valid for a write.
    unsafe { clear_mut(pieces) };
    if !count.is_null() {
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { count.write(0) };
    }
    guard::status(|| {
        if pieces.is_null() || count.is_null() {
            return Err(Failure::invalid("the place for the pieces or their number is null"));
        }
        let exported = export_range(DevicePtr(pointer.addr() as u64), bytes)?;
        let exported: Box<[ExportPiece]> =
            exported.into_iter().map(ExportPiece::from_piece).collect();
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { count.write(exported.len()) };
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { pieces.write(Box::into_raw(exported).cast()) };
        Ok(())
    })
}

/// Releases the pieces of `rmm_rs_export`, and closes their descriptors. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pieces_release(pieces: *mut ExportPiece, count: usize) {
    guard::value((), || {
        if pieces.is_null() {
            return;
        }
        let pieces = ptr::slice_from_raw_parts_mut(pieces, count);
        // SAFETY: by the clause on pieces, `rmm_rs_export` returned them with this number, from
        // `Box::into_raw`, and they are released once.
        let pieces = unsafe { Box::from_raw(pieces) };
        for piece in pieces.iter().filter(|piece| piece.file >= 0) {
            // SAFETY: by the clause on pieces, the descriptor is that of the export.
            drop(unsafe { owned(piece.file) });
        }
    });
}

/// # Safety
/// The descriptor is open, and not closed elsewhere.
unsafe fn owned(file: RawFd) -> OwnedFd {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the caller's contract.
    unsafe { OwnedFd::from_raw_fd(file) }
}

/// Maps the pieces of one export, in its order, as one range, for work of a device; read-only
/// unless `writable`. Stores the address of its first byte in `pointer`, and a handle in `out`, to
/// be released by `rmm_rs_import_release`. Descriptors stay the caller's, who may close them
/// afterwards. The memory lives until the last handle and mapping, also after its exporter.
///
/// `RMM_RS_INVALID_ARGUMENT`, with a message that names the piece, if they are not the pieces of
/// one export in its order, or if a handle is none of the driver's, has another size than it says,
/// or is of another device's memory; `RMM_RS_REFUSED` for a fabric handle without a fabric;
/// `RMM_RS_NOT_READY` if this process has no file descriptor left for a copy of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_import(
    pieces: *const ExportPiece,
    count: usize,
    device: c_int,
    writable: bool,
    pointer: *mut *mut c_void,
    out: *mut *mut Imported,
) -> Status {
    // SAFETY: by the clause on pointers, `pointer` is null or valid for a write.
    unsafe { clear_mut(pointer) };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        if pointer.is_null() || out.is_null() || pieces.is_null() {
            return Err(Failure::invalid("the pieces, or the place for a result, are null"));
        }
        // SAFETY: by the clause on pieces, there are as many, which may be read during the call.
        let pieces = unsafe { slice::from_raw_parts(pieces, count) };
        // SAFETY: by the clause on pieces, descriptors are not closed during the call.
        let pieces = pieces.iter().map(|&piece| unsafe { piece.to_piece() });
        let pieces = pieces.collect::<Result<Vec<Piece>, Failure>>()?;
        let device = usize::try_from(device)
            .map_err(|_| Failure::invalid(format!("there is no device {device}")))?;
        let access = if writable { ImportAccess::ReadWrite } else { ImportAccess::ReadOnly };
        let memory = ImportedMemory::map(pieces, Device::new(device)?, access)?;
        let address = usize::try_from(memory.as_ptr().0)
            .map_err(|_| Failure::invalid("the address is none of this process"))?;
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { pointer.write(ptr::with_exposed_provenance_mut(address)) };
        let imported = Box::into_raw(Box::new(Imported { memory }));
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { out.write(imported) };
        Ok(())
    })
}

/// Lets work of another device use imported memory, too, which its own device is a peer of:
/// read-only unless `writable`. `RMM_RS_REFUSED` if they are no peers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_import_grant_access(
    imported: *const Imported,
    device: c_int,
    writable: bool,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, it is null or live during the call.
        let imported = unsafe { imported.as_ref() };
        let imported = imported.ok_or_else(|| Failure::invalid("the imported memory is null"))?;
        let device = usize::try_from(device)
            .map_err(|_| Failure::invalid(format!("there is no device {device}")))?;
        let access = if writable { ImportAccess::ReadWrite } else { ImportAccess::ReadOnly };
        Ok(imported.memory.grant_access(Device::new(device)?, access)?)
    })
}

/// Waits for the work of this process, and unmaps the memory; if it cannot wait, since a stream may
/// be under capture or work has failed, the memory stays mapped. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_import_release(imported: *mut Imported) {
    guard::value((), || {
        if !imported.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
            // ends here.
            drop(unsafe { Box::from_raw(imported) });
        }
    });
}
