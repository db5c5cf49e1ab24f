//! Exporting and importing pools.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd as _, IntoRawFd as _};
use std::os::unix::fs::FileExt as _;

use rmm_sys::{CuDevicePtr, CuMemHandleType, CuMemPool, CuMemPoolPtrExportData, CuResult};

use crate::calls::arguments::{address, pointer};
use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::handle::{self, HandleKind};
use crate::model::memory::AllocationKind;
use crate::model::pool::{Medium, Pool, Sharing};
use crate::model::pool_name::{NAME, Name};
use crate::model::shared_bytes;
use crate::model::trace::LeakKind;

impl Session<'_> {
    /// # Errors
    /// `NOT_SUPPORTED` where pools cannot be shared by file descriptors.
    fn check_sharing(&self, device: usize) -> Result<(), CuResult> {
        let shares = self.shares_pools(device, CuMemHandleType::POSIX_FILE_DESCRIPTOR);
        if shares { Ok(()) } else { Err(CuResult::NOT_SUPPORTED) }
    }
}

/// An anonymous file that contains the name of a pool.
fn file_of(name: Name) -> Result<File, CuResult> {
    let mut file = shared_bytes::anonymous()?;
    file.write_all(&name.to_bytes()).map_err(|_| CuResult::OPERATING_SYSTEM)?;
    Ok(file)
}

/// The name in a file that the caller has open.
fn name_in(descriptor: c_int) -> Result<Name, CuResult> {
    if descriptor < 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: if the descriptor is not open, the read below fails. The caller still owns it, since
    // the file is never dropped.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let mut bytes = [0; NAME];
    file.read_exact_at(&mut bytes, 0).map_err(|_| CuResult::INVALID_VALUE)?;
    Name::from_bytes(&bytes)
}

driver_calls! {
    fn cuMemPoolExportToShareableHandle(result: *mut c_void, pool: CuMemPool, kind: CuMemHandleType, flags: c_ulonglong) by [pool] |session| {
        result.required()?;
        let key = session.pool(pool)?;
        let pool = session.pools.get(&key).ok_or(CuResult::INVALID_VALUE)?;
        session.check_sharing(pool.device)?;
        if !pool.is_exported() || flags != 0 || kind != CuMemHandleType::POSIX_FILE_DESCRIPTOR {
            return Err(CuResult::INVALID_VALUE);
        }
        let file = file_of(Name { machine: session.machine_id(), pool: key, allocation: (0, 0) })?;
        // SAFETY: for this kind of handle the place takes a `c_int`.
        unsafe { result.put_as(file.into_raw_fd()) }
    }

    fn cuMemPoolImportFromShareableHandle(result: *mut CuMemPool, handle: *mut c_void, kind: CuMemHandleType, flags: c_ulonglong) by [] |session| {
        result.required()?;
        let device = session.context()?;
        session.check_sharing(device)?;
        if flags != 0 || kind != CuMemHandleType::POSIX_FILE_DESCRIPTOR {
            return Err(CuResult::INVALID_VALUE);
        }
        // For this handle type it is a file descriptor.
        let descriptor = c_int::try_from(handle.address()).map_err(|_| CuResult::INVALID_VALUE)?;
        let name = name_in(descriptor)?;
        let exported = session.pools.get(&name.pool).filter(|pool| pool.is_exported());
        let exported = exported.filter(|_| name.machine == session.machine_id() && name.allocation == (0, 0));
        let device = exported.ok_or(CuResult::INVALID_VALUE)?.device;
        let key = session.next_key();
        let mut made = Pool::new(device, Medium::Device, 0, false);
        made.sharing = Sharing::Imported(name.pool);
        session.pools.insert(key, made);
        session.note_origin(LeakKind::Pool, key);
        let slot = session.pool_slots.insert(key);
        result.put(CuMemPool::from_raw(handle::encode(session.machine_id(), HandleKind::Pool, slot)))
    }

    fn cuMemPoolExportPointer(result: *mut CuMemPoolPtrExportData, at: CuDevicePtr) by [at] |session| {
        result.required()?;
        let allocation = session.allocations.at(address(at)).ok_or(CuResult::INVALID_VALUE)?;
        session.check_sharing(allocation.device)?;
        let AllocationKind::Pool(key, _) = allocation.kind else { return Err(CuResult::INVALID_VALUE) };
        if session.pools.get(&key).is_none_or(|pool| !pool.is_exported()) {
            return Err(CuResult::INVALID_VALUE);
        }
        let allocation = (allocation.id, allocation.start);
        let name = Name { machine: session.machine_id(), pool: key, allocation };
        result.put(CuMemPoolPtrExportData { reserved: name.to_bytes() })
    }

    fn cuMemPoolImportPointer(result: *mut CuDevicePtr, pool: CuMemPool, data: *mut CuMemPoolPtrExportData) by [pool] |session| {
        result.required()?;
        let key = session.pool(pool)?;
        let device = session.pools.get(&key).ok_or(CuResult::INVALID_VALUE)?.device;
        session.check_sharing(device)?;
        let name = Name::from_bytes(&data.get()?.reserved)?;
        result.put(pointer(session.import(key, name)?))
    }
}
