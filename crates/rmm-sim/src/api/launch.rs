//! Launching simulated kernels.

use rmm_sys::{CuResult, CuStream};

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::engine::thread;
use crate::model::kernel::{Kernel, KernelBody};

impl Machine {
    /// Enqueues a simulated kernel that accesses device memory only.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if the stream is being captured and the kernel is not
    /// [repeatable](Kernel::repeatable), `INVALID_HANDLE` for a stream that is not of this machine,
    /// `INVALID_VALUE` for a range that does not lie within one live allocation or contiguous
    /// mappings, for which the stream's device lacks the access right, or that the host can access
    /// too (see [`launch_on_shared`](Self::launch_on_shared)), `NOT_PERMITTED` inside a host
    /// function or kernel, `INVALID_CONTEXT` for a default stream where the calling thread has no
    /// current context, and the code of a [kernel that failed](Kernel::fails) in the stream's
    /// context before.
    pub fn launch(&self, stream: CuStream, kernel: Kernel) -> Result<(), CuResult> {
        let body = self.lock().kernel_body(kernel)?;
        if body.places.iter().all(|(place, _)| place.on_device_only()) {
            self.enqueue_kernel(stream, body)
        } else {
            Err(CuResult::INVALID_VALUE)
        }
    }

    /// Enqueues a simulated kernel that may access memory which the host can access too: pinned,
    /// managed, or pageable.
    ///
    /// # Errors
    /// The errors of [`launch`](Self::launch), but not the one for memory that the host can access.
    ///
    /// # Safety
    /// Until the kernel is complete, the program does not write host memory that the kernel reads,
    /// does not borrow host memory that it writes, and does not free pageable memory that it
    /// accesses.
    pub unsafe fn launch_on_shared(
        &self,
        stream: CuStream,
        kernel: Kernel,
    ) -> Result<(), CuResult> {
        let body = self.lock().kernel_body(kernel)?;
        self.enqueue_kernel(stream, body)
    }

    fn enqueue_kernel(&self, stream: CuStream, body: KernelBody) -> Result<(), CuResult> {
        if thread::in_callback() {
            return Err(CuResult::NOT_PERMITTED);
        }
        let mut session = Session::open(self);
        session.sim_time.charge("cuLaunchKernel");
        session.launch_kernel(stream, body)?;
        session.finish_call(Ok(())).result()
    }
}
