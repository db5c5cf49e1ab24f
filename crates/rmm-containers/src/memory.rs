//! A range of memory that somebody owns, and what can be done with it on a stream.

use std::ops::{Bound, Range, RangeBounds};

use rmm_core::sys::CuResult;
use rmm_core::{
    DevicePtr, Error, HostAccessible, Introspect as _, MemoryKind, PrefetchTarget, RelaxedCapture,
    StreamRef, SyncResource, copy, prefetch,
};

use crate::order::{Access, Lasts, Order};

/// A range of one allocation. Who makes it says for how long it is the memory's, and whether others
/// use it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    order: &'a Order,
    /// Where the allocation came from.
    resource: &'a (dyn SyncResource + 'a),
    /// Where the range begins.
    pointer: DevicePtr,
    /// Its distance in bytes from the allocation's beginning.
    offset: usize,
    bytes: usize,
}

impl<'a> Memory<'a> {
    /// The first `bytes` bytes of an allocation.
    ///
    /// # Safety
    /// The allocation at `pointer` has so many bytes, whose uses `order` knows; `'a` is no longer
    /// than it lives, and for all uses that are made by way of this value the borrow rules hold:
    /// none goes on beside one that writes.
    pub(crate) unsafe fn new(
        order: &'a Order,
        resource: &'a (dyn SyncResource + 'a),
        pointer: DevicePtr,
        bytes: usize,
    ) -> Self {
        Self { order, resource, pointer, offset: 0, bytes }
    }

    pub(crate) fn pointer(self) -> DevicePtr {
        self.pointer
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    fn range(self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// The part from byte `start` to byte `end`, which lie within.
    pub(crate) fn part(self, Range { start, end }: Range<usize>) -> Self {
        debug_assert!(start <= end && end <= self.bytes, "a part lies within the whole");
        let pointer = DevicePtr(self.pointer.0 + start as u64);
        Self { pointer, offset: self.offset + start, bytes: end - start, ..self }
    }

    /// The name of the container.
    pub(crate) fn name(self) -> Option<&'a str> {
        self.order.name()
    }

    /// The elements of `T` in `range`; `origin` is the type that an error names.
    pub(crate) fn elements<T>(
        self,
        origin: &'static str,
        range: impl RangeBounds<usize>,
    ) -> Result<Self, Error> {
        let len = self.bytes / size_of::<T>();
        let range = resolve(origin, self.name(), &range, len)?;
        Ok(self.part(range.start * size_of::<T>()..range.end * size_of::<T>()))
    }

    /// Refuses a source or target whose number of elements differs.
    pub(crate) fn check_len<T>(self, origin: &'static str, other: usize) -> Result<(), Error> {
        let len = self.bytes / size_of::<T>();
        if len == other {
            return Ok(());
        }
        let message = format!("a slice of {other} elements for {len}{}", in_(self.name()));
        Err(Error::out_of_range(origin, message))
    }

    /// Whether it is, or may be, ordinary memory of the host, which some devices can use as well.
    fn is_pageable(self) -> bool {
        let kind = self.resource.try_property::<MemoryKind>();
        self.resource.has_property::<HostAccessible>()
            && !matches!(kind, Some(MemoryKind::Pinned | MemoryKind::Managed | MemoryKind::Device))
    }

    /// Has `stream` wait for those whose uses conflict, and those who come later wait for what is
    /// enqueued there meanwhile.
    pub(crate) fn use_on(self, access: Access, stream: StreamRef<'_>) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.order.context();
        let _entered = context.enter()?;
        self.order.begin(&self.range(), access, Lasts::On, (stream, context)).map(drop)
    }

    /// Has managed memory moved before it is used, in the order of `stream`.
    pub(crate) fn prefetch(
        self,
        target: PrefetchTarget,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.order.context();
        let _entered = context.enter()?;
        let read = self.order.begin(&self.range(), Access::Read, Lasts::Once, (stream, context))?;
        let enqueued = prefetch(self.pointer, self.bytes, target, stream);
        self.order.passed(read, stream);
        enqueued
    }

    /// Copies to the host; complete on return.
    pub(crate) fn read(self, target: &mut [u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, target.len(), "as long as the target");
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.order.context();
        let _entered = context.enter()?;
        self.order.before(&self.range(), Access::Read, (stream, context))?;
        // SAFETY: the memory is as long, conflicting uses are ordered before this place on the
        // stream, and the target is borrowed until `finish` below has returned.
        let enqueued = unsafe {
            copy::device_to_host(target.as_mut_ptr().cast(), self.pointer, target.len(), stream)
        };
        finish(enqueued, stream)
    }

    /// Copies from the host; complete on return.
    pub(crate) fn write(self, source: &[u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.len(), "as long as the source");
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.order.context();
        let _entered = context.enter()?;
        self.order.before(&self.range(), Access::Write, (stream, context))?;
        // SAFETY: the memory is as long, conflicting uses are ordered before this place on the
        // stream, and the source is borrowed until `finish` below has returned.
        let enqueued = unsafe {
            copy::host_to_device(self.pointer, source.as_ptr().cast(), source.len(), stream)
        };
        finish(enqueued, stream)
    }

    /// Copies from the host, some time: the source is there for good.
    pub(crate) fn write_static(
        self,
        source: &'static [u8],
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.len(), "as long as the source");
        self.enqueue(stream, |target| {
            // SAFETY: the memory is as long, conflicting uses are ordered before this place on the
            // stream, and the source is neither changed nor freed.
            unsafe { copy::host_to_device(target, source.as_ptr().cast(), source.len(), stream) }
        })
    }

    /// Copies from other memory of as many bytes, in the order of `stream`.
    pub(crate) fn copy_from(self, source: Memory<'_>, stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert_eq!(self.bytes, source.bytes, "as long as the source");
        // That in which the copy is enqueued.
        let context = self.order.context();
        self.enqueue(stream, |target| {
            let read = source.order.begin(
                &source.range(),
                Access::Read,
                Lasts::Once,
                (stream, context),
            )?;
            if source.is_pageable() {
                // The driver may read it before the stream comes to the copy.
                stream.synchronize()?;
            }
            // SAFETY: both are as long, and what conflicts with the uses of either is ordered
            // before this place on the stream. They do not overlap, since one is written by way of
            // a value that excludes all others.
            let copied =
                unsafe { copy::device_to_device(target, source.pointer, source.bytes, stream) };
            source.order.passed(read, stream);
            copied
        })
    }

    /// Sets all bytes, in the order of `stream`.
    pub(crate) fn fill(self, value: u8, stream: StreamRef<'_>) -> Result<(), Error> {
        self.enqueue(stream, |target| {
            // SAFETY: the memory has so many bytes, and conflicting uses are ordered before this
            // place on the stream.
            unsafe { copy::fill(target, value, self.bytes, stream) }
        })
    }

    /// Sets the bytes to repetitions of `pattern`, whose length divides theirs, in the order of
    /// `stream`. No memory of the host is read by the device: the values travel with the calls.
    pub(crate) fn repeat(self, pattern: &[u8], stream: StreamRef<'_>) -> Result<(), Error> {
        debug_assert!(
            self.bytes.is_multiple_of(pattern.len()),
            "the pattern fits a whole number of times"
        );
        self.enqueue(stream, |target| {
            // SAFETY: the memory has so many bytes, a multiple of the pattern's; conflicting uses
            // are ordered before this place on the stream.
            unsafe { crate::pattern::repeat(target, pattern, self.bytes, stream) }
        })
    }

    /// Enqueues work on `stream` that writes the memory.
    fn enqueue(
        self,
        stream: StreamRef<'_>,
        work: impl FnOnce(DevicePtr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let context = self.order.context();
        let _entered = context.enter()?;
        let write =
            self.order.begin(&self.range(), Access::Write, Lasts::Once, (stream, context))?;
        let enqueued = work(self.pointer);
        self.order.passed(write, stream);
        enqueued
    }
}

