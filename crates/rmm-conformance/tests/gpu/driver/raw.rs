//! Streams, events and memory of the driver itself, which probes call without anything between.

use std::ffi::{c_int, c_uint, c_ulonglong};

use rmm_conformance::{CheckResult, Failure};
use rmm_sys::{
    CuContext, CuDevicePtr, CuEvent, CuResult, CuStream, Driver, EVENT_DISABLE_TIMING,
    STREAM_DEFAULT, STREAM_NON_BLOCKING,
};

/// The driver, which the place has opened. It makes no context current, so that threads without one
/// can be looked at.
pub(super) fn driver() -> &'static Driver {
    Driver::get().expect("the place has opened the driver")
}

/// A stream, destroyed when this is dropped unless it is a default one.
pub(super) struct Stream {
    /// # Invariant
    /// Made by `made` and not destroyed, or a default stream.
    raw: CuStream,
    is_default: bool,
}

impl Stream {
    pub(super) const LEGACY: Self = Self { raw: CuStream::LEGACY, is_default: true };
    pub(super) const NULL: Self = Self { raw: CuStream::NULL, is_default: true };
    pub(super) const PER_THREAD: Self = Self { raw: CuStream::PER_THREAD, is_default: true };

    pub(super) fn made(flags: c_uint, priority: c_int) -> Result<Self, CuResult> {
        let mut raw = CuStream::NULL;
        // SAFETY: `raw` may be written to.
        let code = unsafe { driver().cuStreamCreateWithPriority(&raw mut raw, flags, priority) };
        code.result().map(|()| Self { raw, is_default: false })
    }

    /// A stream that orders itself with the legacy default stream.
    pub(super) fn blocking() -> Result<Self, CuResult> {
        Self::made(STREAM_DEFAULT, 0)
    }

    pub(super) fn non_blocking() -> Result<Self, CuResult> {
        Self::made(STREAM_NON_BLOCKING, 0)
    }

    /// A stream that was made otherwise, to be destroyed with this.
    ///
    /// # Safety
    /// The stream exists, and nothing else destroys it.
    #[cfg(unix)]
    pub(super) unsafe fn owning(raw: CuStream) -> Self {
        Self { raw, is_default: false }
    }

    pub(super) fn raw(&self) -> CuStream {
        self.raw
    }

    pub(super) fn id(&self) -> Result<c_ulonglong, CuResult> {
        let mut id = 0;
        // SAFETY: `id` may be written to, and the stream exists.
        unsafe { driver().cuStreamGetId(self.raw, &raw mut id) }.result().map(|()| id)
    }

    pub(super) fn flags(&self) -> Result<c_uint, CuResult> {
        let mut flags = c_uint::MAX;
        // SAFETY: `flags` may be written to, and the stream exists.
        unsafe { driver().cuStreamGetFlags(self.raw, &raw mut flags) }.result().map(|()| flags)
    }

    pub(super) fn priority(&self) -> Result<c_int, CuResult> {
        let mut priority = c_int::MAX;
        // SAFETY: `priority` may be written to, and the stream exists.
        let code = unsafe { driver().cuStreamGetPriority(self.raw, &raw mut priority) };
        code.result().map(|()| priority)
    }

    pub(super) fn context(&self) -> Result<CuContext, CuResult> {
        let mut context = CuContext::NULL;
        // SAFETY: `context` may be written to, and the stream exists.
        let code = unsafe { driver().cuStreamGetCtx(self.raw, &raw mut context) };
        code.result().map(|()| context)
    }

    pub(super) fn query(&self) -> CuResult {
        // SAFETY: the stream exists.
        unsafe { driver().cuStreamQuery(self.raw) }
    }

    pub(super) fn synchronize(&self) -> CuResult {
        // SAFETY: the stream exists.
        unsafe { driver().cuStreamSynchronize(self.raw) }
    }

    pub(super) fn wait_for(&self, event: &Event) -> CuResult {
        self.wait_with_flags(event, 0)
    }

    pub(super) fn wait_with_flags(&self, event: &Event, flags: c_uint) -> CuResult {
        // SAFETY: both exist.
        unsafe { driver().cuStreamWaitEvent(self.raw, event.raw, flags) }
    }

    /// Enqueues that all words of the memory become `value`.
    pub(super) fn fill(&self, memory: &Memory, value: u32) -> CuResult {
        let words = memory.bytes / size_of::<u32>();
        // SAFETY: the memory is so long, and freeing it waits for the device.
        unsafe { driver().cuMemsetD32Async(memory.pointer, value, words, self.raw) }
    }

    /// Destroys the stream.
    pub(super) fn destroy(mut self) -> CuResult {
        self.end()
    }

