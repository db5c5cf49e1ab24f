//! Calls that all resources have: allocation, free, descriptions, trims, and the drop of the last
//! handle.

use std::alloc::Layout;
use std::hint::black_box;

use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor,
    RecorderResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor, default_pool,
};
use rmm_core::{
    AnyResource, CudaStream, DevicePtr, Error, Introspect as _, Resource as _, StreamRef,
    SynchronousResource as _,
};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, HostVirtualMemoryResource, ManagedMemoryResource,
    PinnedHostMemoryResource, VirtualMemoryResource,
};
use rmm_sim::Machine;

use crate::child::{call_each, does, drop_of, refused, says};

type Cuda = CudaMemoryResource;

fn all() -> Result<Vec<(&'static str, AnyResource<()>)>, Error> {
    let cuda = CudaMemoryResource::new;
    let pool = || PoolMemoryResource::builder(cuda()).build();
    let allocate = move |stream: StreamRef<'_>, layout| cuda().allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer: DevicePtr, layout| {
        // SAFETY: what the resource allocated, and frees in the order of the stream.
        unsafe { cuda().deallocate(stream, pointer, layout) };
    };
    // SAFETY: the functions are those of a resource.
    let callback = unsafe { CallbackMemoryResource::new(allocate, free) };
    let limited = LimitingResourceAdaptor::new(cuda(), 0);
    let bins = BinningMemoryResource::builder(cuda()).bins_of_powers(10..20)?.build();
    Ok(vec![
        ("cuda", AnyResource::new(cuda())),
        ("cuda-async", AnyResource::new(CudaAsyncMemoryResource::new()?)),
        ("managed", AnyResource::new(ManagedMemoryResource::new())),
        ("pinned", AnyResource::new(PinnedHostMemoryResource::new())),
        ("virtual", AnyResource::new(VirtualMemoryResource::new()?)),
        ("host-virtual", AnyResource::new(HostVirtualMemoryResource::new()?)),
        ("pool", AnyResource::new(pool()?)),
        ("default pool", AnyResource::new(default_pool()?)),
        (
            "checked pool",
            AnyResource::new(PoolMemoryResource::builder(cuda()).check_frees(true).build()?),
        ),
        ("arena", AnyResource::new(ArenaMemoryResource::builder(cuda()).build()?)),
        ("fixed size", AnyResource::new(FixedSizeMemoryResource::builder(cuda()).build()?)),
        ("binning", AnyResource::new(bins)),
        ("reservation", AnyResource::new(pool()?.reserve(64 << 20)?)),
        ("callback", AnyResource::new(callback)),
        ("aligned", AnyResource::new(AlignedResourceAdaptor::new(cuda(), 4096)?)),
        (
            "failure callback",
            AnyResource::new(FailureCallbackResourceAdaptor::new(cuda(), |_| false)),
        ),
        ("fallback", AnyResource::new(FallbackMemoryResource::new(limited, pool()?))),
        ("limiting", AnyResource::new(LimitingResourceAdaptor::new(cuda(), 1 << 30))),
        (
            "logging",
            AnyResource::new(
                LoggingResourceAdaptor::<Cuda>::builder(cuda())
                    .writer(Vec::new())
                    .build()
                    .expect("a vector can be written to"),
            ),
        ),
        ("prefetch", AnyResource::new(PrefetchResourceAdaptor::new(cuda()))),
        (
            "recorder",
            AnyResource::new(RecorderResourceAdaptor::builder(cuda()).sites(true).build()),
        ),
        ("statistics", AnyResource::new(StatisticsResourceAdaptor::new(cuda()))),
        ("tagged", AnyResource::new(TaggedResourceAdaptor::new(cuda()))),
        ("thread safe", AnyResource::new(ThreadSafeResourceAdaptor::new(cuda()))),
        ("tracking", AnyResource::new(TrackingResourceAdaptor::new(pool()?))),
    ])
}

pub(crate) fn call_all(machine: &Machine, wrong: &mut Vec<String>) {
    for (name, resource) in all().expect("the software device has all of them") {
        call_each_of(machine, name, &resource, wrong);
    }
}

fn call_each_of(
    machine: &Machine,
    name: &str,
    resource: &AnyResource<()>,
    wrong: &mut Vec<String>,
) {
    let layouts = [3000, 2 << 20].map(|size| Layout::from_size_align(size, 256).expect("valid"));
    let stream = CudaStream::non_blocking().expect("a stream");
    let kept = layouts.map(|layout| {
        let size = layout.size().min(1000);
        let layout = Layout::from_size_align(size, 256).expect("valid");
        (resource.allocate(&stream, layout).expect("there is room"), layout)
    });
    let busy = || {
        let stream = CudaStream::non_blocking().expect("a stream");
        for _ in 0..20 {
            for layout in layouts {
                if let Ok(block) = resource.allocate(&stream, layout) {
                    // SAFETY: allocated above with this layout on this stream, and not used.
                    unsafe { resource.deallocate(&stream, block, layout) };
                }
                black_box(resource.describe().to_string());
            }
            black_box(resource.trim(0));
        }
    };
    let (block, layout) = kept[0];
    let (other, _) = kept[1];
    // Memory of the host that the driver does not know is allocated in a child too.
    call_each(
        machine,
        name,
        &busy,
        &[
            does("allocate", || refused(resource.allocate(&stream, layout))),
            does("allocate much", || refused(resource.allocate(&stream, layouts[1]))),
            does("allocate_sync", || refused(resource.allocate_sync(layout))),
            // SAFETY: the block is the child's copy, and nothing uses it.
            does("deallocate", || unsafe { resource.deallocate(&stream, block, layout) }),
            // SAFETY: as above.
            does("deallocate_sync", || unsafe { resource.deallocate_sync(other, layout) }),
            does("name", || resource.name()),
            says("describe", || resource.describe().to_string()),
            says("Debug", || format!("{resource:?}")),
            says("trim", || resource.trim(0)),
            says("trim_blocking", || resource.trim_blocking(0)),
            does("drop", || drop_of(resource)),
        ],
        wrong,
    );
    for (block, layout) in kept {
        // SAFETY: allocated above with this layout on this stream, and not used.
        unsafe { resource.deallocate(&stream, block, layout) };
    }
}
