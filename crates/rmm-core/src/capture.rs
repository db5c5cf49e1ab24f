//! Stream capture, as far as memory management is concerned.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::RwLock;

use rmm_sys::epoch::{self, Epoch};
use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuResult};

use crate::driver::{check, driver_for_drop, driver_in_context, loaded_driver};
use crate::{CudaStream, Device, Error, StreamRef, fork};

/// Held shared during waits that would invalidate a capture.
static WAITS: RwLock<()> = RwLock::new(());

/// A guard that announces that streams of this process may be captured into graphs.
///
/// A graph uses the same memory at each launch, so memory allocated or freed while a stream is
/// captured must stay reserved for the graph. A pool that makes no driver call cannot see that a
/// stream is being captured: create this guard before a capture begins, and drop it when the
/// capture has ended. While one exists, pools query the driver for the capture status of the stream
/// of each call. Memory freed on a stream *after* its capture is reused as any other: the graph
/// must not use it any more.
///
/// ```
/// use rmm_core::{CaptureScope, CudaStream};
/// use rmm_core::sys::{CuCaptureMode, CuGraph};
///
/// # let _machine = rmm_sim::enter();
/// let driver = rmm_core::current_driver()?;
/// let stream = CudaStream::new()?;
/// let scope = CaptureScope::announce();
/// // SAFETY: the stream lives.
/// let code = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
/// rmm_core::check("cuStreamBeginCapture_v2", code)?;
/// assert!(stream.is_capturing()?);
/// // ... allocate, launch, free ...
/// let mut graph = CuGraph::NULL;
/// // SAFETY: the stream lives, and `graph` may be written to.
/// let code = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
/// rmm_core::check("cuStreamEndCapture", code)?;
/// drop(scope);
/// # // SAFETY: the graph was made above.
/// # let _ignored = unsafe { driver.cuGraphDestroy(graph) };
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "captures are announced only while the scope lives"]
pub struct CaptureScope(());

impl CaptureScope {
    /// Announces captures until the scope is dropped. Scopes may overlap, and may be dropped on
    /// another thread.
    ///
    /// If another thread waits for a device, as a pool does before it runs out of memory, the call
    /// returns once that wait is over: it would invalidate a capture that began meanwhile.
    ///
    /// # Panics
    /// In the child of a `fork`, if a thread of the parent waited then.
    pub fn announce() -> Self {
        epoch::announce();
        // Waits that go on have seen no announcement; those that begin later see this one.
        drop(fork::write(&WAITS));
        Self(())
    }

    /// Waits as `wait` does, for a device or a context, unless a capture is announced, which that
    /// could invalidate: then the result is `None`. One that is announced meanwhile begins
    /// afterwards. `wait` does nothing else: it announces nothing, and waits for no thread.
    ///
    /// ```
    /// use rmm_core::{CaptureScope, Device};
    ///
    /// # let _machine = rmm_sim::enter();
    /// assert!(CaptureScope::unless_announced(Device::synchronize_current).is_some());
    /// let _scope = CaptureScope::announce();
    /// assert!(CaptureScope::unless_announced(Device::synchronize_current).is_none());
    /// ```
    pub fn unless_announced<R>(wait: impl FnOnce() -> R) -> Option<R> {
        let _announcements_wait = fork::read(&WAITS);
        (!Self::is_announced()).then(wait)
    }

    /// Whether any scope exists: one load, for allocators that cannot afford a driver call each
    /// time.
    ///
    /// ```
    /// use rmm_core::CaptureScope;
    ///
    /// assert!(!CaptureScope::is_announced());
    /// let _scope = CaptureScope::announce();
    /// assert!(CaptureScope::is_announced());
    /// ```
    #[inline]
    pub fn is_announced() -> bool {
        // Relaxed suffices: a thread that uses a stream which another thread has begun to capture
        // learned of the capture from that thread, so the increment happens before this load.
        Epoch::now().announcements() > 0
    }
}

impl Drop for CaptureScope {
    fn drop(&mut self) {
        epoch::withdraw();
    }
}

