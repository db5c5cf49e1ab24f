//! Mapping memory that another process exported.

use std::ffi::c_void;
use std::fmt;
use std::os::fd::AsRawFd as _;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::{
    Annotator, Context, Device, DevicePtr, Error, RelaxedCapture, check, driver_for_drop, fork,
};
use rmm_sys::{
    CuDeviceAttribute, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp, CuMemGranularity,
    CuMemHandle, CuMemHandleType, CuMemLocation, CuMemLocationType, Driver,
};

use super::piece::{self, HandleKind};
use super::{NAME, Piece, ShareableHandle};
use crate::capability::{Calls, calls_for, calls_for_freeing, lacking, require};

/// What work of this process may do to imported memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImportAccess {
    /// Reads only: a write faults, and the context is lost.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Memory that another process exported, mapped as one range of addresses of this process.
///
/// The memory lives as long as any process has a handle to it or has mapped it, so it may outlive
/// its exporter. Its contents are whatever the exporter's block has: the two processes order their
/// work themselves, by waiting on the host before they send a message, or by an event made for
/// processes. Dropping it waits for the work of this process, and unmaps it; if it cannot wait, it
/// stays mapped, which [`close`](Self::close) says.
///
/// ```
/// use rmm_core::{Device, SynchronousResource};
/// use rmm_resources::{
///     ExportHandleTypes, ImportAccess, ImportedMemory, VirtualMemoryResource, export_range,
/// };
/// # use std::alloc::Layout;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
/// let pages = VirtualMemoryResource::builder().export(types).build()?;
/// let layout = Layout::from_size_align(2 << 20, 256)?;
/// let block = pages.allocate_sync(layout)?;
/// let pieces = export_range(block, 2 << 20)?; // in one process; in another:
/// let memory = ImportedMemory::map(pieces, Device::new(0)?, ImportAccess::ReadOnly)?;
/// assert_eq!(memory.bytes(), 2 << 20);
/// # // SAFETY: allocated above with this layout.
/// # unsafe { pages.deallocate_sync(block, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuMemImportFromShareableHandle")]
pub struct ImportedMemory {
    /// # Invariant
    /// `reserved` addresses from here on were reserved by this value, and the first `mapped` of
    /// them are mapped by it, as whole mappings.
    start: DevicePtr,
    reserved: usize,
    mapped: usize,
    offset: u64,
    bytes: u64,
    device: Device,
}

impl ImportedMemory {
    /// Maps the pieces of one export, in its order, for work of a device; those of virtual memory
    /// of the host also for the host.
    ///
    /// What the peer says of its pieces is not believed: the driver maps a handle only as a whole,
    /// and its answer decides. The handles are closed in any case.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument), naming the piece, if
    /// they are not the pieces of one export in its order, if a handle is none of the driver's, has
    /// another size, or is of another device's memory;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory, or for a fabric handle where there is no fabric; or if the driver refuses.
    pub fn map(pieces: Vec<Piece>, device: Device, access: ImportAccess) -> Result<Self, Error> {
        Self::map_at(pieces, device, access, DevicePtr::NULL)
    }

    /// Maps the pieces of one export at this address, see [`map`](Self::map). The address is that
    /// of the first handle's memory, in which the first piece may begin later: one that
    /// [`start_of_handles`](Self::start_of_handles) returned before.
    ///
    /// # Errors
    /// Those of `map`; [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the addresses
    /// are in use.
    pub fn map_at(
        pieces: Vec<Piece>,
        device: Device,
        access: ImportAccess,
        address: DevicePtr,
    ) -> Result<Self, Error> {
        fork::check()?;
        let sizes = piece::check(&pieces)?;
        let needed = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        require(NAME, device, needed, "has no virtual memory management")?;
        let sum = sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
        let sum = sum.ok_or_else(|| {
            Error::invalid_argument(NAME, "the pieces are larger than the address space")
        })?;
        let calls = calls_for(None)?;
        let start = reserve(&calls, sum, address).map_err(|error| {
            match wrong_size(&calls, &sizes, device) {
                Some(wrong) => wrong.with_source(error),
                None => error,
            }
        })?;
        let mut memory = Self {
            start,
            reserved: sum,
            mapped: 0,
            offset: pieces.first().map_or(0, |piece| piece.range.offset),
            bytes: pieces.iter().map(|piece| piece.range.bytes).sum(),
            device,
        };
        memory.fill(&calls, pieces, sizes, access)?;
        Ok(memory)
    }

