//! The resource under test, with its device, stream and kernels.

use rmm_core::{CudaStream, Error, Resource, StreamFlags};

use crate::{CheckedBlock, DeviceCounter, DeviceHandle, Failure, Kernels, StreamChoice};

/// A resource under test, with a stream to use it on and the device's kernels.
#[derive(Debug)]
pub struct Subject<'a, R> {
    pub(crate) device: &'a DeviceHandle,
    pub(crate) kernels: &'a Kernels,
    pub(crate) choice: StreamChoice,
    pub(crate) stream: CudaStream,
    pub(crate) resource: &'a R,
    pub(crate) capacity: Option<usize>,
    pub(crate) too_much: Option<usize>,
}

impl<'a, R: Resource> Subject<'a, R> {
    /// The device, for other threads.
    pub fn device(&self) -> &'a DeviceHandle {
        self.device
    }

    /// The device's kernels.
    pub fn kernels(&self) -> &'a Kernels {
        self.kernels
    }

    /// The stream of the thread that runs the check.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// A stream of the same kind for the calling thread.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn stream_for_thread(&self) -> Result<CudaStream, Error> {
        self.choice.open()
    }

    /// Another stream, which nothing orders with any other.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn other_stream(&self) -> Result<CudaStream, Error> {
        CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
    }

    /// The resource.
    pub fn resource(&self) -> &'a R {
        self.resource
    }

    /// The bytes that the resource can allocate at once, if it has a limit of its own.
    pub fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    /// Bytes that the resource can never give, unless asking for them could harm the device.
    pub fn too_much(&self) -> Option<usize> {
        self.too_much
    }

    /// Allocates `words` words from the resource.
    ///
    /// # Errors
    /// The resource's error.
    pub fn allocate(&self, stream: &CudaStream, words: u32) -> Result<CheckedBlock<'a, R>, Error> {
        CheckedBlock::allocate(self.resource, self.kernels, stream, words)
    }

    /// A counter at zero.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn counter(&self) -> Result<DeviceCounter, Failure> {
        DeviceCounter::new(&self.stream)
    }
}
