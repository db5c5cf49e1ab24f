//! A range of one allocation, and the operations on it in stream order.

use std::ops::{Bound, Range, RangeBounds};

use rmm_core::sys::CuResult;
use rmm_core::{
    DevicePtr, Error, HostAccessible, Introspect as _, MemoryKind, PrefetchTarget, RelaxedCapture,
    StreamRef, SynchronousResource, copy, prefetch,
};

use crate::use_tracker::{Access, StreamIn, UseKind, UseTracker};

/// A range of one allocation, borrowed from its container. The views of elements are typed wrappers
/// of this.
#[derive(Clone, Copy)]
pub(crate) struct RangeView<'a> {
    /// The uses of the allocation.
    tracker: &'a UseTracker,
    /// The resource that the allocation came from.
    resource: &'a (dyn SynchronousResource + 'a),
    /// The address of the range.
    pointer: DevicePtr,
    /// The distance in bytes from the beginning of the allocation.
    offset: usize,
    bytes: usize,
}

impl<'a> RangeView<'a> {
    /// The first `bytes` bytes of an allocation.
    ///
    /// # Safety
    /// 1. The allocation at `pointer` has at least `bytes` bytes and lives as long as `'a`.
    /// 2. `tracker` knows all uses of it.
    /// 3. Uses through this value obey the borrow rules: during `'a`, no other view is used if this
    ///    one writes, and none writes if this one is read.
    pub(crate) unsafe fn new(
        tracker: &'a UseTracker,
        resource: &'a (dyn SynchronousResource + 'a),
        pointer: DevicePtr,
        bytes: usize,
    ) -> Self {
        Self { tracker, resource, pointer, offset: 0, bytes }
    }

    /// A range of an allocation.
    ///
    /// # Safety
    /// As for [`new`](Self::new), where what is said of the allocation holds for `range`.
    pub(crate) unsafe fn part(
        tracker: &'a UseTracker,
        resource: &'a (dyn SynchronousResource + 'a),
        pointer: DevicePtr,
        range: Range<usize>,
    ) -> Self {
        let pointer = DevicePtr(pointer.0 + range.start as u64);
        Self { tracker, resource, pointer, offset: range.start, bytes: range.len() }
    }

    pub(crate) fn pointer(self) -> DevicePtr {
        self.pointer
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    fn bounds(self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// The bytes from `start` to `end` of this range, which contains them.
    fn subrange(self, Range { start, end }: Range<usize>) -> Self {
        debug_assert!(start <= end && end <= self.bytes, "a subrange lies within its range");
        let pointer = DevicePtr(self.pointer.0 + start as u64);
        Self { pointer, offset: self.offset + start, bytes: end - start, ..self }
    }

    /// The name of the container.
    pub(crate) fn name(self) -> Option<&'a str> {
        self.tracker.name()
    }

    /// The elements of `T` in `range`; `origin` is the type that an error names.
    pub(crate) fn elements<T>(
        self,
        origin: &'static str,
        range: impl RangeBounds<usize>,
    ) -> Result<Self, Error> {
        let len = self.bytes / size_of::<T>();
        let range = resolve(origin, self.name(), &range, len)?;
        Ok(self.subrange(range.start * size_of::<T>()..range.end * size_of::<T>()))
    }

    /// Refuses a source or target whose number of elements differs.
    pub(crate) fn check_len<T>(self, origin: &'static str, other: usize) -> Result<(), Error> {
        let len = self.bytes / size_of::<T>();
        if len == other {
            return Ok(());
        }
        let message = format!("a slice of {other} elements for {len}{}", in_container(self.name()));
        Err(Error::out_of_range(origin, message))
    }

    /// Whether it is, or may be, pageable host memory, which some devices can access.
    fn is_pageable(self) -> bool {
        let kind = self.resource.try_property::<MemoryKind>();
        self.resource.has_property::<HostAccessible>()
            && !matches!(kind, Some(MemoryKind::Pinned | MemoryKind::Managed | MemoryKind::Device))
    }

    /// Orders work that the program enqueues on `stream` by itself: the stream waits for
    /// conflicting uses, and later conflicting uses wait for the work.
    pub(crate) fn use_on(self, access: Access, stream: StreamRef<'_>) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.tracker.context();
        let _entered = context.enter()?;
        let on = StreamIn { stream, context };
        self.tracker.begin_use(&self.bounds(), access, UseKind::Open, on).map(drop)
    }

    /// Migrates managed memory to `target`, in the order of `stream`.
    pub(crate) fn prefetch(
        self,
        target: PrefetchTarget,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.tracker.context();
        let _entered = context.enter()?;
        let on = StreamIn { stream, context };
        let read = self.tracker.begin_use(&self.bounds(), Access::Read, UseKind::OneShot, on)?;
        let enqueued = prefetch(self.pointer, self.bytes, target, stream);
        self.tracker.end_use(read, stream);
        enqueued
    }

    /// Copies to the host; complete on return.
    pub(crate) fn read(self, target: &mut [u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, target.len(), "source and target have the same length");
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.tracker.context();
        let _entered = context.enter()?;
        let on = StreamIn { stream, context };
        self.tracker.order_blocking_use(&self.bounds(), Access::Read, on)?;
        // SAFETY: 1. the memory has the length of the target. 2. Conflicting uses are ordered
        // before this point on the stream. 3. The target is borrowed until `finish` below has
        // returned.
        let enqueued = unsafe {
            copy::device_to_host(target.as_mut_ptr().cast(), self.pointer, target.len(), stream)
        };
        finish(enqueued, stream)
    }

    /// Copies from the host; complete on return.
    pub(crate) fn write(self, source: &[u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.len(), "source and target have the same length");
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.tracker.context();
        let _entered = context.enter()?;
        let on = StreamIn { stream, context };
        self.tracker.order_blocking_use(&self.bounds(), Access::Write, on)?;
        // SAFETY: 1. the memory has the length of the source. 2. Conflicting uses are ordered
        // before this point on the stream. 3. The source is borrowed until `finish` below has
        // returned.
        let enqueued = unsafe {
            copy::host_to_device(self.pointer, source.as_ptr().cast(), source.len(), stream)
        };
        finish(enqueued, stream)
    }

    /// Copies from static host memory, in the order of `stream`.
    pub(crate) fn write_static(
        self,
        source: &'static [u8],
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.len(), "source and target have the same length");
        self.enqueue(stream, |target| {
            // SAFETY: 1. the memory has the length of the source. 2. Conflicting uses are ordered
            // before this point on the stream. 3. The source is neither changed nor freed.
            unsafe { copy::host_to_device(target, source.as_ptr().cast(), source.len(), stream) }
        })
    }

    /// Copies from another range of the same length, in the order of `stream`.
    pub(crate) fn copy_from(
        self,
        source: RangeView<'_>,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.bytes, "source and target have the same length");
        // The copy is enqueued in this context.
        let on = StreamIn { stream, context: self.tracker.context() };
        self.enqueue(stream, |target| {
            let bounds = source.bounds();
            let read = source.tracker.begin_use(&bounds, Access::Read, UseKind::OneShot, on)?;
            if source.is_pageable() {
                // The driver may read pageable memory before the stream reaches the copy.
                stream.synchronize()?;
            }
            // SAFETY: 1. both ranges have the same length. 2. Conflicting uses of either are
            // ordered before this point on the stream. 3. They do not overlap, since the target is
            // borrowed exclusively.
            let copied =
                unsafe { copy::device_to_device(target, source.pointer, source.bytes, stream) };
            source.tracker.end_use(read, stream);
            copied
        })
    }

    /// Sets all bytes, in the order of `stream`.
    pub(crate) fn fill(self, value: u8, stream: StreamRef<'_>) -> Result<(), Error> {
        self.enqueue(stream, |target| {
            // SAFETY: the memory has `self.bytes` bytes, and conflicting uses are ordered before
            // this point on the stream.
            unsafe { copy::fill(target, value, self.bytes, stream) }
        })
    }

    /// Fills the range with repetitions of `pattern`, whose length divides that of the range, in
    /// the order of `stream`. The device reads no host memory: the values are arguments of the
    /// calls.
    pub(crate) fn repeat(self, pattern: &[u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert!(
            self.bytes.is_multiple_of(pattern.len()),
            "the length is a multiple of the pattern's"
        );
        self.enqueue(stream, |target| {
            // SAFETY: the memory has `self.bytes` bytes, a multiple of the pattern's; conflicting
            // uses are ordered before this point on the stream.
            unsafe { crate::pattern::repeat(target, pattern, self.bytes, stream) }
        })
    }

    /// Enqueues work on `stream` that writes the range.
    fn enqueue(
        self,
        stream: StreamRef<'_>,
        work: impl FnOnce(DevicePtr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.tracker.context();
        let on = StreamIn { stream, context };
        let _entered = context.enter()?;
        let write = self.tracker.begin_use(&self.bounds(), Access::Write, UseKind::OneShot, on)?;
        let enqueued = work(self.pointer);
        self.tracker.end_use(write, stream);
        enqueued
    }
}

/// Waits until a copy from or to borrowed host memory is complete, since the borrow ends with the
/// call. If the stream is being captured, the copy does not run: it is part of a graph, which the
/// wait has invalidated.
///
/// An error of the driver does not mean that the copy is complete. A sticky error does: the context
/// is lost, and no work in it runs.
fn finish(enqueued: Result<(), Error>, stream: StreamRef<'_>) -> Result<(), Error> {
    let Err(refused) = stream.synchronize() else { return enqueued };
    // While another thread captures a stream in global mode, this thread may wait for a stream only
    // in relaxed mode.
    let _relaxed = RelaxedCapture::enter();
    let mut last = refused.code();
    loop {
        let goes_on = match last {
            Some(CuResult::STREAM_CAPTURE_UNSUPPORTED) => match stream.is_capturing() {
                Ok(is_captured) => !is_captured,
                Err(error) => !is_lost(&error),
            },
            // Until the capture ends, the legacy stream accepts neither work nor waits; the copy
            // was enqueued before the capture began.
            Some(code) if code.is_capture() => enqueued.is_ok(),
            _ => match stream.is_idle() {
                Ok(is_idle) => !is_idle,
                Err(error) => !is_lost(&error),
            },
        };
        if !goes_on {
            return enqueued.and(Err(refused));
        }
        match stream.synchronize() {
            Ok(()) if refused.code().is_some_and(CuResult::is_capture) => return enqueued,
            Ok(()) => return enqueued.and(Err(refused)),
            Err(error) => last = error.code(),
        }
        std::thread::yield_now();
    }
}

/// Whether no work can run: the context is lost, or there is no driver.
fn is_lost(error: &Error) -> bool {
    error.code().is_none_or(CuResult::is_sticky)
}

/// The indices that `range` denotes in a sequence of `len` elements, which may have a name.
fn resolve(
    origin: &'static str,
    name: Option<&str>,
    range: &impl RangeBounds<usize>,
    len: usize,
) -> Result<Range<usize>, Error> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&start) => start.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok(start..end),
        _ => Err(Error::out_of_range(
            origin,
            format!("{} of {len}{}", written(range), in_container(name)),
        )),
    }
}

