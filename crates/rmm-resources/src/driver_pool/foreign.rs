//! Pools of other libraries: taken over, borrowed, and given away.

use std::sync::Arc;

use rmm_core::{Device, Error, MemoryKind};
use rmm_sys::CuMemPool;

use super::DriverPool;

impl DriverPool {
    /// Takes over a pool that other code created on the current device.
    ///
    /// # Safety
    /// Only the result destroys the pool from now on.
    pub(crate) unsafe fn taken_over(
        name: &'static str,
        handle: CuMemPool,
        kind: MemoryKind,
    ) -> Result<Arc<Self>, Error> {
        check_handle(name, handle)?;
        let device = Device::current()?;
        // Without ownership until the last step: an error leaves the pool to the caller.
        // SAFETY: the pool exists until the result destroys it.
        let mut pool = unsafe { Self::borrowed(handle) }.join(device, kind)?;
        pool.is_managed = kind == MemoryKind::Managed;
        pool.note_access_of_current()?;
        pool.is_owned = true;
        Ok(pool.announced())
    }

    /// Refers to a pool of other code, which is not destroyed here. Other suballocators do not ask
    /// it for memory.
    ///
    /// # Safety
    /// The pool exists as long as the result.
    pub(crate) unsafe fn of_others(
        name: &'static str,
        handle: CuMemPool,
        kind: MemoryKind,
    ) -> Result<Arc<Self>, Error> {
        check_handle(name, handle)?;
        // SAFETY: the caller's contract.
        let mut pool = unsafe { Self::borrowed(handle) };
        pool.is_managed = kind == MemoryKind::Managed;
        pool.note_access_of_current()?;
        Ok(Arc::new(pool))
    }

    /// The pool's handle, if it is owned and this is the last reference: it is not destroyed then.
    pub(crate) fn given_away(pool: Arc<Self>) -> Result<CuMemPool, Arc<Self>> {
        if !pool.is_owned {
            return Err(pool);
        }
        Arc::try_unwrap(pool).map(|mut pool| {
            pool.is_owned = false;
            pool.handle
        })
    }
}

fn check_handle(name: &'static str, handle: CuMemPool) -> Result<(), Error> {
    if handle.is_null() {
        return Err(Error::invalid_argument(name, "the pool's handle is null"));
    }
    Ok(())
}

/// Defines `from_raw`, `borrow_raw` and `into_raw` of a resource with a field `pool` over pools of
/// one kind of memory.
macro_rules! foreign_pools {
    ($resource:ident, $kind:ident, $memory:literal) => {
        impl $resource {
            #[doc = concat!("Takes over a pool of ", $memory, " that other code created: it is")]
            /// destroyed with the last clone of the result.
            ///
            /// # Errors
            /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for the null
            /// handle, or if there is no driver; the caller still owns the pool then.
            ///
            /// # Safety
            #[doc = concat!("It is a pool of ", $memory, ", which the current device may access,")]
            /// which only the result destroys from now on, and from which new memory can be
            /// allocated.
            #[doc(alias = "from_native_handle")]
            pub unsafe fn from_raw(pool: rmm_sys::CuMemPool) -> Result<Self, rmm_core::Error> {
                let kind = rmm_core::MemoryKind::$kind;
                // SAFETY: the caller's contract.
                let pool = unsafe { $crate::DriverPool::taken_over(Self::NAME, pool, kind) }?;
                Ok(Self { pool })
            }

            #[doc = concat!("A resource over a pool of ", $memory, " of other code, which destroys")]
            /// it. Other suballocators do not ask it for memory.
            ///
            /// # Errors
            /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for the null
            /// handle, or if there is no driver.
            ///
            /// # Safety
            #[doc = concat!("It is a pool of ", $memory, ", which exists until the result, its")]
            /// clones and all memory from them are gone, which the current device may access, and
            /// from which new memory can be allocated (it is not imported).
            #[doc(alias = "memory_pool_ref")]
            pub unsafe fn borrow_raw(pool: rmm_sys::CuMemPool) -> Result<Self, rmm_core::Error> {
                let kind = rmm_core::MemoryKind::$kind;
                // SAFETY: the caller's contract.
                let pool = unsafe { $crate::DriverPool::of_others(Self::NAME, pool, kind) }?;
                Ok(Self { pool })
            }

            /// Gives the pool away: the caller destroys it, after all memory from it is freed.
            ///
            /// # Errors
            /// The resource itself, if it has other clones, or does not own the pool. Also if
            /// another thread is looking at the pools of the device meanwhile: call again.
            #[doc(alias = "release")]
            pub fn into_raw(self) -> Result<rmm_sys::CuMemPool, Self> {
                $crate::DriverPool::given_away(self.pool).map_err(|pool| Self { pool })
            }
        }
    };
}
pub(crate) use foreign_pools;
