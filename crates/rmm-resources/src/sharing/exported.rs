//! Exporting memory.

use std::ffi::c_int;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::{FromRawFd as _, OwnedFd};

use rmm_core::{DevicePtr, Error, Property, PropertyWithValue, check, fork};
use rmm_sys::{CuMemHandle, CuMemHandleType, Driver};

use super::piece::HandleKind;
use super::{NAME, Piece, PieceRange, ShareableHandle};
use crate::ExportHandleTypes;
use crate::capability::calls_for;
use crate::virtual_memory::Space;

/// How the memory of a resource can be exported; found through adaptors and type erasure.
///
/// ```
/// use rmm_core::{AnyResource, Introspect};
/// use rmm_resources::{Export, ExportHandleTypes, VirtualMemoryResource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
/// let pages = VirtualMemoryResource::builder().export(types).build()?;
/// let erased: AnyResource = AnyResource::new(pages);
/// let export = erased.try_property::<Export>().expect("it is virtual memory");
/// assert_eq!((export.handles, export.single_handle), (types, true));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Export {
    /// The types of handles; none if the memory cannot be exported.
    pub handles: ExportHandleTypes,
    /// Whether each block lies within the memory of one handle, so that its export has one piece.
    /// That of a pool over virtual memory may span several, unless the pool is built otherwise.
    pub single_handle: bool,
    /// Whether network cards may access the memory by `GPUDirect` RDMA.
    pub rdma: bool,
}

impl Export {
    pub(crate) fn new(handles: ExportHandleTypes, rdma: bool) -> Self {
        Self { handles, single_handle: true, rdma }
    }

    /// The same, for a resource whose blocks may span blocks of the one that this is of.
    #[doc(hidden)]
    #[must_use]
    pub fn of_several_handles(self) -> Self {
        Self { single_handle: false, ..self }
    }
}

impl Property for Export {
    const NAME: &'static str = "export";
}

impl PropertyWithValue for Export {
    type Value = Self;
}

/// Exports device memory at an address: blocks of this library's virtual memory, or parts of them,
/// whatever resources are above it. Each handle has the whole of the physical memory that the range
/// touches: who imports it may access what else is there. Where the resource was built for fabric
/// handles, it is those, else file descriptors.
///
/// Nothing is waited for: see `rmm::export`, which does, for the memory of a buffer.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::{ExportHandleTypes, VirtualMemoryResource, export_range};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
/// let pages = VirtualMemoryResource::builder().export(types).build()?;
/// let layout = Layout::from_size_align(5 << 20, 256)?;
/// let block = pages.allocate_sync(layout)?;
/// let pieces = export_range(block, layout.size() as u64)?;
/// assert_eq!((pieces.len(), pieces[0].range.bytes), (1, 5 << 20));
/// assert_eq!(pieces[0].range.handle_bytes, 6 << 20);
/// # // SAFETY: allocated above with this layout.
/// # unsafe { pages.deallocate_sync(block, layout) };
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for no bytes;
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) for memory that is not of a
/// [`VirtualMemoryResource`](crate::VirtualMemoryResource), or of one that was not built for
/// [`export`](crate::VirtualMemoryResourceBuilder::export);
/// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) for memory of a pool that sleeps;
/// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) for memory that is not allocated; or
/// if the driver refuses.
#[doc(alias = "cuMemExportToShareableHandle")]
#[doc(alias = "cuMemRetainAllocationHandle")]
pub fn export_range(pointer: DevicePtr, bytes: u64) -> Result<Vec<Piece>, Error> {
    fork::check()?;
    let end = pointer.0.checked_add(bytes).filter(|_| bytes > 0);
    let Some(end) = end else {
        let message = format!("{bytes} bytes from {:#x} on are no memory", pointer.0);
        return Err(Error::invalid_argument(NAME, message));
    };
    let Some(space) = Space::containing(pointer.0..end) else {
        let message = format!(
            "the memory at {:#x} is not of a VirtualMemoryResource of this library: \
             for memory of cudaMalloc there is cuIpcGetMemHandle, for a driver's pool DriverPool",
            pointer.0
        );
        return Err(Error::unsupported(NAME, message));
    };
    let kind = export_type(space.handle_types(), pointer)?;
    let blocks = space.blocks_in(pointer.0..end)?;
    let calls = calls_for(None)?;
    // Unlike those of other exports, of other processes too.
    let export = RandomState::new().hash_one((std::process::id(), pointer.0));
    let count = blocks.len() as u64;
    let mut pieces = Vec::with_capacity(blocks.len());
    for (index, block) in (0..count).zip(blocks) {
        let memory = space.while_mapped(block.start, || retained(&calls, block.start))?;
        let handle = memory.and_then(|memory| {
            let handle = shareable(&calls, memory, kind);
            // SAFETY: the reference of `retained`, used nowhere else.
            let released = check("cuMemRelease", unsafe { calls.cuMemRelease(memory) });
            handle.and_then(|handle| released.map(|()| handle))
        });
        let (start, stop) = (block.start.max(pointer.0), block.end.min(end));
        let range = PieceRange {
            export,
            index,
            count,
            handle_bytes: block.end - block.start,
            offset: start - block.start,
            bytes: stop - start,
        };
        let named = |error: Error| {
            // The driver does not say which of the system's means is used up.
            let why = if descriptors_are_used_up() {
                "; this process has no file descriptor left: `ulimit -n` allows more, and larger \
                 pages need fewer"
            } else {
                ""
            };
            error.with_message(format!("the handle at {start:#x}, piece {index} of {count}{why}"))
        };
        pieces.push(Piece { handle: handle.map_err(named)?, range });
    }
    Ok(pieces)
}