/// Waits on this thread for all work of the current context, unless that could invalidate a
/// capture: one is announced, or the legacy default stream knows of one. Returns whether it has
/// waited.
///
/// # Errors
/// The driver's.
pub fn synchronize_unless_captured() -> Result<bool, Error> {
    // SAFETY: the legacy default stream always exists.
    if unsafe { CudaStream::may_be_capturing_raw(StreamRef::legacy().as_raw()) } {
        return Ok(false);
    }
    let waited = CaptureScope::unless_announced(Device::synchronize_current).transpose()?;
    Ok(waited.is_some())
}

impl StreamRef<'_> {
    /// Whether the stream is being captured into a graph, so that work becomes part of the graph
    /// instead of running. Never invalidates a capture.
    ///
    /// # Errors
    /// If the driver refuses, as it does for the legacy default stream while a stream that
    /// synchronizes with it is captured.
    #[doc(alias = "cudaStreamIsCapturing")]
    pub fn is_capturing(self) -> Result<bool, Error> {
        self.check_context()?;
        let driver = loaded_driver()?;
        let mut status = CuCaptureStatus::NONE;
        let mut ask = || {
            // SAFETY: the stream exists while it is borrowed, and `status` may be written to.
            unsafe { driver.cuStreamIsCapturing(self.as_raw(), &raw mut status) }
        };
        let mut code = ask();
        if matches!(code, CuResult::INVALID_CONTEXT | CuResult::NOT_INITIALIZED) {
            // A default stream is that of the current context, of which the thread has none.
            driver_in_context()?;
            code = ask();
        }
        check("cuStreamIsCapturing", code).map(|()| status != CuCaptureStatus::NONE)
    }
}

/// A guard that sets the thread's capture mode to relaxed, so that its calls invalidate no capture
/// of any thread.
///
/// While a stream is captured, the driver considers calls that are not in stream order potentially
/// unsafe: allocating and freeing memory, querying or synchronizing with events and streams. It
/// then refuses them and invalidates the capture, on any thread. For memory that no graph uses such
/// calls are safe, and the relaxed mode permits them. Synchronizing with a whole device, or with
/// anything that is itself captured, stays prohibited.
///
/// ```
/// use rmm_core::RelaxedCapture;
///
/// # let _machine = rmm_sim::enter();
/// let relaxed = RelaxedCapture::enter();
/// // ... cuMemAlloc, cuMemFree, cuEventQuery ...
/// drop(relaxed);
/// ```
#[doc(alias = "cudaThreadExchangeStreamCaptureMode")]
#[derive(Debug)]
#[must_use = "the mode is changed only while the guard lives"]
pub struct RelaxedCapture {
    /// The mode belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

thread_local! {
    /// How many guards this thread has, and the mode to restore after the last, if it was changed.
    /// Guards may be dropped in any order.
    static RELAXED: Cell<(usize, Option<CuCaptureMode>)> = const { Cell::new((0, None)) };
}

impl RelaxedCapture {
    /// Relaxes the thread's mode; if the driver refuses, the mode stays as it is.
    pub fn enter() -> Self {
        let (guards, former) = RELAXED.get();
        RELAXED.set((guards + 1, former.or_else(|| exchange(CuCaptureMode::RELAXED))));
        Self { thread_bound: PhantomData }
    }
}

/// Exchanges the thread's mode, and returns the previous one.
fn exchange(mode: CuCaptureMode) -> Option<CuCaptureMode> {
    let (driver, mut mode) = (loaded_driver().ok()?, mode);
    // SAFETY: `mode` may be read and written to.
    let code = unsafe { driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    (code == CuResult::SUCCESS).then_some(mode)
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        let (guards, former) = RELAXED.get();
        let is_last = guards == 1;
        RELAXED.set((guards - 1, former.filter(|_| !is_last)));
        if is_last
            && let Some(former) = former
            && driver_for_drop().is_some()
        {
            // A failure means that the driver is gone: nothing to restore.
            let _ignored = exchange(former);
        }
    }
}
