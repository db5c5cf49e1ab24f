//! Several streams: the waits that are needed happen, and no others.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use rmm_containers::{DeviceUVector, ManagedVec, PinnedVec};
use rmm_core::sys::CuDeviceAttribute;
use rmm_core::{
    CudaStream, Device, PrefetchTarget, RetiringStream, StreamFlags, StreamRef, StreamWatcher,
};
use rmm_resources::{CudaAsyncMemoryResource, SystemMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule};

fn lazy() -> Machine {
    Machine::builder().memory(1 << 30).schedule(Schedule::Lazy).build()
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn vector(len: usize, stream: &CudaStream) -> DeviceUVector<u32> {
    let resource = CudaAsyncMemoryResource::new().expect("a resource");
    DeviceUVector::uninit_in(len, stream, &resource).expect("there is memory")
}

fn calls(machine: &Machine, part: &str) -> u64 {
    let counts = machine.call_counts();
    counts.iter().filter(|(name, _)| name.contains(part)).map(|(_, count)| count).sum()
}

#[test]
fn one_stream_costs_no_event() {
    let machine = lazy().enter();
    for stream in [stream(), CudaStream::legacy(), CudaStream::per_thread()] {
        let mut vector = vector(100, &stream);
        vector.fill(1).unwrap();
        vector.set_element_async(3, 7).unwrap();
        vector.as_slice_mut().slice(10..20).unwrap().fill_on(2, &stream).unwrap();
        drop(vector.use_on_mut(&stream).unwrap());
        vector.resize(1000).unwrap();
        vector.shrink_to_fit().unwrap();
        vector.set_stream(&stream).unwrap();
        let other = vector.try_clone_on(&stream).unwrap();
        assert_eq!(other.element_on(3, &stream).unwrap(), 7);
    }
    assert_eq!((calls(&machine, "Event"), calls(&machine, "cuCtxSynchronize")), (0, 0));
    assert_eq!(calls(&machine, "IsCapturing"), 0, "the capture state is not queried");
}

#[test]
fn reused_staging_memory_creates_one_event() {
    let machine = lazy().enter();
    let stream = stream();
    let mut vector = vector(1000, &stream);
    let mut staging = PinnedVec::from_slice(&[0u32; 1000]).expect("a vector");
    for round in 0..10 {
        staging.as_mut_slice().expect("the former copy is complete").fill(round);
        vector.copy_from(staging.device_slice()).expect("a copy");
    }
    assert_eq!(calls(&machine, "cuEventCreate"), 1);
    assert_eq!(vector.to_vec_on(&stream).expect("a copy"), [9; 1000]);
    machine.assert_no_violations();
}

#[test]
fn two_halves_do_not_wait_for_each_other() {
    let machine = lazy().enter();
    let (own, first, second) = (stream(), stream(), stream());
    let mut vector = vector(100, &own);
    let (mut left, mut right) = vector.as_slice_mut().split_at(40).unwrap();
    left.fill_on(1, &first).unwrap();
    right.fill_on(2, &second).unwrap();
    second.synchronize().unwrap();
    assert!(!first.is_idle().unwrap(), "the second has not waited for the first");
    let elements = vector.to_vec_on(&own).unwrap();
    assert_eq!((&elements[..40], &elements[40..]), (&[1; 40][..], &[2; 60][..]));
    machine.assert_no_violations();
}

#[test]
fn readers_do_not_wait_for_each_other() {
    let machine = lazy().enter();
    let (own, first, second) = (stream(), stream(), stream());
    let mut source = vector(100, &own);
    source.fill(1).unwrap();
    let slow = Kernel::new("slow", |_| ());
    machine.launch(first.as_raw(), slow).unwrap();
    let (mut one, mut two) = (vector(100, &first), vector(100, &second));
    one.copy_from(source.as_slice()).unwrap();
    two.copy_from(source.as_slice()).unwrap();
    second.synchronize().unwrap();
    assert!(!first.is_idle().unwrap(), "the second has not waited for the first");
    source.fill(2).unwrap();
    assert_eq!(one.to_vec_on(&first).unwrap(), [1; 100]);
    machine.assert_no_violations();
}

#[test]
fn a_wait_for_a_copy_does_not_cover_later_work() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let mut source = vector(100, &own);
    source.fill(1).unwrap();
    let copied = source.try_clone_on(&other).unwrap();
    machine.launch(other.as_raw(), Kernel::new("endless", |_| ())).unwrap();
    source.fill(2).unwrap();
    drop(source);
    own.synchronize().unwrap();
    assert!(!other.is_idle().unwrap(), "the source did not wait for the kernel");
    assert_eq!(copied.to_vec_on(&other).unwrap(), [1; 100]);
}

