//! Exporting physical memory to other processes, and importing theirs.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd as _, IntoRawFd as _};

use rmm_sys::{
    CuMemAllocationProp, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemLocationType, CuResult,
};

use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::fabric;
use crate::model::shared_bytes::{Contents, SharedBytes};
use crate::model::trace::LeakKind;
use crate::model::virtual_memory::{HOST, Physical};

impl Session<'_> {
    /// A descriptor of physical memory.
    fn export_physical(&mut self, key: u64) -> Result<File, CuResult> {
        let state = &mut **self;
        let physical = state.virtual_memory.physical.get_mut(&key);
        let physical = physical.ok_or(CuResult::INVALID_VALUE)?;
        state.virtual_memory.is_shared = true;
        if physical.home == HOST {
            let file = physical.shared.as_ref().and_then(SharedBytes::file);
            let copy = file.ok_or(CuResult::INVALID_VALUE)?.try_clone();
            return copy.map_err(|_| CuResult::OPERATING_SYSTEM);
        }
        let device = &mut state.devices[physical.home];
        if physical.shared.is_none() {
            let contents = Contents {
                home: physical.home,
                bytes: physical.bytes,
                has_rdma: physical.has_rdma,
            };
            physical.shared = Some(device.share(physical.start, contents)?);
        }
        let shared = physical.shared.as_ref().ok_or(CuResult::INVALID_VALUE)?;
        device.reopen(shared)
    }

    /// Physical memory by a descriptor of it.
    fn import_physical(&mut self, file: &File) -> Result<CuMemHandle, CuResult> {
        let (contents, identity) = Contents::read(file)?;
        let known = self.virtual_memory.physical.iter_mut().find(|(_, physical)| {
            physical.shared.as_ref().is_some_and(|shared| shared.identity == identity)
        });
        if let Some((&key, physical)) = known {
            physical.references += 1;
            self.note_origin(LeakKind::PhysicalMemory, key);
            let slot = self.virtual_memory.slots.slot_of(key).ok_or(CuResult::INVALID_VALUE)?;
            return Ok(self.physical_handle(slot));
        }
        let Contents { home, bytes, has_rdma } = contents;
        let (start, shared) = if home == HOST {
            let file = file.try_clone().map_err(|_| CuResult::OPERATING_SYSTEM)?;
            let start = self.host.allocate_shared(&file, bytes)?;
            (start, SharedBytes::new((file, None))?)
        } else {
            let device = self.devices.get_mut(home).ok_or(CuResult::INVALID_DEVICE)?;
            device.import(file, bytes)?
        };
        self.virtual_memory.is_shared = true;
        Ok(self.insert_physical(Physical {
            home,
            start,
            bytes,
            references: 1,
            mappings: 0,
            // Seen on an H200: memory of another process is not exported again.
            handle_types: CuMemHandleType::NONE,
            has_rdma,
            shared: Some(shared),
            fabric: None,
        }))
    }
}

driver_calls! {
    fn cuMemExportToShareableHandle(result: *mut c_void, handle: CuMemHandle, kind: CuMemHandleType, flags: c_ulonglong) by [handle] |session| {
        result.required()?;
        let key = session.physical_of(handle)?;
        let types = session.virtual_memory.physical.get(&key).map_or(0, |physical| physical.handle_types.0);
        let known = [CuMemHandleType::POSIX_FILE_DESCRIPTOR, CuMemHandleType::FABRIC];
        if flags != 0 || !known.contains(&kind) || types & kind.0 == 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        let file = session.export_physical(key)?;
        if kind == CuMemHandleType::FABRIC {
            let physical = session.virtual_memory.physical.get_mut(&key);
            let physical = physical.ok_or(CuResult::INVALID_VALUE)?;
            let name = fabric::name_of(physical.fabric.get_or_insert(file));
            // SAFETY: for this kind of handle the place takes 64 bytes.
            return unsafe { result.put_as(name) };
        }
        // SAFETY: for this kind of handle the place takes a `c_int`.
        unsafe { result.put_as(file.into_raw_fd()) }
    }

    fn cuMemImportFromShareableHandle(result: *mut CuMemHandle, handle: *mut c_void, kind: CuMemHandleType) by [] |session| {
        result.required()?;
        match kind {
            CuMemHandleType::POSIX_FILE_DESCRIPTOR => {}
            CuMemHandleType::FABRIC if !session.virtual_memory.has_fabric => return Err(CuResult::NOT_PERMITTED),
            CuMemHandleType::FABRIC => {
                // SAFETY: for this handle type it is the address of 64 bytes.
                let name: [u8; 64] = unsafe { handle.get_as() }?;
                return result.put(session.import_physical(&fabric::open(&name)?)?);
            }
            _ => return Err(CuResult::INVALID_VALUE),
        }
        // For this handle type it is a file descriptor.
        let descriptor = c_int::try_from(handle.address()).map_err(|_| CuResult::INVALID_VALUE)?;
        if descriptor < 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: if the descriptor is not open, the reads of it fail. The caller still owns it,
        // since the file is never dropped.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        // Seen on an H200: a descriptor that is closed is an unknown error, one of something else
        // an invalid value.
        file.metadata().map_err(|_| CuResult::UNKNOWN)?;
        result.put(session.import_physical(&file)?)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut CuMemAllocationProp, handle: CuMemHandle) by [handle] |session| {
        properties.required()?;
        let key = session.physical_of(handle)?;
        let physical = session.virtual_memory.physical.get(&key).ok_or(CuResult::INVALID_VALUE)?;
        let location = if physical.home == HOST {
            CuMemLocation { kind: CuMemLocationType::HOST_NUMA, id: 0 }
        } else {
            let id = c_int::try_from(physical.home).map_err(|_| CuResult::INVALID_VALUE)?;
            CuMemLocation { kind: CuMemLocationType::DEVICE, id }
        };
        properties.put(CuMemAllocationProp {
            requested_handle_types: physical.handle_types,
            gpu_direct_rdma_capable: physical.has_rdma.into(),
            ..CuMemAllocationProp::pinned(location)
        })
    }
}
