//! Lending pinned memory as the host's side of a copy.

use std::fmt;

use bytemuck::Pod;
use rmm_containers::{DeviceSlice, DeviceSliceMut, OnStream, PinnedVec};
use rmm_core::Error;

use super::Stream;
use super::cudarc::driver::{CudaStream as TheirStream, HostSlice, SyncOnDrop};

/// Lends a pinned vector to copies that cudarc enqueues on a stream. The vector waits for the copy
/// before the host accesses it, and before it is freed.
///
/// ```
/// # use cudarc_0_19 as cudarc;
/// use cudarc::driver::CudaContext;
/// use rmm_containers::PinnedVec;
/// use rmm_interop_cudarc::{LendHost, Stream};
///
/// # rmm_sim_cuda::load().unwrap();
/// # let _machine = rmm_sim::enter();
/// let context = CudaContext::new(0)?;
/// // SAFETY: the stream is not captured.
/// let stream = unsafe { Stream::adopt(&context.new_stream()?) }?;
/// let source = PinnedVec::from_slice(&[7_u32; 100])?;
/// let slice = stream.clone_htod(&source.lend(&stream)?)?;
/// drop(source); // waits for the copy
/// let mut target = PinnedVec::from_slice(&[0_u32; 100])?;
/// stream.memcpy_dtoh(&slice, &mut target.lend_mut(&stream)?)?;
/// assert_eq!(target.as_slice()?, [7; 100]); // waits for the copy
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LendHost<T> {
    /// Lends the elements to copies that read them.
    ///
    /// # Errors
    /// Whatever the driver reports.
    fn lend<'s>(&self, stream: &'s Stream) -> Result<LentHost<'s, DeviceSlice<'_, T>, T>, Error>;

    /// Lends the elements to copies that write them.
    ///
    /// # Errors
    /// Whatever the driver reports.
    fn lend_mut<'s>(
        &mut self,
        stream: &'s Stream,
    ) -> Result<LentHost<'s, DeviceSliceMut<'_, T>, T>, Error>;
}

impl<T: Pod> LendHost<T> for PinnedVec<T> {
    fn lend<'s>(&self, stream: &'s Stream) -> Result<LentHost<'s, DeviceSlice<'_, T>, T>, Error> {
        Ok(LentHost::new(self.device_slice().use_on(stream)?, stream))
    }

    fn lend_mut<'s>(
        &mut self,
        stream: &'s Stream,
    ) -> Result<LentHost<'s, DeviceSliceMut<'_, T>, T>, Error> {
        Ok(LentHost::new(self.device_slice_mut().into_use_on(stream)?, stream))
    }
}

/// Pinned memory for copies that cudarc enqueues on one stream: what it calls a `HostSlice`.
#[must_use = "the vector has recorded a use on the stream; pass the value to cudarc"]
pub struct LentHost<'s, V, T> {
    /// # Invariant
    /// The address of `len` elements of the host's memory, valid for as long as `_view`, and for
    /// the work that was enqueued on `stream` while this value lives. Not null.
    pointer: *mut T,
    len: usize,
    stream: &'s Stream,
    _view: OnStream<'s, V>,
}

impl<'s, V, T> LentHost<'s, V, T> {
    fn new(view: OnStream<'s, V>, stream: &'s Stream) -> Self {
        let len = view.bytes() / size_of::<T>().max(1);
        // A pinned address is the same for the host and for devices (unified addressing), and the
        // vector exposed its provenance.
        let address = usize::try_from(view.as_ptr().0).unwrap_or(0);
        let pointer = if len == 0 {
            std::ptr::dangling_mut()
        } else {
            std::ptr::with_exposed_provenance_mut(address)
        };
        Self { pointer, len, stream, _view: view }
    }
}

/// `stream_synced_mut_slice` of a vector that was lent for reading panics: `memcpy_dtoh` needs one
/// lent by [`lend_mut`](LendHost::lend_mut).
impl<T> HostSlice<T> for LentHost<'_, DeviceSlice<'_, T>, T> {
    fn len(&self) -> usize {
        self.len
    }

    unsafe fn stream_synced_slice<'a>(
        &'a self,
        stream: &'a TheirStream,
    ) -> (&'a [T], SyncOnDrop<'a>) {
        // SAFETY: by the invariant there are `len` elements. The vector is borrowed for reading, so
        // no thread and no stream writes them.
        (
            unsafe { std::slice::from_raw_parts(self.pointer, self.len) },
            self.stream.order_for(stream),
        )
    }

    unsafe fn stream_synced_mut_slice<'a>(
        &'a mut self,
        _stream: &'a TheirStream,
    ) -> (&'a mut [T], SyncOnDrop<'a>) {
        panic!("the vector was lent for reading: use `lend_mut`")
    }
}

impl<T> HostSlice<T> for LentHost<'_, DeviceSliceMut<'_, T>, T> {
    fn len(&self) -> usize {
        self.len
    }

    unsafe fn stream_synced_slice<'a>(
        &'a self,
        stream: &'a TheirStream,
    ) -> (&'a [T], SyncOnDrop<'a>) {
        // SAFETY: by the invariant there are `len` elements. cudarc passes their address to a copy
        // on `stream`, and reads none of them.
        (
            unsafe { std::slice::from_raw_parts(self.pointer, self.len) },
            self.stream.order_for(stream),
        )
    }

    unsafe fn stream_synced_mut_slice<'a>(
        &'a mut self,
        stream: &'a TheirStream,
    ) -> (&'a mut [T], SyncOnDrop<'a>) {
        let order = self.stream.order_for(stream);
        // SAFETY: by the invariant there are `len` elements, and the vector is borrowed for
        // writing. cudarc passes their address to a copy on `stream`, and accesses none of them.
        (unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }, order)
    }
}

impl<V, T> fmt::Debug for LentHost<'_, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentHost")
            .field("pointer", &self.pointer)
            .field("len", &self.len)
            .field("stream", &self.stream.ours().id())
            .finish()
    }
}
