//! What is in a buffer.

use rmm_core::{Error, StreamRef};

use super::DeviceBuffer;
use crate::memory::{Memory, resolve};
use crate::{DeviceSlice, DeviceSliceMut, OnStream};

impl DeviceBuffer {
    const ORIGIN: &'static str = "DeviceBuffer";

    fn memory(&self) -> Memory<'_> {
        // SAFETY: the block has so many bytes, and its order knows all uses. It lives as long as it
        // is borrowed, and views of it are made from a shared borrow to be read, from an exclusive
        // one to be written.
        unsafe { Memory::new(self.block.order(), self.resource(), self.as_ptr(), self.len) }
    }

    /// The bytes, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, u8> {
        DeviceSlice::from_memory(self.memory())
    }

    /// The bytes, to be changed.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, u8> {
        DeviceSliceMut::from_memory(self.memory())
    }

    /// Has the bytes read by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'_, u8>>, Error> {
        self.as_slice().use_on(stream)
    }

    /// Has the bytes read and written by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on_mut<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, u8>>, Error> {
        self.as_slice_mut().into_use_on(stream)
    }

    /// Overwrites the first bytes with `bytes`, on the buffer's own stream; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more bytes than the
    /// buffer's length; whatever the copy reports.
    pub fn copy_from_slice(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let range = resolve(Self::ORIGIN, &(..bytes.len()), self.len)?;
        self.memory().part(range).write(bytes, self.stream().as_stream_ref())
    }

    /// Overwrites the first bytes with those of another container, in the order of the buffer's own
    /// stream.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more bytes than the
    /// buffer's length; whatever the copy reports.
    pub fn copy_from(&mut self, source: DeviceSlice<'_, u8>) -> Result<(), Error> {
        let range = resolve(Self::ORIGIN, &(..source.len()), self.len)?;
        self.memory().part(range).copy_from(source.memory(), self.stream().as_stream_ref())
    }

    /// Copies the first bytes to the host, after all that was enqueued on `stream` and on the
    /// buffer's own stream so far; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `bytes` is longer than the
    /// buffer; whatever the copy reports.
    pub fn copy_to_slice<'a>(
        &self,
        bytes: &mut [u8],
        stream: impl Into<StreamRef<'a>>,
    ) -> Result<(), Error> {
        let range = resolve(Self::ORIGIN, &(..bytes.len()), self.len)?;
        self.memory().part(range).read(bytes, stream.into())
    }

    /// The contents, copied to the host as [`copy_to_slice`](Self::copy_to_slice).
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn to_vec<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Vec<u8>, Error> {
        self.as_slice().to_vec(stream)
    }

    /// Sets all bytes to `value`, in the order of the buffer's stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill(&mut self, value: u8) -> Result<(), Error> {
        self.memory().fill(value, self.stream().as_stream_ref())
    }
}
