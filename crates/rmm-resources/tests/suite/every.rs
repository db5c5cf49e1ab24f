//! Behaviour of every base resource beside the clauses of the contract, which the conformance suite
//! checks.

use std::sync::atomic::Ordering;

use rmm_core::{
    AnyResource, DeviceAccessible, Error, HasProperty, HostAccessible, Resource,
    SynchronousResource,
};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, HostMemoryResource, HostVirtualMemoryResource,
    ManagedMemoryResource, PinnedHostMemoryResource, RegisteredHostMemoryResource,
    SamHeadroomMemoryResource, SystemMemoryResource, VirtualMemoryResource,
};
use rmm_sim::{Fault, Leak, LeakKind, Machine};
use rmm_sys::CuResult;

use crate::allocator::{LARGE, live};
use crate::short::{layout, mib, peek, poke, stream, unified, write_later};

type Make = fn() -> Result<Box<dyn Resource>, Error>;

/// Every resource, by its name.
const EVERY: [(&str, Make); 13] = [
    ("cuda", || Ok(Box::new(CudaMemoryResource::new()))),
    ("virtual", || Ok(Box::new(VirtualMemoryResource::new()?))),
    ("host-virtual", || Ok(Box::new(HostVirtualMemoryResource::new()?))),
    ("cuda-async", || Ok(Box::new(CudaAsyncMemoryResource::new()?))),
    ("cuda-async-view", || {
        let device = rmm_core::Device::current()?;
        Ok(Box::new(CudaAsyncViewMemoryResource::of_default_pool(device)?))
    }),
    ("cuda-async-managed", || Ok(Box::new(CudaAsyncManagedMemoryResource::new()?))),
    ("cuda-async-pinned", || Ok(Box::new(CudaAsyncPinnedMemoryResource::new()?))),
    ("managed", || Ok(Box::new(ManagedMemoryResource::new()))),
    ("pinned", || Ok(Box::new(PinnedHostMemoryResource::new()))),
    ("registered", || Ok(Box::new(RegisteredHostMemoryResource::new()))),
    ("system", || Ok(Box::new(SystemMemoryResource::new()?))),
    ("sam-headroom", || Ok(Box::new(SamHeadroomMemoryResource::new(mib(1))?))),
    ("host", || Ok(Box::new(HostMemoryResource::new()))),
];

/// The resources whose memory only devices may use, and the one whose memory only the host may use.
const DEVICE_ONLY: [&str; 4] = ["cuda", "virtual", "cuda-async", "cuda-async-view"];
const HOST_ONLY: &str = "host";
/// The resources over the program's allocator, which supports every alignment.
pub(crate) const OWN_ALLOCATOR: [&str; 3] = ["system", "sam-headroom", "host"];

/// Runs a check over each resource, each on its own machine, and asserts that nothing is leaked.
pub(crate) fn for_each(check: impl Fn(&str, &Machine, &dyn Resource)) {
    for (name, make) in EVERY {
        let machine = unified().enter();
        let resource = make().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(resource.name(), name);
        check(name, &machine, &*resource);
        drop(resource);
        machine.run_all();
        machine.assert_no_violations();
        assert_eq!(machine.leaks().len(), 0, "{name}: {:?}", machine.leaks());
    }
}

/// Structures that hold a resource derive `Debug`, which people read.
#[test]
fn each_is_written_in_one_short_line() {
    for_each(|name, _, resource| {
        let line = format!("{resource:?}");
        assert!(line.len() < 150 && !line.contains("(())"), "{line}");
        let whole = match name {
            "cuda" => "CudaMemoryResource",
            "managed" => "ManagedMemoryResource",
            "system" => "SystemMemoryResource",
            "host" => "HostMemoryResource",
            "sam-headroom" => {
                "SamHeadroomMemoryResource { system: SystemMemoryResource, headroom: 1048576 }"
            }
            // The others have handles and sizes.
            _ => return,
        };
        assert_eq!(line, whole);
    });
}

#[test]
fn memory_is_kept_if_its_stream_cannot_be_synchronized() {
    // Driver pools are stream-ordered, and `cudaFree` of device memory waits for the whole device.
    for (name, make) in EVERY.into_iter().filter(|(name, _)| !name.starts_with("cuda")) {
        let machine = unified().enter();
        let (resource, stream) = (make().unwrap(), stream());
        let asked = layout(LARGE, 256);
        let pointer = resource.allocate(&stream, asked).unwrap();
        let failure = CuResult::STREAM_CAPTURE_UNSUPPORTED;
        machine.fail(Fault::nth("cuStreamSynchronize", 1, failure));
        let holds = |leak: &Leak| leak.bytes == LARGE || leak.kind == LeakKind::Mapping;
        let is_live = || live() > 0 || machine.leaks().iter().any(holds);
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate(&stream, pointer, asked) };
        assert!(is_live(), "{name}");
        // SAFETY: as above; it was not freed, as was seen.
        unsafe { resource.deallocate(&stream, pointer, asked) };
        assert!(!is_live(), "{name}");
    }
}

