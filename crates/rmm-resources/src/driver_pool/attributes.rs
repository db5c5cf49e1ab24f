//! What a pool holds, and how it treats freed memory.

use std::ffi::c_int;

use rmm_core::{Error, check};
use rmm_sys::CuMemPoolAttribute;

use super::DriverPool;
use crate::capability::calls_for;

bitflags::bitflags! {
    /// When a pool may serve a stream with memory that was freed on another one. New pools do it in
    /// every way.
    ///
    /// ```
    /// use rmm_resources::{CudaAsyncMemoryResource, PoolReuse};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let resource = CudaAsyncMemoryResource::new()?;
    /// assert_eq!(resource.pool().reuse()?, PoolReuse::all());
    /// resource.pool().set_reuse(PoolReuse::empty())?;
    /// assert_eq!(resource.pool().reuse()?, PoolReuse::empty());
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct PoolReuse: u32 {
        /// Where events of the program's already order the stream behind the free.
        #[doc(alias = "cudaMemPoolReuseFollowEventDependencies")]
        const FOLLOW_EVENT_DEPENDENCIES = 1;
        /// Where the free is found complete.
        #[doc(alias = "cudaMemPoolReuseAllowOpportunistic")]
        const OPPORTUNISTIC = 2;
        /// By having the stream wait for the other one, which the program does not see.
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
    /// Bytes that the pool holds now, in use or not.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReservedMemCurrent")]
    pub fn reserved_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RESERVED_MEM_CURRENT)
    }

    /// The most bytes that the pool has held since [`reset_peaks`](Self::reset_peaks).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReservedMemHigh")]
    pub fn peak_reserved_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RESERVED_MEM_HIGH)
    }

    /// Bytes that are handed out now, as they were asked for and not rounded up (seen on an H200).
    /// Memory that `cuMemFree` gave back without a stream may count on for a while.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrUsedMemCurrent")]
    pub fn used_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::USED_MEM_CURRENT)
    }

    /// The most bytes that were handed out at once since [`reset_peaks`](Self::reset_peaks).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrUsedMemHigh")]
    pub fn peak_used_bytes(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::USED_MEM_HIGH)
    }

    /// Sets both peaks to what is now.
    ///
    /// ```
    /// use rmm_resources::CudaAsyncMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
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

    /// Bytes of freed memory that the pool may keep when a stream, an event or the device is waited
    /// for.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolAttrReleaseThreshold")]
    pub fn release_threshold(&self) -> Result<u64, Error> {
        self.bytes(CuMemPoolAttribute::RELEASE_THRESHOLD)
    }

    /// Sets the [release threshold](Self::release_threshold); `u64::MAX` for no limit. On a default
    /// pool it is set for everybody in this process.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<(), Error> {
        self.set_bytes(CuMemPoolAttribute::RELEASE_THRESHOLD, bytes)
    }

    /// When the pool passes memory from stream to stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reuse(&self) -> Result<PoolReuse, Error> {
        let driver = calls_for(None)?;
        let mut reuse = PoolReuse::empty();
        for (flag, attribute) in REUSE {
            let mut value: c_int = 0;
            // SAFETY: the pool exists, and the attribute is a `c_int`, which is what the pointer
            // names.
            let code = unsafe {
                driver.cuMemPoolGetAttribute(self.handle, attribute, (&raw mut value).cast())
            };
            check("cuMemPoolGetAttribute", code)?;
            reuse.set(flag, value != 0);
        }
        Ok(reuse)
    }

    /// Sets when the pool passes memory from stream to stream. Memory that is passed is safe to use
    /// in every case.
    ///
    /// # Errors
    /// If the driver refuses; some flags may be set then.
    pub fn set_reuse(&self, reuse: PoolReuse) -> Result<(), Error> {
        let driver = calls_for(None)?;
        for (flag, attribute) in REUSE {
            let mut value = c_int::from(reuse.contains(flag));
            // SAFETY: the pool exists, and the attribute is a `c_int`, which is what the pointer
            // names.
            let code = unsafe {
                driver.cuMemPoolSetAttribute(self.handle, attribute, (&raw mut value).cast())
            };
            check("cuMemPoolSetAttribute", code)?;
        }
        Ok(())
    }

    /// An attribute that is a number of bytes.
    fn bytes(&self, attribute: CuMemPoolAttribute) -> Result<u64, Error> {
        let driver = calls_for(None)?;
        let mut value = 0u64;
        // SAFETY: the pool exists, and the attributes asked for here are `u64`s, which is what the
        // pointer names.
        let code = unsafe {
            driver.cuMemPoolGetAttribute(self.handle, attribute, (&raw mut value).cast())
        };
        check("cuMemPoolGetAttribute", code)?;
        Ok(value)
    }

    fn set_bytes(&self, attribute: CuMemPoolAttribute, mut value: u64) -> Result<(), Error> {
        let driver = calls_for(None)?;
        // SAFETY: the pool exists, and the attributes set here are `u64`s, which is what the
        // pointer names.
        let code = unsafe {
            driver.cuMemPoolSetAttribute(self.handle, attribute, (&raw mut value).cast())
        };
        check("cuMemPoolSetAttribute", code)
    }
}
