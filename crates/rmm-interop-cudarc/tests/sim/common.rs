//! Test support.

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc_0_19 as cudarc;
use rmm_adaptors::PoolMemoryResource;
use rmm_interop_cudarc::Stream;
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::Machine;

pub(crate) fn load() {
    rmm_sim_cuda::load().expect("there is no other driver");
}

/// Checks a program of cudarc's.
pub(crate) fn check(program: impl Fn(&Machine, &Arc<CudaContext>)) {
    load();
    rmm_sim::check(|machine| {
        let context = CudaContext::new(0).expect("there is a device");
        program(machine, &context);
    });
}

/// The report of a program that the check fails.
pub(crate) fn report(program: impl Fn(&Machine, &Arc<CudaContext>)) -> String {
    load();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(program)));
    let payload = failed.expect_err("the check fails");
    *payload.downcast::<String>().expect("a check reports text")
}

/// A new stream of cudarc's, adopted.
pub(crate) fn stream(context: &Arc<CudaContext>) -> Stream {
    let theirs = context.new_stream().expect("there is memory for a stream");
    // SAFETY: the tests capture no stream.
    unsafe { Stream::adopt(&theirs) }.expect("it exists")
}

/// A resource that gives memory back at once, in stream order.
pub(crate) fn driver_pool() -> CudaAsyncMemoryResource {
    CudaAsyncMemoryResource::new().expect("pools are supported")
}

pub(crate) fn pool() -> PoolMemoryResource {
    PoolMemoryResource::builder(CudaMemoryResource::new())
        .initial_size(1 << 20)
        .build()
        .expect("there is memory")
}