    fn end(&mut self) -> CuResult {
        if std::mem::replace(&mut self.is_default, true) {
            return CuResult::SUCCESS;
        }
        // SAFETY: made by `made`, and destroyed here for the first time, after which only `drop`
        // follows.
        unsafe { driver().cuStreamDestroy_v2(self.raw) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ignored = self.end();
    }
}

/// An event, destroyed when this is dropped.
pub(super) struct Event {
    /// # Invariant
    /// Made by `with_flags`, and not destroyed.
    raw: CuEvent,
}

impl Event {
    /// An event that keeps no time.
    pub(super) fn new() -> Result<Self, CuResult> {
        Self::with_flags(EVENT_DISABLE_TIMING)
    }

    pub(super) fn with_flags(flags: c_uint) -> Result<Self, CuResult> {
        let mut raw = CuEvent::NULL;
        // SAFETY: `raw` may be written to.
        unsafe { driver().cuEventCreate(&raw mut raw, flags) }.result().map(|()| Self { raw })
    }

    pub(super) fn record(&self, stream: &Stream) -> CuResult {
        // SAFETY: both exist.
        unsafe { driver().cuEventRecord(self.raw, stream.raw) }
    }

    /// Records all that the context was given.
    pub(super) fn record_all_of(&self, context: CuContext) -> CuResult {
        // SAFETY: the event exists, and contexts of this program stay.
        unsafe { driver().cuCtxRecordEvent(context, self.raw) }
    }

    /// Makes all that the context will be given wait.
    pub(super) fn hold_up(&self, context: CuContext) -> CuResult {
        // SAFETY: as above.
        unsafe { driver().cuCtxWaitEvent(context, self.raw) }
    }

    pub(super) fn query(&self) -> CuResult {
        // SAFETY: the event exists.
        unsafe { driver().cuEventQuery(self.raw) }
    }

    pub(super) fn synchronize(&self) -> CuResult {
        // SAFETY: the event exists.
        unsafe { driver().cuEventSynchronize(self.raw) }
    }

    /// The milliseconds from `start` to this, by each form of the function that the driver has.
    pub(super) fn elapsed_since(&self, start: &Self) -> Result<Vec<f32>, CuResult> {
        let driver = driver();
        let forms = [driver.cuEventElapsedTime, driver.cuEventElapsedTime_v2];
        let times = forms.into_iter().flatten().map(|form| {
            let mut elapsed = f32::NAN;
            // SAFETY: `elapsed` may be written to, and both exist.
            unsafe { form(&raw mut elapsed, start.raw, self.raw) }.result().map(|()| elapsed)
        });
        times.collect()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `with_flags`, and not used again. A failure means that the driver is
        // gone.
        let _ignored = unsafe { driver().cuEventDestroy_v2(self.raw) };
    }
}

/// Device memory of its own. Freeing it waits for the device, so it is made before a stall is.
pub(super) struct Memory {
    /// # Invariant
    /// Allocated by `new` with `bytes` bytes, and not freed.
    pub(super) pointer: CuDevicePtr,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Self, CuResult> {
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to.
        let code = unsafe { driver().cuMemAlloc_v2(&raw mut pointer, bytes) };
        code.result().map(|()| Self { pointer, bytes })
    }

    /// Some words that are zero. The fill is also the first one in the context: drivers load code
    /// late, and may wait for the whole device then, which nothing must do during a stall.
    pub(super) fn words() -> Result<Self, CuResult> {
        let memory = Self::new(1 << 12)?;
        Stream::NULL.fill(&memory, 0).result()?;
        Stream::NULL.synchronize().result()?;
        Ok(memory)
    }

    /// Fails unless the first word is `expected`. All work on it is known to be done.
    pub(super) fn holds(&self, expected: u32) -> CheckResult {
        let mut word = [0u8; 4];
        // SAFETY: both are so long.
        let code =
            unsafe { driver().cuMemcpyDtoH_v2(word.as_mut_ptr().cast(), self.pointer, word.len()) };
        super::works("reading a word", code)?;
        super::answers("the word in memory", &u32::from_ne_bytes(word), &expected)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and not used again. A failure means that the driver is gone.
        let _ignored = unsafe { driver().cuMemFree_v2(self.pointer) };
    }
}

/// The current context.
pub(super) fn context() -> Result<CuContext, Failure> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` may be written to.
    unsafe { driver().cuCtxGetCurrent(&raw mut context) }.result()?;
    Ok(context)
}

/// Waits for the current context.
pub(super) fn synchronize_context() -> CuResult {
    // SAFETY: takes no argument.
    unsafe { driver().cuCtxSynchronize() }
}
