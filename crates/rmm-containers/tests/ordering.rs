//! Containers on several streams, threads and devices: work of one container is ordered before the
//! next use of its memory.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{CudaStream, Device, DevicePtr, StreamFlags, StreamRef};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Machine, Schedule};

type Pool = PoolMemoryResource;

/// Under the lazy schedule, work runs only when it is waited for.
fn machine(devices: usize) -> Machine {
    Machine::builder().devices(devices).memory(64 << 20).schedule(Schedule::Lazy).build()
}

fn pool() -> Pool {
    Pool::builder(CudaMemoryResource::new()).build().expect("a pool")
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn first_byte(machine: &Machine, pointer: DevicePtr) -> u8 {
    let mut byte = [0];
    machine.read(pointer, &mut byte).expect("device memory");
    byte[0]
}

#[test]
fn a_buffer_on_the_per_thread_stream_moves_between_threads() {
    let machine = machine(1).enter();
    let pool = pool();
    let mut buffer = DeviceBuffer::uninit_in(1000, StreamRef::per_thread(), &pool).unwrap();
    let buffer = std::thread::scope(|scope| {
        let filled = scope.spawn(|| {
            let _entered = machine.enter();
            buffer.fill(7).unwrap();
            buffer
        });
        filled.join().unwrap()
    });
    let pointer = buffer.as_ptr();
    drop(buffer);
    let mut next = DeviceBuffer::uninit_in(1000, StreamRef::per_thread(), &pool).unwrap();
    assert_eq!(next.as_ptr(), pointer);
    next.fill(9).unwrap();
    CudaStream::per_thread().synchronize().unwrap();
    machine.run_all();
    assert_eq!(first_byte(&machine, pointer), 9, "the other thread's fill ran last");
}

#[test]
fn a_clone_by_another_thread_reads_before_the_source_is_freed() {
    let machine = machine(1).enter();
    let pool = pool();
    let mut buffer = DeviceBuffer::uninit_in(1000, StreamRef::per_thread(), &pool).unwrap();
    buffer.fill(7).unwrap();
    let other = stream();
    let copy = std::thread::scope(|scope| {
        let cloned = scope.spawn(|| {
            let _entered = machine.enter();
            buffer.try_clone_on(&other).unwrap()
        });
        cloned.join().unwrap()
    });
    let pointer = buffer.as_ptr();
    drop(buffer);
    let mut next = DeviceBuffer::uninit_in(1000, StreamRef::per_thread(), &pool).unwrap();
    assert_eq!(next.as_ptr(), pointer);
    next.fill(9).unwrap();
    CudaStream::per_thread().synchronize().unwrap();
    machine.run_all();
    assert_eq!(first_byte(&machine, copy.as_ptr()), 7, "the clone read what the next buffer wrote");
}

#[test]
fn a_clone_on_another_stream_reads_before_later_writes() {
    let machine = machine(1).enter();
    let pool = pool();
    let (own, other) = (stream(), stream());
    let mut buffer = DeviceBuffer::uninit_in(1000, &own, &pool).unwrap();
    buffer.fill(7).unwrap();
    let copy = buffer.try_clone_on(&other).unwrap();
    buffer.fill(9).unwrap();
    own.synchronize().unwrap();
    machine.run_all();
    assert_eq!(first_byte(&machine, copy.as_ptr()), 7);
    assert_eq!(first_byte(&machine, buffer.as_ptr()), 9);
}

#[test]
fn set_stream_orders_streams_whichever_device_is_current() {
    let machine = machine(2).enter();
    let pool = pool();
    let other = stream();
    let mut buffer = DeviceBuffer::uninit_in(1000, StreamRef::legacy(), &pool).unwrap();
    buffer.fill(7).unwrap();
    {
        let _second = Device::new(1).unwrap().make_current().unwrap();
        buffer.set_stream(&other).unwrap();
    }
    buffer.fill(9).unwrap();
    other.synchronize().unwrap();
    machine.run_all();
    assert_eq!(first_byte(&machine, buffer.as_ptr()), 9, "the fill on the former stream ran last");
}

#[test]
fn the_last_handle_of_a_pool_may_drop_on_another_device() {
    let machine = machine(2).enter();
    let pool =
        PoolMemoryResource::builder(CudaAsyncMemoryResource::new().unwrap()).build().unwrap();
    let stream = stream();
    let mut buffer = DeviceBuffer::uninit_in(1000, &stream, &pool).unwrap();
    drop(pool);
    buffer.fill(3).unwrap();
    {
        let _second = Device::new(1).unwrap().make_current().unwrap();
        drop(buffer);
    }
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn growing_keeps_the_contents_and_frees_after_the_copy() {
    let _machine = machine(1).enter();
    let pool = pool();
    let stream = stream();
    let mut buffer = DeviceBuffer::from_slice_in(b"contents", &stream, &pool).unwrap();
    let before = buffer.as_ptr();
    buffer.reserve(4000).unwrap();
    assert_ne!(buffer.as_ptr(), before);
    // The next buffer reuses the old memory. Its fill is ordered after the copy.
    let mut next = DeviceBuffer::uninit_in(8, &stream, &pool).unwrap();
    assert_eq!(next.as_ptr(), before);
    next.fill(0).unwrap();
    assert_eq!(buffer.to_vec_on(&stream).unwrap(), b"contents");
    buffer.resize(3).unwrap();
    buffer.shrink_to_fit().unwrap();
    assert_eq!((buffer.len(), buffer.capacity()), (3, 3));
    assert_eq!(buffer.to_vec_on(&stream).unwrap(), b"con");
}

#[test]
fn elements_are_aligned_as_their_type_asks() {
    #[derive(Clone, Copy)]
    #[repr(C, align(1024))]
    struct Page([u8; 1024]);
    // SAFETY: bytes without padding.
    unsafe impl bytemuck::Zeroable for Page {}
    // SAFETY: as above; every bit pattern is a value.
    unsafe impl bytemuck::Pod for Page {}

    let _machine = machine(1).enter();
    let (stream, pool) = (stream(), pool());
    let _before = DeviceBuffer::uninit_in(1, &stream, &pool).unwrap();
    let pages = DeviceUVector::from_slice_in(&[Page([7; 1024])], &stream, &pool).unwrap();
    assert_eq!(pages.as_ptr().0 % 1024, 0);
    assert_eq!(pages.to_vec_on(&stream).unwrap()[0].0, [7; 1024]);
}