    /// Maps the pieces, of these sizes, at the addresses, at which nothing is mapped.
    fn fill(
        &mut self,
        calls: &Calls,
        pieces: Vec<Piece>,
        sizes: Vec<usize>,
        access: ImportAccess,
    ) -> Result<(), Error> {
        // So that the end of the mapping waits for its work.
        let _noted = Context::current()?;
        let count = pieces.len();
        let mut of_host = None;
        for (index, (piece, size)) in pieces.into_iter().zip(sizes).enumerate() {
            let what = format!("piece {index} of {count}");
            of_host = self.add(calls, &piece.handle, size, &what)?;
        }
        self.give_access(calls, access, of_host)
    }

    /// Lets the memory's device use it, and the host its own memory at the same addresses.
    fn give_access(
        &self,
        calls: &Calls,
        access: ImportAccess,
        of_host: Option<CuMemLocation>,
    ) -> Result<(), Error> {
        let mut access = vec![access_of(self.device, access)];
        access.extend(of_host.map(|location| CuMemAccessDesc { location, ..access[0] }));
        self.set_access(calls, &access)
    }

    /// Changes who may do what to all that is mapped.
    fn set_access(&self, calls: &Calls, access: &[CuMemAccessDesc]) -> Result<(), Error> {
        let (first, count) = (access.as_ptr(), access.len());
        // SAFETY: all of the range is mapped; the descriptions may be read.
        let code = unsafe { calls.cuMemSetAccess(self.start, self.mapped, first, count) };
        check("cuMemSetAccess", code)
    }

    /// Imports a handle and maps it behind those before. Returns where its memory is, if that is
    /// not a device.
    fn add(
        &mut self,
        calls: &Calls,
        handle: &ShareableHandle,
        size: usize,
        what: &str,
    ) -> Result<Option<CuMemLocation>, Error> {
        let memory = import(calls, handle, what)?;
        let mapped = check_home(calls, memory, self.device, what).and_then(|of_host| {
            let at = DevicePtr(self.start.0 + self.mapped as u64);
            // SAFETY: reserved addresses at which nothing is mapped.
            let code = unsafe { calls.cuMemMap(at, size, 0, memory, 0) };
            check("cuMemMap", code).map(|()| of_host).map_err(|error| {
                let message = format!(
                    "{what}: the driver does not map {size} bytes of it: is that its size?"
                );
                Error::invalid_argument(NAME, message).with_source(error)
            })
        });
        // The mapping keeps the memory alive.
        // SAFETY: the reference that was imported above, used nowhere else.
        let released = check("cuMemRelease", unsafe { calls.cuMemRelease(memory) });
        let of_host = mapped?;
        self.mapped += size;
        released.map(|()| of_host)
    }

    /// Unmaps the memory and keeps its addresses, for [`remap`](Self::remap). What is unmapped
    /// stays so.
    ///
    /// # Errors
    /// If the driver refuses: then it stays mapped.
    ///
    /// # Safety
    /// Every use of the memory has completed, and there is none until it is mapped again.
    pub unsafe fn unmap(&mut self) -> Result<(), Error> {
        fork::check()?;
        if self.mapped == 0 {
            return Ok(());
        }
        // An address identifies its device, so that no context has to be current.
        let calls = calls_for(None).or_else(|error| calls_for_freeing().ok_or(error))?;
        self.annotate_unmapped(true);
        // SAFETY: whole mappings of this value, which are not in use, by the caller's contract.
        let unmapped = check("cuMemUnmap", unsafe { calls.cuMemUnmap(self.start, self.mapped) });
        match unmapped {
            Ok(()) => self.mapped = 0,
            Err(_) => self.annotate_unmapped(false),
        }
        unmapped
    }

