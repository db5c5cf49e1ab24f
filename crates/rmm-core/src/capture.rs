//! Streams that are being captured into graphs, seen from those who manage memory.

use std::cell::Cell;
use std::marker::PhantomData;

use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuResult, watch};

use crate::driver::{check, driver_for_drop, loaded_driver};
use crate::{Error, StreamRef};

/// Says, as long as it lives, that streams of this process may be captured into graphs.
///
/// Graphs use the same memory at each launch, so memory that is handed out or freed while a stream
/// is captured has to stay theirs. A pool that calls no driver cannot see by itself that a stream
/// is being captured: make this before a capture begins, and drop it when the capture has ended.
/// While one lives, pools ask the driver about the stream of each call. Memory that is freed on a
/// stream *after* its capture is taken as any other: what the graph does with it has then to be
/// over.
///
/// ```
/// use rmm_core::{CaptureScope, CudaStream};
/// use rmm_core::sys::{CuCaptureMode, CuGraph};
///
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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
/// # let _done = unsafe { driver.cuGraphDestroy(graph) };
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "captures are announced only while the scope lives"]
pub struct CaptureScope(());

impl CaptureScope {
    /// Announces captures until the scope is dropped. Scopes may overlap, and be dropped by another
    /// thread.
    pub fn announce() -> Self {
        watch::announce();
        Self(())
    }

    /// Whether any scope lives: one load, for those who must not ask the driver each time.
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
        // Whoever uses a stream that another thread has begun to capture has been told so by that
        // thread, which orders the two.
        watch::announcements(watch::word()) > 0
    }
}

impl Drop for CaptureScope {
    fn drop(&mut self) {
        watch::withdraw();
    }
}

impl StreamRef<'_> {
    /// Whether what is given to the stream becomes part of a graph instead of running. Never spoils
    /// a capture.
    ///
    /// # Errors
    /// If the driver refuses, as it does for the legacy default stream while a stream that blocks
    /// with it is captured.
    #[doc(alias = "cudaStreamIsCapturing")]
    pub fn is_capturing(self) -> Result<bool, Error> {
        self.check_context()?;
        let driver = loaded_driver()?;
        let mut status = CuCaptureStatus::NONE;
        // SAFETY: the stream exists while it is borrowed, and `status` may be written to.
        let code = unsafe { driver.cuStreamIsCapturing(self.as_raw(), &raw mut status) };
        check("cuStreamIsCapturing", code).map(|()| status != CuCaptureStatus::NONE)
    }
}

/// Keeps the calling thread's calls from spoiling captures, its own or those of others, until it is
/// dropped.
///
/// The driver counts calls that act beyond any one stream as potentially unsafe while a stream is
/// captured: to get memory or give it back, to ask or wait for events and streams. It then refuses
/// them and spoils the capture, on whichever thread it runs. Memory that is managed apart from all
/// graphs is no such danger, and this says so. To wait for a whole device, or for anything that is
/// itself captured, stays forbidden.
///
/// ```
/// use rmm_core::RelaxedCapture;
///
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let relaxed = RelaxedCapture::enter();
/// // ... cuMemAlloc, cuMemFree, cuEventQuery ...
/// drop(relaxed);
/// ```
#[doc(alias = "cudaThreadExchangeStreamCaptureMode")]
#[derive(Debug)]
#[must_use = "the mode is changed only while the guard lives"]
pub struct RelaxedCapture {
    /// The mode is the thread's.
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

/// Gives the thread another mode, and returns the one that it had.
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
            let _gone = exchange(former);
        }
    }
}