/// The container's name, as the end of a message.
fn in_container(name: Option<&str>) -> String {
    name.map(|name| format!(" in `{name}`")).unwrap_or_default()
}

/// A range as Rust source, or its one element.
fn written(range: &impl RangeBounds<usize>) -> String {
    let start = match range.start_bound() {
        Bound::Included(start) => start.to_string(),
        Bound::Excluded(start) => format!("after {start}, "),
        Bound::Unbounded => String::new(),
    };
    match (range.start_bound(), range.end_bound()) {
        (Bound::Included(one), Bound::Included(same)) if one == same => format!("element {one}"),
        (_, Bound::Included(end)) => format!("{start}..={end}"),
        (_, Bound::Excluded(end)) => format!("{start}..{end}"),
        (_, Bound::Unbounded) => format!("{start}.."),
    }
}

#[cfg(test)]
mod tests {
    use rmm_core::sys::{CuCaptureMode, CuGraph};
    use rmm_core::{Context, CudaStream, StreamFlags, current_driver};
    use rmm_sim::{Kernel, Machine, Schedule};

    use super::*;
    use crate::PinnedVec;

    #[test]
    fn errors_show_the_range_as_it_is_written() {
        fn message(range: impl RangeBounds<usize>) -> String {
            resolve("it", None, &range, 4).expect_err("it is out of range").to_string()
        }
        assert_eq!(message(4..=4), "out of range in it: element 4 of 4");
        assert_eq!(message(2..9), "out of range in it: 2..9 of 4");
        assert_eq!(message(..=usize::MAX), format!("out of range in it: ..={} of 4", usize::MAX));
        assert_eq!(message(5..), "out of range in it: 5.. of 4");
        assert_eq!(resolve("it", None, &(4..), 4).expect("an empty range at the end"), 4..4);
    }

