//! The cost of type erasure, and of owning a handle to a stream.

use std::alloc::Layout;
use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use criterion::Criterion;
use rmm_benches::nothing::Nothing;
use rmm_benches::setup;
use rmm_cli::device::OpenDevice;
use rmm_core::{
    AnyResource, AnySynchronousResource, CudaStream, DeviceAsyncResourceRef, Resource,
    Synchronized, SynchronousResource,
};

fn main() -> ExitCode {
    setup::run(|criterion, _: &OpenDevice| {
        let stream = CudaStream::new()?;
        pairs(criterion, &stream)?;
        criterion.bench_function("stream/clone_and_drop", |bencher| {
            bencher.iter(|| drop(black_box(&stream).clone()));
        });
        // A stream's handle is an `Arc`: on most machines two locked instructions are all of
        // the time.
        let count = Arc::new([0u64; 8]);
        criterion.bench_function("stream/arc_clone_and_drop", |bencher| {
            bencher.iter(|| drop(Arc::clone(black_box(&count))));
        });
        Ok(())
    })
}

fn pairs(criterion: &mut Criterion, stream: &CudaStream) -> Result<(), Box<dyn Error>> {
    let layout = Layout::from_size_align(4096, 256)?;
    let any: AnyResource = AnyResource::new(Nothing);
    let borrowed = DeviceAsyncResourceRef::new(&any);
    let any_sync: AnySynchronousResource = AnySynchronousResource::new(Nothing);
    let adapted = Synchronized::new(any_sync.clone());
    pair(criterion, "erased/direct", &Nothing, stream, layout);
    pair(criterion, "erased/any", &any, stream, layout);
    pair(criterion, "erased/ref", &borrowed, stream, layout);
    pair_sync(criterion, "erased/direct_sync", &Nothing, layout);
    pair_sync(criterion, "erased/any_sync", &any_sync, layout);
    pair_sync(criterion, "erased/synchronized_any_sync", &adapted, layout);
    criterion.bench_function("erased/any_clone_and_drop", |bencher| {
        bencher.iter(|| drop(black_box(&any).clone()));
    });
    Ok(())
}

fn pair(
    criterion: &mut Criterion,
    name: &str,
    resource: &impl Resource,
    stream: &CudaStream,
    layout: Layout,
) {
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            let (resource, layout) = (black_box(resource), black_box(layout));
            let pointer = resource.allocate(stream, layout).expect("it never fails");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.deallocate(stream, pointer, layout) };
        });
    });
}

fn pair_sync(
    criterion: &mut Criterion,
    name: &str,
    resource: &impl SynchronousResource,
    layout: Layout,
) {
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            let (resource, layout) = (black_box(resource), black_box(layout));
            let pointer = resource.allocate_sync(layout).expect("it never fails");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.deallocate_sync(pointer, layout) };
        });
    });
}
