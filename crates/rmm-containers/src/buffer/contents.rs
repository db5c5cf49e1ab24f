//! Reading and writing the bytes of a [`DeviceBuffer`].

use rmm_core::{Error, StreamRef};

use super::DeviceBuffer;
use crate::common::{copies_to_host, uses_on_streams};
use crate::range_view::RangeView;
use crate::{DeviceSlice, DeviceSliceMut};

impl DeviceBuffer {
    const ORIGIN: &'static str = "DeviceBuffer";

    pub(crate) fn range(&self) -> RangeView<'_> {
        // SAFETY: 1. the block has `len` bytes, and its order knows all uses. 2. The block lives as
        // long as it is borrowed. 3. Views for reading are made from a shared borrow, views for
        // writing from an exclusive one.
        unsafe { RangeView::new(self.block.tracker(), self.resource(), self.as_ptr(), self.len) }
    }

    /// Borrows the bytes for reading.
    pub fn as_slice(&self) -> DeviceSlice<'_, u8> {
        DeviceSlice::from_range(self.range())
    }

    /// Borrows the bytes for reading and writing.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, u8> {
        DeviceSliceMut::from_range(self.range())
    }

    uses_on_streams!("bytes", u8);

    /// Overwrites the first bytes with `bytes`, on the buffer's stream; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `bytes` is longer than the
    /// buffer; whatever the copy reports.
    pub fn copy_from_slice(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let target = self.range().elements::<u8>(Self::ORIGIN, ..bytes.len())?;
        target.write(bytes, self.stream().into())
    }

    /// Overwrites the first bytes with those of another container, in the order of the buffer's
    /// stream.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `source` is longer than the
    /// buffer; whatever the copy reports.
    pub fn copy_from(&mut self, source: DeviceSlice<'_, u8>) -> Result<(), Error> {
        let target = self.range().elements::<u8>(Self::ORIGIN, ..source.len())?;
        target.copy_from(source.range(), self.stream().into())
    }

    copies_to_host!("buffer", "bytes", u8);

    /// Copies the first bytes to the host, on `stream`: after all work enqueued on it, and on the
    /// buffer's stream, so far. Complete on return.
    ///
    /// # Errors
    /// The errors of [`copy_to_slice`](Self::copy_to_slice).
    pub fn copy_to_slice_on<'s>(
        &self,
        target: &mut [u8],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        let source = self.range().elements::<u8>(Self::ORIGIN, ..target.len())?;
        source.read(target, stream.into())
    }

    /// Sets all bytes to `value`, in the order of the buffer's stream.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn fill(&mut self, value: u8) -> Result<(), Error> {
        self.range().fill(value, self.stream().into())
    }
}
