//! Memory pools, and stream-ordered allocation.

use rmm_sys::{
    CuDevice, CuDeviceAttribute, CuDevicePtr, CuMemAllocationType, CuMemHandleType, CuMemLocation,
    CuMemLocationType, CuMemPool, CuMemPoolProps, CuResult, CuStream,
    MEM_POOL_CREATE_USAGE_HW_DECOMPRESS,
};

use crate::calls::arguments::{address, pointer};
use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::handle::{self, HandleKind};
use crate::model::pool::{Medium, Pool, Sharing};
use crate::model::trace::LeakKind;

impl Session<'_> {
    /// The device and the kind of memory of pools at a location.
    fn pool_home(
        &self,
        location: CuMemLocation,
        kind: CuMemAllocationType,
    ) -> Result<(usize, Medium), CuResult> {
        // Host memory belongs to the whole machine; the first device's attributes say whether there
        // are pools of it.
        let host =
            |attribute| match self.devices.first().and_then(|first| first.attribute(attribute)) {
                Some(1) => Ok((0, Medium::Host)),
                _ => Err(CuResult::NOT_SUPPORTED),
            };
        match (location.kind, kind) {
            (CuMemLocationType::DEVICE, CuMemAllocationType::PINNED) => {
                Ok((self.device(location.id)?, Medium::Device))
            }
            // Without a preferred location.
            (CuMemLocationType::INVALID, CuMemAllocationType::MANAGED) => Ok((0, Medium::Managed)),
            (CuMemLocationType::DEVICE, CuMemAllocationType::MANAGED) => {
                Ok((self.device(location.id)?, Medium::Managed))
            }
            (CuMemLocationType::HOST, CuMemAllocationType::PINNED) => {
                host(CuDeviceAttribute::HOST_MEMORY_POOLS_SUPPORTED)
            }
            (CuMemLocationType::HOST_NUMA, CuMemAllocationType::PINNED) if location.id == 0 => {
                host(CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED)
            }
            (CuMemLocationType::INVALID, _) | (_, CuMemAllocationType::INVALID) => {
                Err(CuResult::INVALID_VALUE)
            }
            _ => Err(CuResult::NOT_SUPPORTED),
        }
    }

    /// The default pool of a kind of memory at a location.
    fn default_pool(
        &self,
        location: CuMemLocation,
        kind: CuMemAllocationType,
    ) -> Result<u64, CuResult> {
        let (device, medium) = self.pool_home(location, kind)?;
        match medium {
            Medium::Device => Ok(self.devices[device].default_pool),
            Medium::Managed => Ok(self.devices[device].managed_pool),
            Medium::Host if location.kind == CuMemLocationType::HOST => Ok(self.host_pool),
            // A real driver has one more pool for each node.
            Medium::Host => Err(CuResult::NOT_SUPPORTED),
        }
    }
}