    /// Maps the pieces of an export at the addresses that were [unmapped](Self::unmap): perhaps
    /// other memory, with as many bytes. Its own device alone has access to it then.
    ///
    /// # Errors
    /// Those of [`map`](Self::map); [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if it is
    /// mapped; [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the sizes or
    /// the first offset differ. After an error it is unmapped.
    pub fn remap(&mut self, pieces: Vec<Piece>, access: ImportAccess) -> Result<(), Error> {
        fork::check()?;
        if self.mapped > 0 {
            return Err(Error::not_ready(NAME, "the memory is mapped"));
        }
        let sizes = piece::check(&pieces)?;
        let sum = sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
        let offset = pieces.first().map(|piece| piece.range.offset);
        // They are at most as many as those of the handles, and may be too many to add up.
        let bytes = sum.map(|_| pieces.iter().map(|piece| piece.range.bytes).sum());
        let found = (sum, offset, bytes);
        if found != (Some(self.reserved), Some(self.offset), Some(self.bytes)) {
            let message = format!("other sizes than the {} bytes that were mapped", self.reserved);
            return Err(Error::invalid_argument(NAME, message));
        }
        self.fill(&calls_for(None)?, pieces, sizes, access).inspect_err(|_| {
            // SAFETY: mapped here, and not returned to anyone who might use it. What the driver
            // refuses to unmap is unmapped at the end.
            let _ignored = unsafe { self.unmap() };
        })?;
        self.annotate_unmapped(false);
        Ok(())
    }

    /// Reports to the software device that what pools above have handed out of the memory stays
    /// theirs while it is unmapped.
    fn annotate_unmapped(&self, is_unmapped: bool) {
        Annotator::silent(NAME).suspended(self.start, self.reserved, is_unmapped);
    }

    /// Waits for the work of this process, and unmaps the memory: what a drop does, which cannot
    /// say that it stays mapped.
    ///
    /// # Errors
    /// The memory, to try again, with the driver's error, or
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if a stream may be under
    /// capture, which a wait would invalidate.
    pub fn close(mut self) -> Result<(), (Self, Error)> {
        let ended = Driver::get().map_err(Error::from).and_then(|driver| self.end(driver));
        ended.map_err(|error| (self, error))
    }

    /// Unmaps the memory and returns the addresses, of which none are reserved then.
    fn end(&mut self, driver: &Driver) -> Result<(), Error> {
        // In a child that was forked the driver does not work, and what is mapped is the parent's.
        fork::check()?;
        if self.reserved == 0 {
            return Ok(());
        }
        // Work that may still run would fault.
        if self.mapped > 0 {
            wait_for_all_contexts()?;
        }
        let _relaxed = RelaxedCapture::enter();
        if !self.is_mapped() {
            self.annotate_unmapped(false);
        }
        if self.mapped > 0 {
            // SAFETY: whole mappings of this value, which no work uses any more.
            let code = unsafe { driver.cuMemUnmap(self.start, self.mapped) };
            check("cuMemUnmap", code)?;
            self.mapped = 0;
        }
        // SAFETY: reserved by this value, and nothing is mapped there.
        let code = unsafe { driver.cuMemAddressFree(self.start, self.reserved) };
        check("cuMemAddressFree", code)?;
        self.reserved = 0;
        Ok(())
    }

    /// Whether the memory is mapped.
    pub fn is_mapped(&self) -> bool {
        self.mapped == self.reserved
    }

