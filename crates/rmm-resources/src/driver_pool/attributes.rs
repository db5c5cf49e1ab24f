//! Statistics of a pool, and the attributes that govern freed memory.

use std::ffi::c_int;

use rmm_core::{Error, check};
use rmm_sys::CuMemPoolAttribute;

use super::DriverPool;
use crate::capability::calls_for;

bitflags::bitflags! {
    /// When a pool may reuse memory on a stream other than the one it was freed on. New pools have
    /// all flags set.
    ///
    /// ```
    /// use rmm_resources::{CudaAsyncMemoryResource, PoolReuse};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let resource = CudaAsyncMemoryResource::new()?;
    /// assert_eq!(resource.pool().reuse()?, PoolReuse::all());
    /// resource.pool().set_reuse(PoolReuse::empty())?;
    /// assert_eq!(resource.pool().reuse()?, PoolReuse::empty());
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct PoolReuse: u32 {
        /// If an event of the program already orders the stream after the free.
        #[doc(alias = "cudaMemPoolReuseFollowEventDependencies")]
        const FOLLOW_EVENT_DEPENDENCIES = 1;
        /// If the free is found complete.
        #[doc(alias = "cudaMemPoolReuseAllowOpportunistic")]
        const OPPORTUNISTIC = 2;
        /// By inserting a dependency: the stream waits for the other one.
        #[doc(alias = "cudaMemPoolReuseAllowInternalDependencies")]
        const INTERNAL_DEPENDENCIES = 4;
    }
}

/// The attribute of each flag.
const REUSE: [(PoolReuse, CuMemPoolAttribute); 3] = [
    (PoolReuse::FOLLOW_EVENT_DEPENDENCIES, CuMemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES),
    (PoolReuse::OPPORTUNISTIC, CuMemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC),
    (PoolReuse::INTERNAL_DEPENDENCIES, CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES),
];

impl DriverPool {
    /// Bytes that the pool holds now, allocated or free.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReservedMemCurrent")]
    pub fn reserved_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RESERVED_MEM_CURRENT)
    }

    /// The peak of the bytes that the pool holds since [`reset_peaks`](Self::reset_peaks).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReservedMemHigh")]
    pub fn peak_reserved_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RESERVED_MEM_HIGH)
    }

    /// Bytes that are allocated now, as requested and not rounded up (observed on an H200). Memory
    /// freed by `cuMemFree`, without a stream, may still count for a while.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrUsedMemCurrent")]
    pub fn used_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::USED_MEM_CURRENT)
    }

    /// The peak of the allocated bytes since [`reset_peaks`](Self::reset_peaks).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrUsedMemHigh")]
    pub fn peak_used_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::USED_MEM_HIGH)
    }

    /// Resets both peaks to the present values.
    ///
    /// ```
    /// use rmm_resources::CudaAsyncMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let resource = CudaAsyncMemoryResource::builder().initial_size(32 << 20).build()?;
    /// let pool = resource.pool();
    /// resource.trim(0)?;
    /// assert_eq!((pool.reserved_bytes()?, pool.peak_reserved_bytes()?), (0, 32 << 20));
    /// pool.reset_peaks()?;
    /// assert_eq!((pool.peak_reserved_bytes()?, pool.peak_used_bytes()?), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reset_peaks(&self) -> Result<(), Error> {
        self.set_bytes(CuMemPoolAttribute::RESERVED_MEM_HIGH, 0)?;
        self.set_bytes(CuMemPoolAttribute::USED_MEM_HIGH, 0)
    }

    /// Bytes of freed memory that the pool may retain when a stream, an event or the device is
    /// synchronized.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReleaseThreshold")]
    pub fn release_threshold(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RELEASE_THRESHOLD)
    }

    /// Sets the [release threshold](Self::release_threshold); `u64::MAX` for no limit. On a default
    /// pool this affects all libraries in the process.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<(), Error> {
        self.set_bytes(CuMemPoolAttribute::RELEASE_THRESHOLD, bytes)
    }

    /// When the pool reuses memory across streams.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reuse(&self) -> Result<PoolReuse, Error> {
        let driver = calls_for(None)?;
        let mut reuse = PoolReuse::empty();
        for (flag, attribute) in REUSE {
            let mut value: c_int = 0;
            // SAFETY: the pool exists, and the attribute is a `c_int`, to which the pointer points.
            let code = unsafe {
                driver.cuMemPoolGetAttribute(self.handle, attribute, (&raw mut value).cast())
            };
            check("cuMemPoolGetAttribute", code)?;
            reuse.set(flag, value != 0);
        }
        Ok(reuse)
    }

    /// Sets when the pool reuses memory across streams. Reuse is safe with any flags.
    ///
    /// # Errors
    /// If the driver refuses; some flags may be set then.
    pub fn set_reuse(&self, reuse: PoolReuse) -> Result<(), Error> {
        let driver = calls_for(None)?;
        for (flag, attribute) in REUSE {
            let mut value = c_int::from(reuse.contains(flag));
            // SAFETY: the pool exists, and the attribute is a `c_int`, to which the pointer points.
            let code = unsafe {
                driver.cuMemPoolSetAttribute(self.handle, attribute, (&raw mut value).cast())
            };
            check("cuMemPoolSetAttribute", code)?;
        }
        Ok(())
    }

    /// The value of an attribute in bytes, or its first bytes if it is shorter than eight.
    pub(super) fn bytes(&self, attribute: CuMemPoolAttribute) -> Result<u64, Error> {
        let driver = calls_for(None)?;
        let mut value = 0u64;
        // SAFETY: the pool exists, and the pointer is to eight bytes, the size of the largest
        // attribute.
        let code = unsafe {
            driver.cuMemPoolGetAttribute(self.handle, attribute, (&raw mut value).cast())
        };
        check("cuMemPoolGetAttribute", code)?;
        Ok(value)
    }

    fn set_bytes(&self, attribute: CuMemPoolAttribute, mut value: u64) -> Result<(), Error> {
        let driver = calls_for(None)?;
        // SAFETY: the pool exists, and the attributes set here are `u64`s, to which the pointer
        // points.
        let code = unsafe {
            driver.cuMemPoolSetAttribute(self.handle, attribute, (&raw mut value).cast())
        };
        check("cuMemPoolSetAttribute", code)
    }
}
