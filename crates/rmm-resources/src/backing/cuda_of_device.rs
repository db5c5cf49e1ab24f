//! Memory from `cudaMalloc` of one device, whichever is current.

use std::alloc::Layout;
use std::fmt;

use rmm_core::{Device, DeviceGuard, DevicePtr, Error, Request, Resource, StreamRef, SyncResource};

use super::NAME;
use crate::CudaMemoryResource;
use crate::capability::wrong_device;
use crate::traits::clone_to_any;

/// [`CudaMemoryResource`], of the device that was current when it was made.
#[derive(Clone, Copy)]
pub(super) struct CudaOfDevice {
    device: Device,
    reason: &'static str,
}

impl CudaOfDevice {
    pub(super) const CUDA: &CudaMemoryResource = &CudaMemoryResource::new();

    pub(super) fn new(device: Device, reason: &'static str) -> Self {
        Self { device, reason }
    }

    /// Why the memory is not virtual.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    /// Makes the device current. A context of the device that the program made stays current.
    fn enter(&self) -> Result<Option<DeviceGuard>, Error> {
        let is_current = Device::current()? == self.device;
        (!is_current).then(|| self.device.make_current()).transpose()
    }
}

impl fmt::Debug for CudaOfDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaMemoryResource")
            .field("device", &self.device.ordinal())
            .field("reason", &self.reason)
            .finish()
    }
}

impl PartialEq for CudaOfDevice {
    fn eq(&self, other: &Self) -> bool {
        self.device == other.device
    }
}

impl Eq for CudaOfDevice {}

// SAFETY: all memory is from `CudaMemoryResource`, all of whose values are equal.
unsafe impl SyncResource for CudaOfDevice {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let _current = self.enter()?;
        Self::CUDA.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::CUDA.do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn provide<'a>(&'a self, _: &mut Request<'a>) {}
}

// SAFETY: as above.
unsafe impl Resource for CudaOfDevice {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let device = stream.device()?;
        if device != self.device {
            let instead = "give its device virtual memory with `accessible_from`";
            return Err(wrong_device(NAME, device, instead).with_layout(layout));
        }
        Self::CUDA.do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::CUDA.do_deallocate(stream, pointer, layout) }
    }

    clone_to_any!();
}