#[test]
fn the_owning_stream_waits_for_a_clone_on_another() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let source = DeviceUVector::from_slice(&[1u32; 100], &own).unwrap();
        let cloned = source.try_clone_on(&other).unwrap();
        // Work that the program enqueues on the own stream with the plain address.
        let pointer = source.as_ptr();
        let kernel = Kernel::new("write", move |memory| memory.write(pointer, &[0; 400]).unwrap());
        machine.launch(own.as_raw(), kernel.writes(pointer, 400)).unwrap();
        assert_eq!(cloned.to_vec_on(&other).unwrap(), [1; 100]);
    });
}

#[test]
fn a_default_stream_is_that_of_the_containers_device() {
    let machine = Machine::builder().devices(2).memory(1 << 30).schedule(Schedule::Lazy).enter();
    for default in [StreamRef::legacy(), StreamRef::per_thread()] {
        let resource = CudaAsyncMemoryResource::new().unwrap();
        let mut first = DeviceUVector::<u32>::uninit_in(100, default, &resource).unwrap();
        let _second_is_current = Device::new(1).unwrap().make_current().unwrap();
        let resource = CudaAsyncMemoryResource::new().unwrap();
        let mut second = DeviceUVector::<u32>::uninit_in(100, default, &resource).unwrap();
        first.fill(1).unwrap();
        second.fill(2).unwrap();
        assert_eq!(first.element_on(3, default).unwrap(), 1);
        // A copy between devices: each vector is ordered with its own default stream.
        second.as_slice_mut().copy_from_on(first.as_slice(), default).unwrap();
        first.fill(3).unwrap();
        assert_eq!(second.to_vec_on(default).unwrap(), [1; 100]);
        first.set_stream(default).unwrap();
        drop(first);
    }
    machine.run_all();
    machine.assert_no_violations();
}

/// Work that the program enqueues on the container's stream is ordered after that of the container.
#[test]
fn a_container_works_on_the_default_stream_of_its_own_device() {
    type Work<'a> = &'a dyn Fn(&mut DeviceUVector<u32>);
    let machine = Machine::builder().devices(2).memory(1 << 30).schedule(Schedule::Lazy).enter();
    let own = CudaStream::legacy();
    let mut vector = vector(100, &own);
    let source = [7u32; 100];
    let source: &'static [u32] = Box::leak(Box::new(source));
    let works: [Work<'_>; 3] = [
        &|vector| vector.fill(0).unwrap(),
        &|vector| vector.fill(0x0102_0304).unwrap(),
        &|vector| vector.as_slice_mut().copy_from_static_on(source, &own).unwrap(),
    ];
    for work in works {
        {
            let _second = Device::new(1).unwrap().make_current().unwrap();
            work(&mut vector);
            assert_eq!(
                Device::current().unwrap().ordinal(),
                1,
                "the call restores the current device"
            );
        }
        let read = Kernel::new("read", |_| ()).reads(vector.as_ptr(), 400);
        machine.launch(own.as_raw(), read).unwrap();
        machine.run_all();
        machine.assert_no_violations();
    }
}

#[test]
fn a_leaked_use_is_waited_for() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let mut vector = vector(100, &own);
        let leaked = ManuallyDrop::new(vector.use_on_mut(&other).unwrap());
        let bytes = 5u32.to_ne_bytes().repeat(100);
        let pointer = leaked.as_ptr();
        let kernel = Kernel::new("write", move |memory| memory.write(pointer, &bytes).unwrap());
        machine.launch(other.as_raw(), kernel.writes(pointer, 400)).unwrap();
        assert_eq!(vector.to_vec_on(&own).unwrap(), [5; 100]);
        let leaked = ManuallyDrop::new(vector.use_on(&other).unwrap());
        let kernel = Kernel::new("read", |_| ()).reads(leaked.as_ptr(), leaked.bytes());
        machine.launch(other.as_raw(), kernel).unwrap();
        drop(vector);
    });
}

#[test]
fn the_default_stream_of_a_thread_that_has_ended_is_waited_for() {
    let machine = lazy().enter();
    let own = stream();
    let mut vector = vector(100, &own);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _entered = machine.enter();
            vector.as_slice_mut().fill_on(4, StreamRef::per_thread()).unwrap();
        });
        worker.join().unwrap();
    });
    assert_eq!(vector.to_vec_on(&own).unwrap(), [4; 100]);
    drop(vector);
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(calls(&machine, "cuCtxSynchronize"), 0);
}