/// Waits until a copy from or to borrowed host memory is done, whatever it takes: the borrow ends
/// with the call. If the stream is being captured the copy is no work to wait for, but part of a
/// graph, which the wait has spoilt.
///
/// An error of the driver is never taken for the end of the copy, but for a sticky one: the context
/// is lost then, and works on nothing any more.
fn finish(enqueued: Result<(), Error>, stream: StreamRef<'_>) -> Result<(), Error> {
    let Err(refused) = stream.synchronize() else { return enqueued };
    // While another thread captures a stream it may be that nobody waits for any, unless captures
    // mean nothing to the waiting thread.
    let _relaxed = RelaxedCapture::enter();
    let mut last = refused.code();
    loop {
        let goes_on = match last {
            Some(CuResult::STREAM_CAPTURE_UNSUPPORTED) => match stream.is_capturing() {
                Ok(is_captured) => !is_captured,
                Err(error) => !is_lost(&error),
            },
            // The legacy stream takes neither work nor waits until the capture is over; the copy
            // came before it began.
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

/// Whether no work runs any more: the context is lost, or there is no driver.
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
        _ => Err(Error::out_of_range(origin, format!("{} of {len}{}", written(range), in_(name)))),
    }
}

/// The container's name, as the end of a message.
fn in_(name: Option<&str>) -> String {
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
    use rmm_core::{Context, CudaStream, HasResource as _, StreamFlags, current_driver};
    use rmm_sim::{Kernel, Machine, Schedule};

    use super::*;
    use crate::PinnedVec;

    #[test]
    fn what_is_out_of_range_is_told_as_it_is_written() {
        fn told(range: impl RangeBounds<usize>) -> String {
            resolve("it", None, &range, 4).expect_err("it is out of range").to_string()
        }
        assert_eq!(told(4..=4), "out of range in it: element 4 of 4");
        assert_eq!(told(2..9), "out of range in it: 2..9 of 4");
        assert_eq!(told(..=usize::MAX), format!("out of range in it: ..={} of 4", usize::MAX));
        assert_eq!(told(5..), "out of range in it: 5.. of 4");
        assert_eq!(resolve("it", None, &(4..), 4).expect("nothing is something"), 4..4);
    }

    #[test]
    fn work_that_runs_since_its_capture_has_ended_is_waited_for() {
        let machine = Machine::builder().memory(1 << 20).schedule(Schedule::Lazy).build();
        let _entered = machine.enter();
        let driver = current_driver().expect("a driver");
        let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let mut host = PinnedVec::from_slice(&[0u8; 4]).expect("a vector");
        let order = Order::of_host_memory(Context::current().expect("a context"));
        let pointer = DevicePtr(host.as_mut_slice().expect("no use").as_mut_ptr() as u64);
        // SAFETY: the vector has 4 bytes and lives; only this order knows of uses.
        let memory = unsafe { Memory::new(&order, host.memory_resource(), pointer, 4) };
        // SAFETY: the stream lives.
        let begun =
            unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::RELAXED) };
        assert_eq!(begun, CuResult::SUCCESS);
        let enqueued = memory.enqueue(stream.as_ref(), |_| {
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
        enqueued.expect("it is noted");
        order.wait_on_host(Access::Read).expect("the host waits");
        assert!(stream.as_ref().is_idle().expect("an answer"), "the kernel is waited for");
    }
}