driver_calls! {
    fn cuMemAllocAsync(result: *mut CuDevicePtr, bytes: usize, stream: CuStream) by [stream] |session| {
        result.required()?;
        let stream = session.stream(stream)?;
        session.refuse_in_capture(stream)?;
        session.admit_unsafe_call()?;
        let device = session.streams.get(stream).ok_or(CuResult::INVALID_HANDLE)?.device;
        let pool = session.devices[device].current_pool;
        result.put(pointer(session.allocate_from(pool, bytes, stream)?))
    }

    fn cuMemAllocFromPoolAsync(result: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) by [stream, pool] |session| {
        result.required()?;
        let pool = session.pool(pool)?;
        let stream = session.stream(stream)?;
        session.refuse_in_capture(stream)?;
        session.admit_unsafe_call()?;
        result.put(pointer(session.allocate_from(pool, bytes, stream)?))
    }

    fn cuMemFreeAsync(start: CuDevicePtr, stream: CuStream) by [stream, start] |session| {
        let stream = session.stream(stream)?;
        // A graph frees only its own memory, and graphs have none here.
        session.refuse_in_capture(stream).map_err(|_| CuResult::INVALID_VALUE)?;
        session.admit_unsafe_call()?;
        if start == CuDevicePtr::NULL {
            return Ok(());
        }
        session.free_in_order(address(start), stream)
    }

    fn cuMemPoolCreate(pool: *mut CuMemPool, properties: *const CuMemPoolProps) by [] |session| {
        pool.required()?;
        let properties = properties.get(0)?;
        let (device, medium) = session.pool_home(properties.location, properties.kind)?;
        // To an older driver, fields that it does not know are reserved and must be zero.
        let (usage, limit) = (properties.usage, properties.max_size);
        if usage & !MEM_POOL_CREATE_USAGE_HW_DECOMPRESS != 0
            || usage != 0 && session.driver_version < 12080
            || limit != 0 && session.driver_version < 12020
        {
            return Err(CuResult::INVALID_VALUE);
        }
        let exports = properties.handle_types != CuMemHandleType::NONE;
        if exports && (medium != Medium::Device || !session.shares_pools(device, properties.handle_types)) {
            return Err(CuResult::NOT_SUPPORTED);
        }
        let key = session.next_key();
        let mut made = Pool::new(device, medium, properties.max_size, false);
        (made.location, made.decompresses) = (properties.location, usage != 0);
        if exports {
            made.sharing = Sharing::Exported;
        }
        session.pools.insert(key, made);
        session.note_origin(LeakKind::Pool, key);
        let slot = session.pool_slots.insert(key);
        pool.put(CuMemPool::from_raw(handle::encode(session.machine_id(), HandleKind::Pool, slot)))
    }

    fn cuMemPoolDestroy(pool: CuMemPool) by [pool] |session| {
        let key = session.pool(pool)?;
        let state = &mut **session;
        let destroyed = state.pools.get_mut(&key).filter(|pool| !pool.is_default).ok_or(CuResult::INVALID_VALUE)?;
        destroyed.destroyed = true;
        let device = &mut state.devices[destroyed.device];
        if device.current_pool == key {
            device.current_pool = device.default_pool;
        }
        if let Some(slot) = state.pool_slots.slot_of(key) {
            state.pool_slots.remove(slot);
        }
        state.trim_pool(key, 0);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: CuMemPool, keep: usize) by [pool] |session| {
        let key = session.pool(pool)?;
        session.trim_pool(key, keep);
        Ok(())
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut CuMemPool, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        pool.put(session.pool_handle(session.devices[device].default_pool))
    }

    fn cuDeviceGetMemPool(pool: *mut CuMemPool, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        pool.put(session.pool_handle(session.devices[device].current_pool))
    }

    fn cuDeviceSetMemPool(device: CuDevice, pool: CuMemPool) by [pool] |session| {
        let device = session.device(device.0)?;
        let key = session.pool(pool)?;
        if session.pools.get(&key).is_none_or(|pool| pool.medium != Medium::Device || pool.device != device || pool.imported_from().is_some()) {
            return Err(CuResult::INVALID_VALUE);
        }
        session.devices[device].current_pool = key;
        Ok(())
    }

    fn cuMemGetDefaultMemPool(pool: *mut CuMemPool, location: *mut CuMemLocation, kind: CuMemAllocationType) by [] |session| {
        let key = session.default_pool(location.get()?, kind)?;
        pool.put(session.pool_handle(key))
    }

    fn cuMemGetMemPool(pool: *mut CuMemPool, location: *mut CuMemLocation, kind: CuMemAllocationType) by [] |session| {
        let location = location.get()?;
        let key = match session.pool_home(location, kind)? {
            (device, Medium::Device) => session.devices[device].current_pool,
            (_, Medium::Managed | Medium::Host) => session.default_pool(location, kind)?,
        };
        pool.put(session.pool_handle(key))
    }
}
