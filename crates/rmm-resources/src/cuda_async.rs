//! `cudaMallocAsync`: a stream-ordered pool of the driver.

use std::ffi::{c_uint, c_ushort};
use std::sync::Arc;

use rmm_core::{Device, DeviceAccessible, Error, HasProperty, MemoryKind};
use rmm_sys::{
    CuDeviceAttribute, CuMemHandleType, CuMemPoolProps, MEM_POOL_CREATE_USAGE_HW_DECOMPRESS,
};

use crate::DriverPool;
use crate::capability::{addressable, is_driver_since, require, require_driver};
use crate::driver_pool::{
    check_handle_types, check_sizes, foreign_pools, on_device, pool_resource,
};
use crate::kind::known_kind;

bitflags::bitflags! {
    /// The handle types as which a pool can be exported to other processes; may be combined.
    ///
    /// ```
    /// use rmm_core::ErrorKind;
    /// use rmm_resources::{CudaAsyncMemoryResource, ExportHandleTypes};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// // This device cannot export pools: `build` returns an error.
    /// let builder = CudaAsyncMemoryResource::builder();
    /// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR | ExportHandleTypes::FABRIC;
    /// let refused = builder.export_handle_types(types).build().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Unsupported);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::cuda_async_memory_resource::allocation_handle_type")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ExportHandleTypes: c_uint {
        /// A file descriptor, see `DriverPool::export_file_descriptor`.
        #[doc(alias = "cudaMemHandleTypePosixFileDescriptor")]
        const POSIX_FILE_DESCRIPTOR = CuMemHandleType::POSIX_FILE_DESCRIPTOR.0;
        /// A Windows NT handle.
        #[doc(alias = "cudaMemHandleTypeWin32")]
        const WIN32 = CuMemHandleType::WIN32.0;
        /// A Windows kernel-mode handle.
        #[doc(alias = "cudaMemHandleTypeWin32Kmt")]
        const WIN32_KMT = CuMemHandleType::WIN32_KMT.0;
        /// A handle for other machines of the same `NVLink` fabric.
        #[doc(alias = "cudaMemHandleTypeFabric")]
        const FABRIC = CuMemHandleType::FABRIC.0;
    }
}

/// Stream-ordered device memory from a pool of the driver (`cudaMallocAsync`, `cudaFreeAsync`).
///
/// Each value made by [`new`](Self::new) or [`builder`](Self::builder) has its own driver pool on
/// the device that is current then, destroyed with the last clone. Only clones are equal. Any
/// thread may use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncMemoryResource::new()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(4096, 256)?;
/// let pointer = resource.allocate(&stream, layout)?;
/// assert!(resource.reserved_bytes()? >= 4096);
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { resource.deallocate(&stream, pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::cuda_async_memory_resource")]
#[doc(alias = "cuda::async_device_resource")]
#[derive(Clone, Debug)]
pub struct CudaAsyncMemoryResource {
    pool: Arc<DriverPool>,
}

/// A builder of [`CudaAsyncMemoryResource`].
///
/// ```
/// use rmm_core::ErrorKind;
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncMemoryResource::builder()
///     .initial_size(32 << 20)
///     .maximum_size(1 << 30)
///     .release_threshold(64 << 20)
///     .hardware_decompress(false)
///     .build()?;
/// assert_eq!(resource.reserved_bytes()?, 32 << 20);
/// assert_eq!(resource.pool().release_threshold()?, 64 << 20);
///
/// let contradiction = CudaAsyncMemoryResource::builder().initial_size(2).maximum_size(1);
/// assert_eq!(contradiction.build().unwrap_err().kind(), ErrorKind::InvalidArgument);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::memory_pool_properties")]
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct CudaAsyncMemoryResourceBuilder {
    initial_size: u64,
    maximum_size: u64,
    release_threshold: u64,
    handle_types: ExportHandleTypes,
    hardware_decompress: bool,
}

impl CudaAsyncMemoryResource {
    const NAME: &str = "cuda-async";

    /// Makes a resource over a new driver pool of the current device, which retains freed memory
    /// until the resource is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no memory
    /// pools; other kinds as the driver reports.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a new resource.
    pub fn builder() -> CudaAsyncMemoryResourceBuilder {
        CudaAsyncMemoryResourceBuilder {
            initial_size: 0,
            maximum_size: 0,
            release_threshold: u64::MAX,
            handle_types: ExportHandleTypes::empty(),
            hardware_decompress: true,
        }
    }

    /// Bytes that the pool holds now, allocated or free.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reserved_bytes(&self) -> Result<u64, Error> {
        self.pool.reserved_bytes()
    }

    /// The peak of the bytes that the pool holds.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn peak_reserved_bytes(&self) -> Result<u64, Error> {
        self.pool.peak_reserved_bytes()
    }

    /// Releases freed memory to the device until the pool holds at most `keep` bytes, as far as
    /// possible.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(&self, keep: u64) -> Result<(), Error> {
        self.pool.trim(keep)
    }
}