    #[test]
    fn work_enqueued_after_its_capture_ended_is_waited_for() {
        let machine = Machine::builder().memory(1 << 20).schedule(Schedule::Lazy).enter();
        let driver = current_driver().expect("a driver");
        let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let mut host = PinnedVec::from_slice(&[0u8; 4]).expect("a vector");
        let tracker = UseTracker::for_host_memory(Context::current().expect("a context"));
        let pointer = DevicePtr(host.as_mut_slice().expect("no use").as_mut_ptr() as u64);
        // SAFETY: the vector has 4 bytes and lives; all uses are recorded in this tracker.
        let view = unsafe { RangeView::new(&tracker, host.resource(), pointer, 4) };
        // SAFETY: the stream lives.
        let begun =
            unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::RELAXED) };
        assert_eq!(begun, CuResult::SUCCESS);
        let enqueued = view.enqueue((&stream).into(), |_| {
            let mut graph = CuGraph::NULL;
            // SAFETY: the stream lives, and the result may be written.
            let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
            assert_eq!(ended, CuResult::SUCCESS);
            // SAFETY: the graph is not used again.
            assert_eq!(unsafe { driver.cuGraphDestroy(graph) }, CuResult::SUCCESS);
            let slow = Kernel::new("slow", |_| ());
            machine.launch(stream.as_raw(), slow).expect("it is enqueued");
            Ok(())
        });
        enqueued.expect("it is recorded");
        tracker.wait_on_host(Access::Read).expect("the host waits");
        assert!(StreamRef::from(&stream).is_idle().expect("an answer"), "the kernel is waited for");
    }
}