    /// Changes what work of a device may do to the memory, in place: of its own, or of one that its
    /// own device is a peer of. Work that is enqueued and writes to what has become read-only
    /// faults: wait for it before.
    ///
    /// ```
    /// # use rmm_core::{Device, SynchronousResource};
    /// # use rmm_resources::{
    /// #     ExportHandleTypes, ImportAccess, ImportedMemory, VirtualMemoryResource, export_range,
    /// # };
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// # let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    /// # let pages = VirtualMemoryResource::builder().export(types).build()?;
    /// # let layout = std::alloc::Layout::from_size_align(2 << 20, 256)?;
    /// # let block = pages.allocate_sync(layout)?;
    /// # let pieces = export_range(block, 2 << 20)?;
    /// let (home, other) = (Device::new(0)?, Device::new(1)?);
    /// let memory = ImportedMemory::map(pieces, home, ImportAccess::ReadWrite)?;
    /// memory.grant_access(other, ImportAccess::ReadOnly)?;
    /// # // SAFETY: allocated above with this layout.
    /// # unsafe { pages.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if they are not peers;
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) while it is [unmapped](Self::unmap);
    /// or if the driver refuses.
    #[doc(alias = "cuMemSetAccess")]
    pub fn grant_access(&self, device: Device, access: ImportAccess) -> Result<(), Error> {
        fork::check()?;
        if !self.is_mapped() {
            return Err(Error::not_ready(NAME, "the memory is unmapped"));
        }
        if device != self.device && !device.can_access_peer(self.device)? {
            let what = format!("cannot be reached from device {}", device.ordinal());
            return Err(lacking(NAME, self.device, &what));
        }
        self.set_access(&calls_for(None)?, &[access_of(device, access)])
    }

    /// The address of the first byte that was exported.
    pub fn as_ptr(&self) -> DevicePtr {
        DevicePtr(self.start.0 + self.offset)
    }

    /// Where the first handle is mapped, at or before [`as_ptr`](Self::as_ptr).
    pub fn start_of_handles(&self) -> DevicePtr {
        self.start
    }

    /// How many bytes were exported.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device whose memory it is.
    pub fn device(&self) -> Device {
        self.device
    }
}

impl fmt::Debug for ImportedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedMemory")
            .field("start", &self.as_ptr())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for ImportedMemory {
    fn drop(&mut self) {
        // What cannot be unmapped stays mapped.
        if let Some(driver) = driver_for_drop() {
            let _ignored = self.end(driver);
        }
    }
}

/// Reserves addresses; exactly there, unless it is null.
fn reserve(calls: &Calls, bytes: usize, address: DevicePtr) -> Result<DevicePtr, Error> {
    let mut start = DevicePtr::NULL;
    // SAFETY: `start` may be written to.
    let code = unsafe { calls.cuMemAddressReserve(&raw mut start, bytes, 0, address, 0) };
    let reserved = check("cuMemAddressReserve", code);
    reserved.map_err(|error| error.with_message(format!("{bytes} bytes of addresses")))?;
    if address == DevicePtr::NULL || address == start {
        return Ok(start);
    }
    // SAFETY: reserved just now, and nothing is mapped there.
    check("cuMemAddressFree", unsafe { calls.cuMemAddressFree(start, bytes) })?;
    let message = format!("{bytes} bytes from {:#x} on are not free", address.0);
    Err(Error::out_of_range(NAME, message))
}

