//! Putting simulated kernels on streams.

use rmm_sys::{CuResult, CuStream};

use crate::current;
use crate::kernel::{Body, Kernel};
use crate::machine::Machine;
use crate::session::Session;
use crate::stream::Work;

impl Machine {
    /// Enqueues a simulated kernel that uses device memory only.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if the stream is being captured and the kernel is not
    /// [repeatable](Kernel::repeatable), `INVALID_HANDLE` for a stream that is not of this machine,
    /// `INVALID_VALUE` for a range that does not lie within one live allocation (or in mappings
    /// without a gap), that the stream's device has no right to use like that, or that the host can
    /// use (see [`launch_on_shared`](Self::launch_on_shared)), `NOT_PERMITTED` inside a host
    /// function or kernel, `INVALID_CONTEXT` for a default stream where the calling thread has no
    /// current context, and the code of a [kernel that failed](Kernel::fails) in the stream's
    /// context before.
    pub fn launch(&self, stream: CuStream, kernel: Kernel) -> Result<(), CuResult> {
        let body = Body::new(kernel, self)?;
        if body.places.iter().all(|(place, _)| place.on_device_only()) {
            self.enqueue_kernel(stream, body)
        } else {
            Err(CuResult::INVALID_VALUE)
        }
    }

    /// Enqueues a simulated kernel that may use memory which the host can use too: pinned, managed,
    /// or the program's own.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), but for such memory.
    ///
    /// # Safety
    /// Until the kernel is done, memory of the host that it reads is not written, what it writes is
    /// not borrowed, and what is the program's own is not freed.
    pub unsafe fn launch_on_shared(
        &self,
        stream: CuStream,
        kernel: Kernel,
    ) -> Result<(), CuResult> {
        let body = Body::new(kernel, self)?;
        self.enqueue_kernel(stream, body)
    }

    fn enqueue_kernel(&self, stream: CuStream, body: Body) -> Result<(), CuResult> {
        if current::in_callback() {
            return Err(CuResult::NOT_PERMITTED);
        }
        let mut session = Session::open(self);
        session.clock.charge("cuLaunchKernel");
        session.captures.call = "a kernel launch";
        let stream = session.stream(stream)?;
        session.refuse_on_failed_stream(stream)?;
        let work = Work::Kernel(body);
        session.check_rights(stream, &work)?;
        session.enqueue(stream, work)?;
        session.settle(Ok(())).result()
    }
}
