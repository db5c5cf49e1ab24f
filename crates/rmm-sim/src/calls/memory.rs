//! Memory that is not allocated in stream order, and attributes of addresses.

use std::ffi::{c_int, c_uint, c_void};

use rmm_sys::{
    CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuMemAdvise, CuMemLocation,
    CuMemLocationType, CuMemPool, CuMemRangeAttribute, CuMemoryType, CuPointerAttribute, CuResult,
    CuStream, MEM_ATTACH_GLOBAL, MEM_ATTACH_HOST,
};

use crate::calls::arguments::{address, pointer};
use crate::calls::call::driver_calls;
use crate::engine::machine;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::memory::{Allocation, AllocationKind, Side};
use crate::model::trace::LeakKind;
use crate::model::work::Work;

impl Session<'_> {
    /// # Errors
    /// `INVALID_VALUE` unless the range is managed memory (or pageable memory that devices access),
    /// `INVALID_DEVICE` for a location that does not exist.
    fn check_managed(
        &self,
        start: CuDevicePtr,
        bytes: usize,
        location: CuMemLocation,
    ) -> Result<(), CuResult> {
        let place = self.place(address(start), bytes, Side::Device)?;
        if bytes == 0 || place.allocation.is_some_and(|allocation| !allocation.is_managed()) {
            return Err(CuResult::INVALID_VALUE);
        }
        match location.kind {
            CuMemLocationType::DEVICE => self.device(location.id).map(drop),
            CuMemLocationType::HOST
            | CuMemLocationType::HOST_NUMA
            | CuMemLocationType::HOST_NUMA_CURRENT => Ok(()),
            _ => Err(CuResult::INVALID_VALUE),
        }
    }
}

impl State {
    /// Whether the decompression engine of an allocation's device, if it has one, can access the
    /// memory: memory of `cuMemAlloc` and pinned memory always, memory of pools if they were
    /// created so.
    fn decompresses(&self, allocation: &Allocation) -> bool {
        let attribute = CuDeviceAttribute::MEM_DECOMPRESS_ALGORITHM_MASK;
        let has_engine = self.devices[allocation.device].attribute(attribute).unwrap_or(0) != 0;
        let is_fit = match allocation.kind {
            AllocationKind::Device | AllocationKind::Pinned => true,
            AllocationKind::Pool(key, _) | AllocationKind::Imported { pool: key, .. } => {
                self.pools.get(&key).is_some_and(|pool| pool.decompresses)
            }
            AllocationKind::Managed | AllocationKind::Registered | AllocationKind::Mapped => false,
        };
        has_engine && is_fit
    }
}