/// Whether this process can open no file.
fn descriptors_are_used_up() -> bool {
    let opened = File::open("/dev/null").map_err(|error| error.raw_os_error());
    matches!(opened, Err(Some(libc::ENFILE | libc::EMFILE)))
}

/// The type of handle that is made, of those that the memory was made for.
fn export_type(types: ExportHandleTypes, pointer: DevicePtr) -> Result<CuMemHandleType, Error> {
    if types.contains(ExportHandleTypes::FABRIC) {
        return Ok(CuMemHandleType::FABRIC);
    }
    if types.contains(ExportHandleTypes::POSIX_FILE_DESCRIPTOR) {
        return Ok(CuMemHandleType::POSIX_FILE_DESCRIPTOR);
    }
    let message = format!(
        "the memory at {:#x} was not made for it: `export` of the builder of its \
         VirtualMemoryResource",
        pointer.0
    );
    Err(Error::unsupported(NAME, message))
}

/// A reference to the physical memory at an address.
fn retained(driver: &Driver, start: u64) -> Result<CuMemHandle, Error> {
    let mut memory = CuMemHandle(0);
    let address = usize::try_from(start)
        .map_err(|_| Error::out_of_range(NAME, "no address of this process"))?;
    let address = std::ptr::without_provenance_mut(address);
    // SAFETY: `memory` may be written to; the driver does not access memory at the address.
    let code = unsafe { driver.cuMemRetainAllocationHandle(&raw mut memory, address) };
    check("cuMemRetainAllocationHandle", code).map(|()| memory)
}

fn shareable(
    driver: &Driver,
    memory: CuMemHandle,
    kind: CuMemHandleType,
) -> Result<ShareableHandle, Error> {
    const CALL: &str = "cuMemExportToShareableHandle";
    // What the driver does not write is no handle.
    let (mut file, mut fabric): (c_int, _) = (-1, [0_u8; 64]);
    if kind == CuMemHandleType::FABRIC {
        let place = (&raw mut fabric).cast();
        // SAFETY: for this type of handle the place has 64 bytes.
        check(CALL, unsafe { driver.cuMemExportToShareableHandle(place, memory, kind, 0) })?;
        return Ok(ShareableHandle(HandleKind::Fabric(fabric)));
    }
    let place = (&raw mut file).cast();
    // SAFETY: for this type of handle the place is to a `c_int`.
    check(CALL, unsafe { driver.cuMemExportToShareableHandle(place, memory, kind, 0) })?;
    if file < 0 {
        return Err(Error::unsupported(CALL, "the driver returned no file descriptor"));
    }
    // SAFETY: the driver has opened the descriptor for the caller, who owns it.
    Ok(ShareableHandle::from(unsafe { OwnedFd::from_raw_fd(file) }))
}