#[test]
fn threads_write_halves_and_share_what_they_read() {
    rmm_sim::check(|machine| {
        let (own, streams) = (stream(), [stream(), stream()]);
        let source = DeviceUVector::from_slice(&[3u32; 100], &own).unwrap();
        let mut target = vector(100, &own);
        let (left, right) = target.as_slice_mut().split_at(50).unwrap();
        std::thread::scope(|scope| {
            for (mut half, stream) in [left, right].into_iter().zip(&streams) {
                let source = source.as_slice();
                scope.spawn(move || {
                    let _entered = machine.enter();
                    for _ in 0..5 {
                        let part = source.slice(25..75).unwrap();
                        half.copy_from_on(part, stream).unwrap();
                    }
                });
            }
        });
        assert_eq!(target.to_vec_on(&own).unwrap(), [3; 100]);
    });
}

#[test]
fn one_stream_is_shared_by_threads_that_read() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let mut source = DeviceUVector::from_slice(&[3u32; 100], &own).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _entered = machine.enter();
                    for _ in 0..5 {
                        let cloned = source.try_clone_on(&other).unwrap();
                        assert_eq!(cloned.to_vec_on(&other).unwrap(), [3; 100]);
                    }
                });
            }
        });
        source.fill(4).unwrap();
    });
}

#[test]
fn a_host_vector_waits_for_its_copies_only() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let mut vector = vector(4, &own);
    let mut pinned = PinnedVec::from_slice(&[1u32, 2, 3, 4]).unwrap();
    vector.copy_from(pinned.device_slice()).unwrap();
    machine.launch(own.as_raw(), Kernel::new("endless", |_| ())).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    assert!(!own.is_idle().unwrap(), "reading beside a copy that reads does not wait");
    pinned.as_mut_slice().unwrap().fill(0);
    assert!(!own.is_idle().unwrap(), "the wait covers the copy and not the kernel");
    pinned.copy_from_device(vector.as_slice(), &other).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    machine.assert_no_violations();
}

#[test]
fn pinned_memory_is_handed_from_stream_to_stream() {
    rmm_sim::check(|machine| {
        let (a, b) = (stream(), stream());
        let mut staging = PinnedVec::<u32>::zeroed(100).unwrap();
        let source = DeviceUVector::from_slice(&[9; 100], &a).unwrap();
        let mut target = vector(100, &b);
        staging.copy_from_device(source.as_slice(), &a).unwrap();
        target.copy_from(staging.device_slice()).unwrap();
        staging.device_slice_mut().fill_on(1, &a).unwrap();
        assert_eq!(target.to_vec_on(&b).unwrap(), [9; 100]);
        let pointer = staging.device_slice().as_ptr();
        assert_eq!(staging.as_slice().unwrap(), [1; 100]);
        machine.host_reads(pointer, 400).unwrap();
    });
}

#[test]
fn managed_memory_is_written_by_kernels_and_read_by_the_host() {
    rmm_sim::check(|machine| {
        let stream = stream();
        let mut managed = ManagedVec::from_slice(&[1u32, 2, 3]).unwrap();
        {
            let used = managed.device_slice_mut().into_use_on(&stream).unwrap();
            let pointer = used.as_ptr();
            let kernel = Kernel::new("write", move |memory| {
                memory.write(pointer, &[0; 12]).unwrap();
            });
            // SAFETY: the vector is borrowed, and waits for the stream before the host accesses it.
            unsafe { machine.launch_on_shared(stream.as_raw(), kernel.writes(pointer, 12)) }
                .unwrap();
        }
        assert_eq!(managed.as_slice().unwrap(), [0; 3]);
        machine.host_reads(managed.device_slice().as_ptr(), 12).unwrap();
    });
}

#[test]
fn pageable_memory_is_not_read_before_its_stream_reaches_it() {
    let _machine = Machine::builder()
        .attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1)
        .schedule(Schedule::Lazy)
        .enter();
    let stream = stream();
    let pageable = SystemMemoryResource::new().unwrap();
    let mut source = DeviceUVector::from_slice_in(&[1u32; 100], &stream, &pageable).unwrap();
    source.fill(2).unwrap();
    let mut target = vector(100, &stream);
    target.copy_from(source.as_slice()).unwrap(); // the call itself may read pageable memory
    assert_eq!(target.to_vec_on(&stream).unwrap(), [2; 100]);
}