driver_calls! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) by [] |session| {
        let device = session.context()?;
        let device = &session.devices[device];
        free.put(device.free())?;
        total.put(device.total)
    }

    fn cuMemAlloc_v2(result: *mut CuDevicePtr, bytes: usize) by [] |session| {
        let (context, device) = session.current()?;
        result.required()?;
        let start = session.allocate(device, bytes)?;
        session.allocations.set_context(start, context);
        result.put(pointer(start))
    }

    fn cuMemFree_v2(start: CuDevicePtr) by [start] |session| {
        if start == CuDevicePtr::NULL {
            return Ok(());
        }
        session.free(address(start), |kind| matches!(kind, AllocationKind::Device | AllocationKind::Pool(..) | AllocationKind::Managed | AllocationKind::Imported { .. }))
    }

    fn cuMemAllocManaged(result: *mut CuDevicePtr, bytes: usize, flags: c_uint) by [] |session| {
        let (context, device) = session.current()?;
        result.required()?;
        if flags != MEM_ATTACH_GLOBAL && flags != MEM_ATTACH_HOST {
            return Err(CuResult::INVALID_VALUE);
        }
        let start = session.allocate_host(device, bytes, AllocationKind::Managed)?;
        session.allocations.set_context(start, context);
        result.put(pointer(start))
    }

    fn cuMemHostAlloc(result: *mut *mut c_void, bytes: usize, flags: c_uint) by [] |session| {
        let (context, device) = session.current()?;
        result.required()?;
        if flags & !7 != 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        let start = session.allocate_host(device, bytes, AllocationKind::Pinned)?;
        session.allocations.set_context(start, context);
        result.put(std::ptr::with_exposed_provenance_mut(start))
    }

    fn cuMemFreeHost(start: *mut c_void) by [start] |session| {
        if start.address() == 0 {
            return Ok(());
        }
        session.free(start.address(), |kind| kind == AllocationKind::Pinned)
    }

    fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: c_uint) by [] |session| {
        let (context, device) = session.current()?;
        let start = start.address();
        if start == 0 || bytes == 0 || flags & !15 != 0 || start.checked_add(bytes).is_none() {
            return Err(CuResult::INVALID_VALUE);
        }
        // This includes pinned memory of the driver (seen on an H200).
        if machine::is_simulated(start) {
            return Err(CuResult::INVALID_VALUE);
        }
        if session.allocations.overlaps(start, bytes) {
            return Err(CuResult::HOST_MEMORY_ALREADY_REGISTERED);
        }
        session.allocations.insert(start, bytes, AllocationKind::Registered, device);
        session.note_origin(LeakKind::Allocation, start as u64);
        session.allocations.set_context(start, context);
        Ok(())
    }

    fn cuMemHostUnregister(start: *mut c_void) by [] |session| {
        session.context()?;
        let freed = session.free(start.address(), |kind| kind == AllocationKind::Registered);
        freed.map_err(|_| CuResult::HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut CuDevicePtr, host: *mut c_void, flags: c_uint) by [host] |session| {
        let address = host.address();
        let known = session.allocations.containing(address);
        if flags != 0 || known.is_none_or(|allocation| !allocation.is_pinned()) {
            return Err(CuResult::INVALID_VALUE);
        }
        device.put(pointer(address))
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: CuPointerAttribute, at: CuDevicePtr) by [at] |session| {
        data.required()?;
        let at = address(at);
        let allocation = session.allocation_at(at).ok_or(CuResult::INVALID_VALUE)?;
        match attribute {
            CuPointerAttribute::CONTEXT => {
                // Mapped memory belongs to no context (seen on an H100).
                let context = match allocation.kind {
                    AllocationKind::Mapped => CuContext::NULL,
                    _ => session.context_handle(allocation.context),
                };
                // SAFETY: this attribute is a `CuContext`.
                unsafe { data.put_as(context) }
            }
            CuPointerAttribute::MEMORY_TYPE => {
                let kind = if allocation.is_pinned() || session.virtual_memory.is_on_host(at) { CuMemoryType::HOST } else { CuMemoryType::DEVICE };
                // SAFETY: this attribute is a `c_uint`.
                unsafe { data.put_as(kind) }
            }
            CuPointerAttribute::DEVICE_POINTER => {
                // SAFETY: this attribute is a `CuDevicePtr`.
                unsafe { data.put_as(pointer(at)) }
            }
            CuPointerAttribute::HOST_POINTER if !allocation.on_device_only() || session.virtual_memory.is_on_host(at) => {
                // SAFETY: this attribute is a pointer.
                unsafe { data.put_as(std::ptr::with_exposed_provenance_mut::<c_void>(at)) }
            }
            CuPointerAttribute::IS_MANAGED => {
                // SAFETY: this attribute is a `c_int`.
                unsafe { data.put_as(c_int::from(allocation.is_managed())) }
            }
            CuPointerAttribute::DEVICE_ORDINAL => {
                // SAFETY: this attribute is a `c_int`.
                unsafe { data.put_as(c_int::try_from(allocation.device).expect("fewer than 2^31 devices")) }
            }
            CuPointerAttribute::RANGE_START_ADDR => {
                // SAFETY: this attribute is a `CuDevicePtr`.
                unsafe { data.put_as(pointer(allocation.start)) }
            }
            CuPointerAttribute::RANGE_SIZE => {
                // SAFETY: this attribute is a `usize`.
                unsafe { data.put_as(allocation.bytes) }
            }
            CuPointerAttribute::MEMPOOL_HANDLE => {
                let (AllocationKind::Pool(key, _) | AllocationKind::Imported { pool: key, .. }) = allocation.kind else {
                    // SAFETY: this attribute is a `CuMemPool`.
                    return unsafe { data.put_as(CuMemPool::NULL) };
                };
                // SAFETY: this attribute is a `CuMemPool`.
                unsafe { data.put_as(session.pool_handle(key)) }
            }
            CuPointerAttribute::IS_HW_DECOMPRESS_CAPABLE if session.driver_version >= 12080 => {
                // SAFETY: this attribute is a `bool`.
                unsafe { data.put_as(session.decompresses(&allocation)) }
            }
            _ => Err(CuResult::INVALID_VALUE),
        }
    }

    fn cuMemAdvise_v2(start: CuDevicePtr, bytes: usize, advice: CuMemAdvise, location: CuMemLocation) by [start] |session| {
        if !CuMemAdvise::KNOWN.iter().any(|(known, _)| *known == advice) {
            return Err(CuResult::INVALID_VALUE);
        }
        session.check_managed(start, bytes, location)
    }

    fn cuMemPrefetchAsync_v2(start: CuDevicePtr, bytes: usize, location: CuMemLocation, flags: c_uint, stream: CuStream)
        by [start, stream] |session|
    {
        if flags != 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        session.check_managed(start, bytes, location)?;
        let stream = session.stream(stream)?;
        session.enqueue(stream, Work::Marker("prefetch"))?;
        // A captured prefetch is not requested until its graph is launched.
        if !session.captures.has(stream) {
            let start = address(start);
            session.prefetches.record(&(start..start + bytes), location);
        }
        Ok(())
    }

    fn cuMemRangeGetAttribute(data: *mut c_void, bytes: usize, attribute: CuMemRangeAttribute, start: CuDevicePtr, count: usize)
        by [start] |session|
    {
        data.required()?;
        // All of these attributes have four bytes.
        if bytes != size_of::<c_int>() {
            return Err(CuResult::INVALID_VALUE);
        }
        let host = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };
        session.check_managed(start, count, host)?;
        let start = address(start);
        let found = session.prefetches.location_of(&(start..start + count));
        let location = found.unwrap_or(CuMemLocation { kind: CuMemLocationType::INVALID, id: CuDevice::INVALID.0 });
        let value = match attribute {
            CuMemRangeAttribute::LAST_PREFETCH_LOCATION => match location.kind {
                CuMemLocationType::DEVICE => location.id,
                CuMemLocationType::INVALID => CuDevice::INVALID.0,
                _ => CuDevice::CPU.0,
            },
            CuMemRangeAttribute::LAST_PREFETCH_LOCATION_TYPE if session.driver_version >= 12020 => {
                // SAFETY: this attribute is a `CuMemLocationType`, and the place has four bytes.
                return unsafe { data.put_as(location.kind) };
            }
            CuMemRangeAttribute::LAST_PREFETCH_LOCATION_ID if session.driver_version >= 12020 => location.id,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        // SAFETY: these attributes are a `c_int`, and the place has four bytes.
        unsafe { data.put_as::<c_int>(value) }
    }
}