// RMM #1714: memory of the wrong kind was accepted.
#[test]
fn memory_that_the_host_may_use_is_the_host_s() {
    for_each(|name, machine, resource| {
        if DEVICE_ONLY.contains(&name) || name == HOST_ONLY {
            return;
        }
        let stream = stream();
        let pointer = resource.do_allocate(stream.as_stream_ref(), layout(4096, 256)).unwrap();
        stream.synchronize().unwrap();
        poke(pointer, 3);
        assert_eq!(peek(pointer), 3, "{name}");
        let has_run = write_later(machine, &stream, pointer, 4);
        stream.synchronize().unwrap();
        assert!(has_run.load(Ordering::Relaxed));
        assert_eq!(peek(pointer), 4, "{name}");
        // SAFETY: allocated above with this layout, and all uses have completed.
        unsafe { resource.deallocate_sync(pointer, layout(4096, 256)) };
    });
}

/// The driver's calls that free memory, or take it from the devices.
fn frees(machine: &Machine) -> u64 {
    const FREES: [&str; 3] = ["cuMemFree", "cuMemHostUnregister", "cuMemUnmap"];
    let is_free = |name: &str| FREES.iter().any(|free| name.starts_with(free));
    machine.call_counts().iter().filter(|(name, _)| is_free(name)).map(|(_, count)| count).sum()
}

#[test]
fn nothing_is_freed_once_the_driver_is_gone() {
    for (name, make) in EVERY {
        let machine = unified().enter();
        let resource = make().unwrap();
        let stream = stream();
        let pointer = resource.allocate(&stream, layout(4096, 256)).unwrap();
        let before = frees(&machine);
        machine.kill();
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate(&stream, pointer, layout(4096, 256)) };
        drop(resource);
        // The work is not known to have completed.
        assert_eq!(frees(&machine), before, "{name}");
    }
}

/// Whether two resources are equal, also after type erasure.
fn are_equal<R>(one: &R, other: &R) -> bool
where
    R: Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static,
{
    let (any, another): (AnyResource, AnyResource) = (AnyResource::of(one), AnyResource::of(other));
    assert_eq!(any == another, one == other);
    one == other
}

#[test]
fn equal_resources_free_each_others_memory() {
    let _machine = unified().devices(2).enter();
    assert!(are_equal(&ManagedMemoryResource::new(), &ManagedMemoryResource::default()));
    let combined = PinnedHostMemoryResource::with_flags(rmm_resources::PinnedFlags::WRITE_COMBINED);
    assert!(are_equal(&PinnedHostMemoryResource::new(), &combined));
    let system = || SystemMemoryResource::new().unwrap();
    assert!(are_equal(&system(), &system()));
    let sam = |headroom| SamHeadroomMemoryResource::new(headroom).unwrap();
    assert!(are_equal(&sam(1), &sam(1)));
    assert!(!are_equal(&sam(1), &sam(2)));
    assert_eq!(HostMemoryResource::new(), HostMemoryResource::default());

    let pinned = CudaAsyncPinnedMemoryResource::new().unwrap();
    assert!(are_equal(&pinned, &pinned.clone()));
    assert!(!are_equal(&pinned, &CudaAsyncPinnedMemoryResource::new().unwrap()));
    let managed = || CudaAsyncManagedMemoryResource::new().unwrap();
    assert!(are_equal(&managed(), &managed()), "there is one pool");
    let view = |number| {
        let device = rmm_core::Device::new(number).unwrap();
        CudaAsyncViewMemoryResource::of_default_pool(device).unwrap()
    };
    assert!(are_equal(&view(0), &view(0)));
    assert!(!are_equal(&view(0), &view(1)));
    let [first, second] = [0; 2].map(|_| CudaAsyncMemoryResource::new().unwrap());
    assert!(!are_equal(&first, &second));
    // SAFETY: the pool lives longer than the view.
    let over = unsafe { CudaAsyncViewMemoryResource::from_raw(first.as_raw()) }.unwrap();
    assert_eq!(over.pool(), first.pool());
    assert_ne!(over.pool(), second.pool());
}

#[test]
fn properties_are_in_the_type() {
    fn on_both<R: HasProperty<DeviceAccessible> + HasProperty<HostAccessible>>() {}
    fn on_devices<R: HasProperty<DeviceAccessible>>() {}
    fn on_host<R: HasProperty<HostAccessible>>() {}
    on_both::<ManagedMemoryResource>();
    on_both::<PinnedHostMemoryResource>();
    on_both::<SystemMemoryResource>();
    on_both::<SamHeadroomMemoryResource>();
    on_both::<CudaAsyncManagedMemoryResource>();
    on_both::<CudaAsyncPinnedMemoryResource>();
    on_devices::<CudaAsyncViewMemoryResource>();
    on_host::<HostMemoryResource>();
}
