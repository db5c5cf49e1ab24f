//! Containers with addresses for a maximum, and memory for the ranges that are in use.

mod vector;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::siblings::{allocate_with, of_device};
use rmm_core::sys::CuResult;
use rmm_core::{
    Context, DevicePtr, Error, HasResource, MemoryKind, StreamRef, fork, process_is_exiting,
};
use rmm_resources::{ReservedAddresses, VirtualMemoryResource};

use crate::range_view::RangeView;
use crate::use_tracker::{Access, StreamIn, UseTracker};
use crate::{DeviceSlice, DeviceSliceMut};

pub use vector::ElasticUVector;

/// Bytes at fixed addresses, of which ranges get memory ([`commit`](Self::commit)) and return it
/// ([`decommit`](Self::decommit)) in place: a cache of keys and values that shrinks without moving,
/// so that pointers to the rest, and graphs that use it, stay valid.
///
/// Ranges are of whole pages, of 2 MiB unless the resource was built with
/// [larger ones](rmm_resources::VirtualMemoryResourceBuilder::page_size). Each page takes three
/// driver calls to commit and one to decommit, whatever its size. Committed memory is
/// uninitialized.
///
/// Work on slices is recorded and ordered as that on the other containers, but no stream owns the
/// memory: conflicting work on two streams waits for each other, and returning a range to the
/// device waits for the work on that range, not for work on others.
///
/// ```
/// use rmm_containers::ElasticBuffer;
/// use rmm_core::CudaStream;
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let (stream, pages) = (CudaStream::new()?, VirtualMemoryResource::new()?);
/// let mut cache = ElasticBuffer::reserve(64 << 30, &stream, &pages)?; // addresses only
/// cache.commit(0..8 << 20)?;
/// cache.slice_mut(0..8 << 20)?.fill_on(1, &stream)?;
/// assert!(cache.slice(0..8 << 20)?.to_vec_on(&stream)?.iter().all(|&byte| byte == 1));
/// assert_eq!(cache.decommit_blocking(2 << 20..6 << 20)?, 4 << 20);
/// assert!(cache.committed().eq([0..2 << 20, 6 << 20..8 << 20]));
/// assert!(cache.slice(0..4 << 20).unwrap_err().is_out_of_range());
/// # Ok(())
/// # }
/// ```
///
/// # Addresses and graphs
///
/// Work that the program enqueues with [`as_ptr`](Self::as_ptr) alone is not known here: announce
/// it by [`use_on`](DeviceSlice::use_on) or [`into_use_on`](DeviceSliceMut::into_use_on) of the
/// slice, or say so afterwards by [`record_stream`](Self::record_stream). A range that was used on
/// a stream under capture is part of a graph, and cannot be decommitted before
/// [`end_graph_uses`](Self::end_graph_uses). On a GPU, work that accesses a page which is not
/// committed destroys the context; the software device reports it, with the calls that enqueued it
/// and that unmapped the page, or reserved the addresses.
///
/// # Drop
///
/// Dropping the buffer waits on the host for all work on it. If that fails, or if a stream that
/// uses it is being captured, the memory stays allocated.
#[doc(alias = "expandable_segments")]
#[doc(alias = "cuMemAddressReserve")]
pub struct ElasticBuffer {
    addresses: ReservedAddresses,
    tracker: UseTracker,
}

