//! Prefetching managed memory.

use std::ffi::c_int;

use rmm_sys::{CuMemLocation, CuMemLocationType, CuResult};

use crate::driver::check;
use crate::{Device, DevicePtr, Error, StreamRef};

/// The target of [`prefetch`].
///
/// ```
/// use rmm_core::{Device, PrefetchTarget};
///
/// # let _machine = rmm_sim::enter();
/// let target = PrefetchTarget::Device(Device::current()?);
/// assert_ne!(target, PrefetchTarget::Host);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrefetchTarget {
    /// Host memory.
    #[doc(alias = "cudaCpuDeviceId")]
    Host,
    /// The memory of a device.
    Device(Device),
}

impl PrefetchTarget {
    fn location(self) -> CuMemLocation {
        match self {
            Self::Host => CuMemLocation { kind: CuMemLocationType::HOST, id: 0 },
            Self::Device(device) => CuMemLocation {
                kind: CuMemLocationType::DEVICE,
                id: c_int::try_from(device.ordinal()).unwrap_or(c_int::MAX),
            },
        }
    }
}

/// Migrates `bytes` bytes of managed memory to `target` in stream order, before they are used
/// there. Contents stay unchanged.
///
/// It is a hint, and does nothing where it cannot be followed: for a length of 0; on a current
/// device without [concurrent managed access](crate::Capabilities::concurrent_managed_access),
/// whose driver migrates managed memory by itself; and for memory that is not managed, which the
/// driver does not distinguish from other invalid arguments.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Device, PrefetchTarget, SynchronousResource, prefetch};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let (resource, layout) = (CudaMemoryResource::new(), Layout::from_size_align(4096, 256)?);
/// let stays = resource.allocate_sync(layout)?;
/// let stream = CudaStream::new()?;
/// // Written so for any resource: managed memory moves, and plain device memory stays where it is.
/// prefetch(stays, layout.size(), PrefetchTarget::Device(Device::current()?), &stream)?;
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { resource.deallocate_sync(stays, layout) };
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) with a driver older than CUDA 12.2;
/// whatever else the driver reports.
#[doc(alias = "rmm::prefetch")]
#[doc(alias = "cudaMemPrefetchAsync")]
pub fn prefetch<'s>(
    pointer: DevicePtr,
    bytes: usize,
    target: PrefetchTarget,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let stream = stream.into();
    let driver = stream.driver()?;
    if !Device::current()?.capabilities()?.concurrent_managed_access {
        return Ok(());
    }
    // SAFETY: the driver checks the address itself and touches no memory that is not managed; the
    // stream exists while it is borrowed.
    let code = unsafe {
        driver.cuMemPrefetchAsync_v2(pointer, bytes, target.location(), 0, stream.as_raw())
    };
    if code == CuResult::INVALID_VALUE { Ok(()) } else { check("cuMemPrefetchAsync_v2", code) }
}
