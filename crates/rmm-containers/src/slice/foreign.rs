//! Views of elements that another library owns.

use bytemuck::Pod;
use rmm_core::{Context, DevicePtr, Error, StreamRef};

use super::{DeviceSlice, DeviceSliceMut, check_cast};
use crate::foreign::ForeignMemory;
use crate::range_view::RangeView;
use crate::use_tracker::UseTracker;

/// The uses of memory that is borrowed from another library. However the borrow ends, the stream of
/// the memory waits for the uses on all others.
struct Borrowed {
    tracker: UseTracker,
    context: Context,
    is_joined: bool,
}

impl Borrowed {
    /// Makes the stream, or else the host, wait for all uses.
    fn join(&mut self) -> Result<(), Error> {
        self.is_joined = true;
        let _entered = self.context.enter()?;
        if self.tracker.join_or_block() {
            return Ok(());
        }
        // The reason is that of the wait which failed.
        self.tracker.join_all()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if !self.is_joined {
            // The program panicked, which is all that can be reported.
            let _ignored = self.join();
        }
    }
}

/// Runs `program` on a view of the memory.
///
/// # Safety
/// The contract of [`DeviceSlice::with_foreign`], and that of [`DeviceSliceMut::with_foreign`] if
/// `program` writes.
unsafe fn with_range<T: Pod, R>(
    origin: &'static str,
    pointer: DevicePtr,
    len: usize,
    stream: StreamRef<'_>,
    program: impl FnOnce(RangeView<'_>) -> R,
) -> Result<R, Error> {
    if pointer == DevicePtr::NULL && len > 0 {
        let message = format!("{len} elements at a null pointer");
        return Err(Error::invalid_argument(origin, message));
    }
    let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
        Error::invalid_argument(origin, format!("{len} elements of {} bytes", size_of::<T>()))
    })?;
    let context = stream.context()?;
    let tracker = UseTracker::bound_to(stream, context);
    let mut borrowed = Borrowed { tracker, context, is_joined: false };
    let resource = ForeignMemory::new(|_| ());
    // SAFETY: 1. the memory has these bytes and lives until this function returns, by the caller's
    // contract. 2. The tracker is this view's, and knows all uses but those that the caller answers
    // for. 3. The borrow rules are the caller's contract.
    let range = unsafe { RangeView::new(&borrowed.tracker, &resource, pointer, bytes) };
    check_cast::<T>(origin, range)?;
    let result = program(range);
    borrowed.join()?;
    Ok(result)
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// Calls `program` with a view of the `len` elements at `pointer`, which another library owns.
    /// The memory is ready in the order of `stream`; before this returns, that stream waits for the
    /// work that `program` enqueued on other streams. The host does not wait for the device.
    ///
    /// The view ends with the call of `program`, whatever `program` does: it may leak guards, or
    /// panic. To keep the memory for longer, adopt it:
    /// [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign).
    ///
    /// ```
    /// use rmm_containers::{DeviceBuffer, DeviceSlice, DeviceUVector};
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::enter();
    /// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    /// // In its place: an array of another library, ready on `stream`.
    /// let theirs = DeviceUVector::from_slice(&[1u32, 2, 3], &stream)?;
    ///
    /// // SAFETY: `theirs` has 3 elements, which are neither written nor freed during the call.
    /// let copy = unsafe {
    ///     DeviceSlice::with_foreign(theirs.as_ptr(), 3, &stream, |elements: DeviceSlice<u32>| {
    ///         elements.to_device(&other) // on another stream
    ///     })
    /// }??;
    /// assert_eq!(copy.to_vec()?, [1, 2, 3]);
    /// # machine.assert_no_violations();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a null pointer with
    /// a length above zero, and for an address that is not aligned for `T`; if there is no driver.
    /// Then `program` is not called. After it was called,
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if a stream that uses the
    /// memory is being captured, and whatever the driver reports.
    ///
    /// # Safety
    /// 1. `pointer` names `len` elements of device, managed or pinned memory that work on `stream`
    ///    can read, from the work that is enqueued there next. All earlier work that writes them is
    ///    ordered before that, or is complete.
    /// 2. They are neither written nor freed before the work that is enqueued on `stream` when this
    ///    returns or panics; if it returns an error, not before the device is idle.
    pub unsafe fn with_foreign<'s, R>(
        pointer: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        program: impl FnOnce(DeviceSlice<'_, T>) -> R,
    ) -> Result<R, Error> {
        let program = |range: RangeView<'_>| program(DeviceSlice::from_range(range));
        // SAFETY: the caller's contract; the view does not write.
        unsafe { with_range::<T, R>("DeviceSlice", pointer, len, stream.into(), program) }
    }
}

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Calls `program` with a view of elements of another library, to read and write them.
    /// Otherwise as [`DeviceSlice::with_foreign`].
    ///
    /// ```
    /// use rmm_containers::{DeviceSliceMut, DeviceUVector};
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::enter();
    /// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    /// let theirs = DeviceUVector::from_slice(&[1u32, 2, 3], &stream)?; // of another library
    /// // SAFETY: `theirs` has 3 elements, which nothing else uses during the call.
    /// unsafe {
    ///     DeviceSliceMut::<u32>::with_foreign(theirs.as_ptr(), 3, &stream, |mut elements| {
    ///         elements.fill_on(7, &other)
    ///     })
    /// }??;
    /// assert_eq!(theirs.to_vec()?, [7; 3]); // `stream` waits for `other`
    /// # machine.assert_no_violations();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`DeviceSlice::with_foreign`].
    ///
    /// # Safety
    /// The contract of [`DeviceSlice::with_foreign`], and nothing else reads the elements from the
    /// call until the work that is enqueued on `stream` when this returns.
    pub unsafe fn with_foreign<'s, R>(
        pointer: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        program: impl FnOnce(DeviceSliceMut<'_, T>) -> R,
    ) -> Result<R, Error> {
        let program = |range: RangeView<'_>| program(DeviceSliceMut::from_range(range));
        // SAFETY: the caller's contract; one view exists.
        unsafe { with_range::<T, R>("DeviceSliceMut", pointer, len, stream.into(), program) }
    }
}
