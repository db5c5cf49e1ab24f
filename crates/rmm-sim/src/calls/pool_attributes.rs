//! Attributes and access rights of memory pools.

use std::ffi::{c_int, c_void};

use rmm_sys::{
    CuMemAccessDesc, CuMemAccessFlags, CuMemLocation, CuMemLocationType, CuMemPool,
    CuMemPoolAttribute, CuResult,
};

use crate::calls::call::driver_calls;
use crate::model::pool::Pool;

/// The first driver version that returns the properties that a pool was created with.
const FACTS_SINCE: i32 = 13020;

/// The reuse policy that an attribute names.
fn switch(pool: &mut Pool, attribute: CuMemPoolAttribute) -> Option<&mut bool> {
    match attribute {
        CuMemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES => Some(&mut pool.reuse.follow_events),
        CuMemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC => Some(&mut pool.reuse.opportunistic),
        CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            Some(&mut pool.reuse.internal_dependencies)
        }
        _ => None,
    }
}

driver_calls! {
    fn cuMemPoolSetAttribute(pool: CuMemPool, attribute: CuMemPoolAttribute, value: *mut c_void) by [pool] |session| {
        let key = session.pool(pool)?;
        value.required()?;
        let pool = session.pools.get_mut(&key).ok_or(CuResult::INVALID_VALUE)?;
        if let Some(switch) = switch(pool, attribute) {
            // SAFETY: these attributes are a `c_int`.
            *switch = unsafe { value.get_as::<c_int>() }? != 0;
            return Ok(());
        }
        pool.counter(attribute).ok_or(CuResult::INVALID_VALUE)?;
        // SAFETY: the other attributes are a `u64`.
        let value = unsafe { value.get_as::<u64>() }?;
        match (attribute, value) {
            (CuMemPoolAttribute::RELEASE_THRESHOLD, bytes) => pool.threshold = usize::try_from(bytes).unwrap_or(usize::MAX),
            (CuMemPoolAttribute::RESERVED_MEM_HIGH, 0) => pool.reset_reserved_high(),
            (CuMemPoolAttribute::USED_MEM_HIGH, 0) => pool.reset_used_high(),
            // The others are read-only.
            _ => return Err(CuResult::INVALID_VALUE),
        }
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: CuMemPool, attribute: CuMemPoolAttribute, value: *mut c_void) by [pool] |session| {
        let key = session.pool(pool)?;
        let knows_facts = session.driver_version >= FACTS_SINCE;
        let pool = session.pools.get_mut(&key).ok_or(CuResult::INVALID_VALUE)?;
        if let Some(switch) = switch(pool, attribute) {
            // SAFETY: these attributes are a `c_int`.
            return unsafe { value.put_as(c_int::from(*switch)) };
        }
        if let Some(fact) = pool.fact(attribute).filter(|_| knows_facts) {
            if attribute == CuMemPoolAttribute::MAX_POOL_SIZE {
                // SAFETY: this attribute is a `u64`.
                return unsafe { value.put_as(fact as u64) };
            }
            let fact = c_int::try_from(fact).map_err(|_| CuResult::INVALID_VALUE)?;
            // SAFETY: these attributes are a `c_int`, or an enumeration of its size.
            return unsafe { value.put_as(fact) };
        }
        let counter = pool.counter(attribute).ok_or(CuResult::INVALID_VALUE)?;
        // SAFETY: the other attributes are a `u64`.
        unsafe { value.put_as(counter as u64) }
    }

    fn cuMemPoolSetAccess(pool: CuMemPool, access: *const CuMemAccessDesc, count: usize) by [pool] |session| {
        let key = session.pool(pool)?;
        for index in 0..count {
            let CuMemAccessDesc { location, flags } = access.get(index)?;
            if location.kind != CuMemLocationType::DEVICE {
                return Err(CuResult::INVALID_VALUE);
            }
            let device = session.device(location.id)?;
            let pool = session.pools.get_mut(&key).ok_or(CuResult::INVALID_VALUE)?;
            // A device's access to its own memory cannot be revoked.
            if pool.is_home(device) && flags != CuMemAccessFlags::READ_WRITE {
                return Err(CuResult::INVALID_DEVICE);
            }
            pool.access.insert(device, flags.0);
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(access: *mut CuMemAccessFlags, pool: CuMemPool, location: *mut CuMemLocation) by [pool] |session| {
        let key = session.pool(pool)?;
        let location = location.get()?;
        if location.kind != CuMemLocationType::DEVICE {
            return Err(CuResult::INVALID_VALUE);
        }
        let device = session.device(location.id)?;
        let pool = session.pools.get(&key).ok_or(CuResult::INVALID_VALUE)?;
        let own = if pool.is_home(device) { CuMemAccessFlags::READ_WRITE } else { CuMemAccessFlags::NONE };
        access.put(pool.access.get(&device).map_or(own, |&flags| CuMemAccessFlags(flags)))
    }
}