impl ElasticBuffer {
    /// Reserves addresses for `capacity` bytes, rounded up to whole pages of `resource`. Memory is
    /// used in the context of `stream`, on which nothing is enqueued.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the capacity is 0 or
    /// more than can be addressed, or the device of `stream` has no access to the memory; whatever
    /// the driver reports.
    pub fn reserve<'s>(
        capacity: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &VirtualMemoryResource,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        let context = stream.context()?;
        let _entered = context.enter()?;
        let addresses = resource.reserve(capacity)?;
        addresses.check_stream(stream)?;
        Ok(Self { addresses, tracker: UseTracker::of_parts(context) })
    }

    /// The first address, which does not change.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.addresses.as_ptr()
    }

    /// Bytes of addresses, a multiple of the page size.
    pub fn capacity(&self) -> usize {
        self.addresses.bytes()
    }

    /// The size of a page, in bytes: of what is committed and decommitted.
    pub fn page_size(&self) -> usize {
        self.addresses.page_size()
    }

    /// The committed ranges, in bytes, in order. There is a gap between two of them.
    pub fn committed(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.addresses.committed()
    }

    /// The context that the buffer was made in, which its calls make current.
    pub fn context(&self) -> Context {
        self.tracker.context()
    }

    /// The resource whose memory it is.
    pub fn resource(&self) -> &VirtualMemoryResource {
        self.addresses.resource()
    }

    /// Gives memory to `range`, in bytes: to all of it or, on an error, to none. No stream waits,
    /// and any may use it at once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a range that is
    /// empty, is not of whole pages, or overlaps with what is committed;
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) beyond the capacity;
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is not enough memory,
    /// after the pools of the device were asked to return what they do not use; whatever the driver
    /// reports.
    #[doc(alias = "cuMemMap")]
    pub fn commit(&mut self, range: Range<usize>) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        self.addresses.commit(range)
    }

    /// [Commits](Self::commit) a range of a buffer that is locked by each call on it. It is not
    /// while pools are asked to return memory, since their callbacks may use it.
    ///
    /// # Errors
    /// Those of `commit`.
    #[doc(hidden)]
    pub fn commit_locked(buffer: &Mutex<Self>, range: Range<usize>) -> Result<(), Error> {
        let (context, device) = {
            let buffer = fork::lock(buffer);
            (buffer.context(), buffer.addresses.device())
        };
        let _entered = context.enter()?;
        let commit = || fork::lock(buffer).addresses.commit_alone(range.clone());
        let others = || of_device(device, MemoryKind::Device);
        allocate_with(None, range.len() as u64, commit, others)
    }

    /// Returns the memory of `range` to the device if all work on it has completed, and the number
    /// of bytes. Waits for nothing. The addresses stay.
    ///
    /// # Errors
    /// The errors of [`decommit_blocking`](Self::decommit_blocking);
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if work on the range may be running:
    /// then nothing has changed.
    #[doc(alias = "cuMemUnmap")]
    pub fn decommit(&mut self, range: Range<usize>) -> Result<usize, Error> {
        self.decommit_after(range, UseTracker::check_unused)
    }

    /// Returns the memory of `range` to the device after a wait on the host for all work on it, and
    /// the number of bytes. Work on other ranges goes on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a range that is
    /// empty or not of whole pages; [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if
    /// not all of it is committed; [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if
    /// a graph uses it, or a stream that does is being captured; whatever the driver reports. If it
    /// was the driver that refused to unmap a page, none of the range is committed any more, and
    /// what was not unmapped is tried again by later calls; otherwise nothing has changed.
    pub fn decommit_blocking(&mut self, range: Range<usize>) -> Result<usize, Error> {
        self.decommit_after(range, UseTracker::wait_until_unused)
    }

    /// Records that work which the program has enqueued on `stream` uses a committed range, whose
    /// address it had from [`as_ptr`](Self::as_ptr): all that is on the stream by now is waited for
    /// by a decommit, and by later conflicting work on slices. On a stream under capture, a graph
    /// uses the range.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice); whatever the driver reports.
    #[doc(alias = "recordStream")]
    pub fn record_stream<'s>(
        &self,
        range: Range<usize>,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.record(range, StreamIn { stream: stream.into(), context: self.context() })
    }

    /// [Records](Self::record_stream) work on a stream, where a default stream is not the one of
    /// the buffer's context but of the context that is current.
    ///
    /// # Errors
    /// Those of `record_stream`.
    #[doc(hidden)]
    pub fn record_current_stream(
        &self,
        range: Range<usize>,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        let is_default = stream.is_default() || stream.is_per_thread_default();
        let current = if is_default { Context::of_thread() } else { None };
        self.record(range, StreamIn { stream, context: current.unwrap_or(self.context()) })
    }

    fn record(&self, range: Range<usize>, on: StreamIn<'_>) -> Result<(), Error> {
        let _entered = on.context.enter()?;
        self.addresses.check_committed(&range)?;
        if range.is_empty() {
            return Ok(());
        }
        self.tracker.record_enqueued(range, on)
    }

    fn decommit_after(
        &mut self,
        range: Range<usize>,
        settle: impl FnOnce(&mut UseTracker, &Range<usize>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let _entered = self.context().enter()?;
        self.addresses.check_decommit(&range)?;
        settle(&mut self.tracker, &range)?;
        // SAFETY: the tracker knows all uses through views, and those of this range have completed.
        // No view lives, since the borrow is exclusive. Who uses the address by unsafe code answers
        // for what is committed.
        unsafe { self.addresses.decommit(range) }
    }

    /// Forgets that graphs use the buffer, so that the ranges can be decommitted.
    ///
    /// # Safety
    /// No graph that uses the buffer runs. None is launched that uses a range which is decommitted
    /// then, before it is committed again.
    pub unsafe fn end_graph_uses(&mut self) {
        self.tracker.forget_graphs();
    }

    /// The bytes of a committed range, which need not be of whole pages.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) that names the first page which
    /// is not committed.
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_, u8>, Error> {
        self.view(range).map(DeviceSlice::from_range)
    }

    /// The bytes of a committed range, for reading and writing.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice).
    pub fn slice_mut(&mut self, range: Range<usize>) -> Result<DeviceSliceMut<'_, u8>, Error> {
        self.view(range).map(DeviceSliceMut::from_range)
    }

    fn view(&self, range: Range<usize>) -> Result<RangeView<'_>, Error> {
        self.addresses.check_committed(&range)?;
        // SAFETY: 1. The range is committed, and stays so while the buffer is borrowed: `decommit`
        // and `drop` need it exclusively. A leaked buffer keeps its memory. 2. The tracker is that
        // of these addresses. 3. Views for reading are made from a shared borrow, views for writing
        // from an exclusive one.
        Ok(unsafe { RangeView::part(&self.tracker, self.resource(), self.as_ptr(), range) })
    }
}