impl CudaAsyncMemoryResourceBuilder {
    /// Bytes to allocate from the device at once; 0 by default.
    pub fn initial_size(mut self, bytes: u64) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Upper bound on the bytes that the pool holds, which the driver rounds up to its own
    /// granularity; 0, the default, for no limit. Needs a driver of CUDA 12.2.
    pub fn maximum_size(mut self, bytes: u64) -> Self {
        self.maximum_size = bytes;
        self
    }

    /// Bytes of freed memory that the pool may retain when a stream is synchronized; no limit by
    /// default.
    #[doc(alias = "cudaMemPoolAttrReleaseThreshold")]
    pub fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// The handle types as which the pool can be exported; none by default.
    pub fn export_handle_types(mut self, types: ExportHandleTypes) -> Self {
        self.handle_types = types;
        self
    }

    /// Whether the device's decompression engine should be able to access the memory, if the driver
    /// is of CUDA 12.8 or newer and the device has such an engine. True by default.
    #[doc(alias = "mempool_usage")]
    #[doc(alias = "cudaMemPoolCreateUsageHwDecompress")]
    pub fn hardware_decompress(mut self, wanted: bool) -> Self {
        self.hardware_decompress = wanted;
        self
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// The errors of [`CudaAsyncMemoryResource::new`],
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is not enough memory
    /// for the initial size, [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument)
    /// if it is above the maximum size or the release threshold, and
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device does not support
    /// one of the handle types, or the driver is too old for a maximum size.
    pub fn build(self) -> Result<CudaAsyncMemoryResource, Error> {
        let name = CudaAsyncMemoryResource::NAME;
        check_sizes(name, self.initial_size, self.maximum_size, self.release_threshold)?;
        let device = Device::current()?;
        require(name, device, CuDeviceAttribute::MEMORY_POOLS_SUPPORTED, "has no memory pools")?;
        let mut properties = CuMemPoolProps::pinned(on_device(device));
        properties.handle_types = check_handle_types(name, device, self.handle_types)?;
        if self.maximum_size > 0 {
            require_driver(name, 12020, "a maximum size of a pool")?;
            properties.max_size = addressable(name, "maximum size", self.maximum_size)?;
        }
        properties.usage = self.usage()?;
        // From here on the pool is destroyed if a step fails.
        let pool = DriverPool::create(&properties)?.announce(device, MemoryKind::Device)?;
        pool.set_release_threshold(self.release_threshold)?;
        pool.prime(name, self.initial_size)?;
        Ok(CudaAsyncMemoryResource { pool })
    }

    fn usage(self) -> Result<c_ushort, Error> {
        if self.hardware_decompress && is_driver_since(12080)? {
            Ok(MEM_POOL_CREATE_USAGE_HW_DECOMPRESS)
        } else {
            Ok(0)
        }
    }
}

pool_resource!(CudaAsyncMemoryResource; DeviceAccessible; MemoryKind);
foreign_pools!(CudaAsyncMemoryResource, Device, "device memory");

// SAFETY: the pool's location is a device.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncMemoryResource {}

known_kind!(CudaAsyncMemoryResource, Device);

#[cfg(test)]
mod tests {
    use rmm_core::SynchronousResource;

    use super::*;

    #[test]
    fn decompression_is_requested_from_drivers_that_know_it() {
        for (version, wanted, usage) in [(12070, true, 0), (12080, true, 2), (13000, false, 0)] {
            let _machine = rmm_sim::Machine::builder().driver_version(version).enter();
            let builder = CudaAsyncMemoryResource::builder().hardware_decompress(wanted);
            assert_eq!(builder.usage().unwrap(), usage);
            assert_eq!(builder.build().unwrap().name(), "cuda-async");
        }
    }
}
