//! Launching kernels: their ranges are looked up, and their work enqueued.
#![forbid(unsafe_code)]

use rmm_sys::{CuResult, CuStream};

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::kernel::{Kernel, KernelBody};
use crate::model::memory::Side;
use crate::model::work::Work;

impl State {
    /// A kernel with its ranges looked up.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a range that does not lie within one live allocation.
    pub(crate) fn kernel_body(&mut self, kernel: Kernel) -> Result<KernelBody, CuResult> {
        kernel.into_body(|name, operation, pointer, bytes| {
            let address = usize::try_from(pointer.0).map_err(|_| CuResult::INVALID_VALUE)?;
            self.usable_place((name, operation), address, bytes, Side::Device)
        })
    }
}

impl Session<'_> {
    /// Enqueues a kernel.
    ///
    /// # Errors
    /// Those of [`Machine::launch`](crate::Machine::launch).
    pub(crate) fn launch_kernel(
        &mut self,
        stream: CuStream,
        body: KernelBody,
    ) -> Result<(), CuResult> {
        self.captures.call = "a kernel launch";
        let stream = self.stream(stream)?;
        self.refuse_on_failed_stream(stream)?;
        let work = Work::Kernel(body);
        self.check_rights(stream, &work)?;
        self.enqueue(stream, work)?;
        Ok(())
    }
}