/// Which piece has a size that no handle has, where the driver has not reserved addresses for all.
fn wrong_size(driver: &Driver, sizes: &[usize], device: Device) -> Option<Error> {
    let (mut granularity, properties) = (0, CuMemAllocationProp::pinned(location_of(device)));
    let (place, least) = (&raw mut granularity, CuMemGranularity::MINIMUM);
    // SAFETY: `granularity` may be written to, and the properties read.
    let code = unsafe { driver.cuMemGetAllocationGranularity(place, &raw const properties, least) };
    let is_odd = |size: usize| code.is_success() && !size.is_multiple_of(granularity.max(1));
    let most = device.total_memory().unwrap_or(u64::MAX);
    let index = sizes.iter().position(|&size| is_odd(size) || size as u64 > most)?;
    let (count, size) = (sizes.len(), sizes[index]);
    let message = format!("piece {index} of {count}: no handle has {size} bytes");
    Some(Error::invalid_argument(NAME, message))
}

/// A reference to the memory of a handle.
fn import(driver: &Driver, handle: &ShareableHandle, what: &str) -> Result<CuMemHandle, Error> {
    const CALL: &str = "cuMemImportFromShareableHandle";
    let mut memory = CuMemHandle(0);
    let place = &raw mut memory;
    let imported = match &handle.0 {
        HandleKind::Descriptor(file) => {
            let descriptor = usize::try_from(file.as_raw_fd()).unwrap_or(usize::MAX);
            let descriptor: *mut c_void = std::ptr::without_provenance_mut(descriptor);
            let kind = CuMemHandleType::POSIX_FILE_DESCRIPTOR;
            // SAFETY: `memory` may be written to; a descriptor is passed by value.
            let code = unsafe { driver.cuMemImportFromShareableHandle(place, descriptor, kind) };
            check(CALL, code)
        }
        HandleKind::Fabric(bytes) => {
            let mut bytes = *bytes;
            let source = (&raw mut bytes).cast();
            let kind = CuMemHandleType::FABRIC;
            // SAFETY: `memory` may be written to; the bytes live until the call returns.
            check(CALL, unsafe { driver.cuMemImportFromShareableHandle(place, source, kind) })
        }
    };
    imported.map(|()| memory).map_err(|error| match &handle.0 {
        HandleKind::Descriptor(file) => {
            let message = format!(
                "{what}: file descriptor {} is no memory that this driver exported",
                file.as_raw_fd()
            );
            Error::invalid_argument(NAME, message).with_source(error)
        }
        HandleKind::Fabric(_) => {
            let message = format!(
                "{what}: a fabric handle cannot be imported here: this device and the exporter's have \
                 to be in one NVLink domain, with an IMEX channel"
            );
            Error::unsupported(NAME, message).with_source(error)
        }
    })
}

/// Where the memory is, if that is the host. Fails if it is of another device.
fn check_home(
    driver: &Driver,
    memory: CuMemHandle,
    device: Device,
    what: &str,
) -> Result<Option<CuMemLocation>, Error> {
    let mut found = CuMemAllocationProp::pinned(location_of(device));
    // SAFETY: `found` may be written to; the reference is the caller's.
    let code = unsafe { driver.cuMemGetAllocationPropertiesFromHandle(&raw mut found, memory) };
    check("cuMemGetAllocationPropertiesFromHandle", code)
        .map_err(|error| error.with_message(what))?;
    let CuMemLocation { kind, id } = found.location;
    if kind == CuMemLocationType::DEVICE && id == device.as_raw().0 {
        return Ok(None);
    }
    if kind == CuMemLocationType::HOST_NUMA {
        return Ok(Some(found.location));
    }
    let home = if kind == CuMemLocationType::DEVICE {
        format!("device {id}")
    } else {
        String::from("the host")
    };
    let message = format!("{what} is memory of {home}, not of device {}", device.ordinal());
    Err(Error::invalid_argument(NAME, message))
}

fn access_of(device: Device, access: ImportAccess) -> CuMemAccessDesc {
    let flags = match access {
        ImportAccess::ReadOnly => CuMemAccessFlags::READ,
        ImportAccess::ReadWrite => CuMemAccessFlags::READ_WRITE,
    };
    CuMemAccessDesc { location: location_of(device), flags }
}

fn location_of(device: Device) -> CuMemLocation {
    CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 }
}