impl HasResource for ElasticBuffer {
    type Resource = VirtualMemoryResource;

    fn memory_resource(&self) -> &VirtualMemoryResource {
        self.resource()
    }
}

impl fmt::Debug for ElasticBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElasticBuffer")
            .field("pointer", &self.as_ptr())
            .field("capacity", &self.capacity())
            .field("page_size", &self.page_size())
            .field("committed", &self.committed().collect::<Vec<_>>())
            .field("used_on", &self.tracker)
            .field("resource", self.resource())
            .finish_non_exhaustive()
    }
}

impl Drop for ElasticBuffer {
    fn drop(&mut self) {
        // At process exit the system frees all memory, and the driver may have shut down.
        if process_is_exiting() {
            return;
        }
        let is_unused = match self.tracker.wait_on_host(Access::Write) {
            Ok(()) => true,
            // Mapped memory outlives a context, and the work on it has ended with that. Work of
            // another context, for which it waited, may go on.
            Err(error) => {
                error.code() == Some(CuResult::CONTEXT_IS_DESTROYED)
                    && wait_for_all_contexts().is_ok()
            }
        };
        // Otherwise an error does not mean that the work is complete. What stays committed keeps
        // its memory and its addresses, also when the resource is dropped.
        if is_unused {
            for range in self.addresses.committed().collect::<Vec<_>>() {
                // SAFETY: all work has completed, and no view lives. What the driver refuses cannot
                // be reported here.
                let _ignored = unsafe { self.addresses.decommit(range) };
            }
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<ElasticBuffer>();
};