#[test]
fn managed_memory_is_prefetched_and_other_memory_is_not() {
    rmm_sim::check(|machine| {
        let stream = stream();
        let mut managed = ManagedVec::from_slice(&[1u32, 2, 3]).unwrap();
        let here = PrefetchTarget::Device(Device::current().unwrap());
        managed.device_slice().prefetch(here, &stream).unwrap();
        assert_eq!(calls(machine, "cuMemPrefetch"), 1);
        managed.as_mut_slice().unwrap()[0] = 5;
        managed.device_slice().slice(3..).unwrap().prefetch(here, &stream).unwrap();
        assert_eq!(calls(machine, "cuMemPrefetch"), 1, "an empty range is not prefetched");
        let vector = DeviceUVector::from_slice(&[1u32, 2, 3], &stream).unwrap();
        vector.as_slice().prefetch(PrefetchTarget::Host, &stream).unwrap();
        assert_eq!(vector.to_vec_on(&stream).unwrap(), [1, 2, 3]);
    });
}

#[test]
fn managed_memory_without_concurrent_access_is_refused() {
    let attribute = CuDeviceAttribute::CONCURRENT_MANAGED_ACCESS;
    let _machine = Machine::builder().attribute(attribute, 0).enter();
    assert!(ManagedVec::<u32>::zeroed(1).unwrap_err().is_unsupported());
    assert!(PinnedVec::<u32>::zeroed(1).is_ok());
}

fn fills_every_part<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(stream: &CudaStream, value: T) {
    for (start, end) in [(0, 0), (0, 1), (1, 2), (1, 8), (3, 21), (0, 21)] {
        let mut expected = vec![T::zeroed(); 21];
        let mut vector = DeviceUVector::from_slice(&expected, stream).expect("no call fails");
        let mut part = vector.as_slice_mut().slice(start..end).expect("no call fails");
        part.fill_on(value, stream).expect("no call fails");
        expected[start..end].fill(value);
        assert_eq!(vector.to_vec_on(stream).expect("no call fails"), expected);
    }
}

#[test]
fn fills_repeat_values_of_every_size_at_every_offset() {
    let _machine = lazy().enter();
    let stream = stream();
    fills_every_part(&stream, 7u8);
    fills_every_part(&stream, 0x0102u16);
    fills_every_part(&stream, 0x0102_0304u32);
    fills_every_part(&stream, 0x0102_0304_0506_0708u64);
    fills_every_part(&stream, [1u8, 2, 3]);
    fills_every_part(&stream, [1u8, 2, 3, 4]);
    fills_every_part(&stream, [1u16, 2, 3]);
    fills_every_part(&stream, [1u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    fills_every_part(&stream, [1.5f64, -0.0, 3.5]);
}

#[cfg(feature = "half")]
#[test]
fn half_floats_are_elements() {
    use rmm_containers::half::f16;

    let _machine = lazy().enter();
    let stream = stream();
    let value = f16::from_f32(1.5);
    let mut vector = DeviceUVector::from_slice(&[f16::ZERO; 7], &stream).unwrap();
    vector.fill(value).unwrap();
    assert_eq!(vector.to_vec_on(&stream).unwrap(), [value; 7]);
}

/// Reads a vector when a stream that wrote it is destroyed.
struct Reader {
    vector: PinnedVec<u32>,
    seen: Mutex<Vec<u32>>,
}

impl StreamWatcher for Reader {
    fn stream_retires(&self, _: &RetiringStream<'_>) {
        let elements = self.vector.as_slice().expect("no work writes it").to_vec();
        *self.seen.lock().expect("no thread panics with it") = elements;
    }
}

#[test]
fn a_stream_watcher_may_use_the_memory_that_kept_the_stream() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let mut source = vector(4, &own);
    source.fill(7).unwrap();
    let mut pinned = PinnedVec::from_slice(&[0; 4]).unwrap();
    pinned.copy_from_device(source.as_slice(), &other).unwrap();
    drop(source);
    let reader = Arc::new(Reader { vector: pinned, seen: Mutex::default() });
    let watcher: Arc<dyn StreamWatcher> = reader.clone();
    other.watch(Arc::downgrade(&watcher));
    drop(other);
    assert_eq!(reader.vector.as_slice().unwrap(), [7; 4]);
    assert_eq!(*reader.seen.lock().unwrap(), [7; 4], "it was called with no lock held");
    machine.assert_no_violations();
}
