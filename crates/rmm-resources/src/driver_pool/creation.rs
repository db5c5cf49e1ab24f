//! Read-only attributes of a pool.

use rmm_core::Error;
use rmm_sys::{
    CuMemAllocationType, CuMemHandleType, CuMemLocation, CuMemLocationType, CuMemPoolAttribute,
};

use super::DriverPool;
use crate::ExportHandleTypes;
use crate::capability::require_driver;

impl DriverPool {
    /// The allocation type of the pool: `PINNED` for memory that does not migrate (on a device
    /// too), or `MANAGED`.
    ///
    /// ```
    /// use rmm_core::Device;
    /// use rmm_resources::CudaAsyncMemoryResource;
    /// use rmm_sys::{CuMemAllocationType, CuMemLocationType};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::Machine::builder().driver_version(13020).enter();
    /// let resource = CudaAsyncMemoryResource::builder().maximum_size(1 << 30).build()?;
    /// let pool = resource.pool();
    /// assert_eq!(pool.allocation_type()?, CuMemAllocationType::PINNED);
    /// assert_eq!(pool.location()?.kind, CuMemLocationType::DEVICE);
    /// assert_eq!(pool.location()?.id, Device::current()?.as_raw().0);
    /// assert_eq!(pool.maximum_size()?, 1 << 30);
    /// assert!(pool.export_handle_types()?.is_empty());
    /// assert!(pool.is_hardware_decompress_enabled()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the driver is older than
    /// CUDA 13.2, the first to report it; other kinds as the driver reports.
    #[doc(alias = "cudaMemPoolAttrAllocationType")]
    #[doc(alias = "memory_pool_attributes::allocation_type")]
    pub fn allocation_type(&self) -> Result<CuMemAllocationType, Error> {
        self.word(CuMemPoolAttribute::ALLOCATION_TYPE).map(CuMemAllocationType)
    }

    /// The location of the pool's memory: a device, the host, or a NUMA node of the host.
    ///
    /// # Errors
    /// The errors of [`allocation_type`](Self::allocation_type).
    #[doc(alias = "cudaMemPoolAttrLocationId")]
    #[doc(alias = "cudaMemPoolAttrLocationType")]
    #[doc(alias = "memory_pool_attributes::location")]
    pub fn location(&self) -> Result<CuMemLocation, Error> {
        let kind = CuMemLocationType(self.word(CuMemPoolAttribute::LOCATION_TYPE)?);
        let id = self.word(CuMemPoolAttribute::LOCATION_ID)?.cast_signed();
        Ok(CuMemLocation { kind, id })
    }

    /// Upper bound on the bytes of the pool, as the driver counts them; 0 if there is none.
    ///
    /// # Errors
    /// The errors of [`allocation_type`](Self::allocation_type).
    #[doc(alias = "cudaMemPoolAttrMaxPoolSize")]
    #[doc(alias = "memory_pool_attributes::max_pool_size")]
    pub fn maximum_size(&self) -> Result<u64, Error> {
        self.fact(CuMemPoolAttribute::MAX_POOL_SIZE)
    }

    /// The handle types as which the pool can be exported. Empty for an imported pool.
    ///
    /// # Errors
    /// The errors of [`allocation_type`](Self::allocation_type).
    #[doc(alias = "cudaMemPoolAttrExportHandleTypes")]
    #[doc(alias = "memory_pool_attributes::export_handle_types")]
    pub fn export_handle_types(&self) -> Result<ExportHandleTypes, Error> {
        let types = CuMemHandleType(self.word(CuMemPoolAttribute::EXPORT_HANDLE_TYPES)?);
        // A newer driver may report unknown flags.
        Ok(ExportHandleTypes::from_bits_retain(types.0))
    }

    /// Whether the device's decompression engine can access the pool's memory.
    ///
    /// # Errors
    /// The errors of [`allocation_type`](Self::allocation_type).
    #[doc(alias = "cudaMemPoolAttrHwDecompressEnabled")]
    #[doc(alias = "memory_pool_attributes::hw_decompress_enabled")]
    pub fn is_hardware_decompress_enabled(&self) -> Result<bool, Error> {
        self.word(CuMemPoolAttribute::HW_DECOMPRESS_ENABLED).map(|value| value != 0)
    }

    /// An attribute that is a `c_int` or an enumeration of its size.
    fn word(&self, attribute: CuMemPoolAttribute) -> Result<u32, Error> {
        let [first, second, third, fourth, ..] = self.fact(attribute)?.to_ne_bytes();
        Ok(u32::from_ne_bytes([first, second, third, fourth]))
    }

    fn fact(&self, attribute: CuMemPoolAttribute) -> Result<u64, Error> {
        require_driver("DriverPool", 13020, "what a pool was made with")?;
        self.bytes(attribute)
    }
}
