//! The cost of a stream from a pool of streams, beside making and destroying one, as
//! `CUDA_STREAM_POOL_BENCH` of RMM.

use std::hint::black_box;
use std::process::ExitCode;

use rmm_benches::setup;
use rmm_cli::device::OpenDevice;
use rmm_core::{CudaStream, CudaStreamPool, StreamFlags};

fn main() -> ExitCode {
    setup::run(|criterion, _: &OpenDevice| {
        let pool = CudaStreamPool::with_default_size(StreamFlags::NON_BLOCKING)?;
        criterion.bench_function("streams/of_a_pool", |bencher| {
            bencher.iter(|| black_box(&pool).get().as_raw());
        });
        criterion.bench_function("streams/made_and_destroyed", |bencher| {
            bencher.iter(|| CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).map(drop));
        });
        Ok(())
    })
}
