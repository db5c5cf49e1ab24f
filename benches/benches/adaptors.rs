//! What each adaptor adds to a pair of calls of a pool, by one thread.

use std::alloc::Layout;
use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;

use criterion::Criterion;
use rmm_adaptors::{PoolMemoryResource, Tag, TrackingResourceAdaptor};
use rmm_benches::adaptors::{Pool, adaptors};
use rmm_benches::setup;
use rmm_cli::device::OpenDevice;
use rmm_core::{CudaStream, Resource};
use rmm_resources::CudaMemoryResource;

fn main() -> ExitCode {
    setup::run(|criterion, _: &OpenDevice| {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
            .initial_size(256 << 20)
            .build()?;
        pairs(criterion, &pool, &CudaStream::new()?)
    })
}

fn pairs(
    criterion: &mut Criterion,
    pool: &Pool,
    stream: &CudaStream,
) -> Result<(), Box<dyn Error>> {
    let mut time = |name: &str, resource: &dyn Resource| pair(criterion, name, resource, stream);
    time("none", pool);
    let _tag = Tag::named("bench").enter();
    for adaptor in adaptors() {
        time(adaptor.name, &(adaptor.over)(pool.clone())?);
    }
    #[cfg(feature = "tracing")]
    time("tracing", &rmm_adaptors::TracingResourceAdaptor::new(pool.clone()));
    let stacks = TrackingResourceAdaptor::builder(pool.clone()).capture_stacks(true).build();
    time("tracking_stacks", &stacks);
    Ok(())
}

fn pair(criterion: &mut Criterion, name: &str, resource: &dyn Resource, stream: &CudaStream) {
    let layout = Layout::from_size_align(4096, 256).expect("a size");
    criterion.bench_function(&format!("adaptors/{name}"), |bencher| {
        bencher.iter(|| {
            let (resource, layout) = (black_box(resource), black_box(layout));
            let pointer =
                resource.do_allocate(stream.as_stream_ref(), layout).expect("there is room");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.do_deallocate(stream.as_stream_ref(), pointer, layout) };
        });
    });
}
