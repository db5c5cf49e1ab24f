//! Bugs of RMM's containers, and misuses that they allow: each is fixed or refused here.

use std::alloc::Layout;

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, HostVec, PinnedVec};
use rmm_core::sys::CuResult;
use rmm_core::{
    CudaStream, DevicePtr, ErrorKind, HostDeviceAccessible, StreamFlags, StreamRef,
    SynchronousResource as _,
};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, PinnedHostMemoryResource,
    set_current_device_resource,
};
use rmm_sim::{Fault, Machine, Schedule};

type Pool = PoolMemoryResource;

fn lazy() -> Machine {
    Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).build()
}

fn pool() -> Pool {
    Pool::builder(CudaMemoryResource::new()).build().expect("a pool")
}

fn live(pool: &Pool) -> u64 {
    let statistics = pool.statistics();
    statistics.allocations - statistics.frees
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

#[test]
fn rmm_2450_a_copy_that_fails_leaks_nothing() {
    let machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    // SAFETY: a null pointer is refused before it is read.
    let refused = unsafe { DeviceBuffer::from_device_ptr_in(DevicePtr::NULL, 10, &stream, &pool) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let source = DeviceBuffer::uninit_in(10, &stream, &pool).unwrap();
    machine.fail(Fault::from_nth("cuMemcpyAsync", 1, CuResult::INVALID_VALUE));
    // SAFETY: the source has 10 bytes and is on the same stream.
    let failed = unsafe { DeviceBuffer::from_device_ptr_in(source.as_ptr(), 10, &stream, &pool) };
    assert_eq!(failed.unwrap_err().code(), Some(CuResult::INVALID_VALUE));
    assert!(source.try_clone_on(&stream).is_err());
    assert!(DeviceBuffer::from_slice_in(b"bytes", &stream, &pool).is_err());
    assert!(DeviceUVector::from_slice_in(&[1, 2], &stream, &pool).is_err());
    assert_eq!(live(&pool), 1, "the source");
    // SAFETY: nothing is read.
    let empty = unsafe { DeviceBuffer::from_device_ptr_in(DevicePtr::NULL, 0, &stream, &pool) };
    assert!(empty.unwrap().is_empty());
}

#[test]
fn rmm_2451_a_size_that_overflows_is_refused() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let huge = usize::MAX / 2;
    // The size in bytes would wrap to 8.
    let wraps = usize::MAX / 8 + 2;
    for len in [huge, wraps] {
        let error = DeviceUVector::<u64>::uninit_in(len, &stream, &pool).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(PinnedVec::<u64>::zeroed(len).unwrap_err().is_invalid_argument());
        let error = DeviceUVector::from_fn_in(|i| i as u64, len, &stream, &pool).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(PinnedVec::from_fn(|i| i as u64, len).unwrap_err().is_invalid_argument());
    }
    let mut vector = DeviceUVector::from_slice_in(&[1u64, 2], &stream, &pool).unwrap();
    assert!(vector.reserve(huge).unwrap_err().is_invalid_argument());
    assert!(vector.resize(huge).unwrap_err().is_invalid_argument());
    assert!(vector.resize(usize::MAX / 8).unwrap_err().is_invalid_argument());
    assert!(vector.resize(wraps).unwrap_err().is_invalid_argument());
    assert!(vector.reserve(wraps).unwrap_err().is_invalid_argument());
    assert_eq!((vector.len(), vector.capacity()), (2, 2));
    assert_eq!(vector.to_vec_on(&stream).unwrap(), [1, 2]);
    let mut bytes = DeviceBuffer::uninit_in(1, &stream, &pool).unwrap();
    assert!(bytes.resize(usize::MAX).unwrap_err().is_invalid_argument());
    assert!(bytes.as_slice().slice(..=usize::MAX).unwrap_err().is_out_of_range());
}

#[test]
fn rmm_2337_an_empty_buffer_is_aligned_and_grows() {
    let _machine = lazy().enter();
    let mut buffer = DeviceBuffer::empty().unwrap();
    assert_eq!((buffer.alignment(), buffer.len(), buffer.as_ptr()), (256, 0, DevicePtr::NULL));
    buffer.resize(100).unwrap();
    buffer.fill(3).unwrap();
    assert_eq!(buffer.to_vec_on(StreamRef::legacy()).unwrap(), [3; 100]);
    assert_eq!(buffer.as_ptr().0 % 256, 0);
}

#[test]
fn rmm_2302_values_keep_their_bits() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let quiet = f64::from_bits(0x7ff8_dead_beef_0001);
    let mut vector = DeviceUVector::from_slice_in(&[1.0; 3], &stream, &pool).unwrap();
    vector.set_element_async(0, -0.0).unwrap();
    vector.set_element(1, -0.0).unwrap();
    vector.set_element_async(2, quiet).unwrap();
    let bits: Vec<u64> = vector.to_vec_on(&stream).unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [(-0.0f64).to_bits(), (-0.0f64).to_bits(), quiet.to_bits()]);
    vector.fill(-0.0).unwrap();
    vector.set_element_to_zero_async(1).unwrap();
    let signs: Vec<bool> =
        vector.to_vec_on(&stream).unwrap().iter().map(|x| x.is_sign_negative()).collect();
    assert_eq!(signs, [true, false, true]);
    let scalar = DeviceScalar::new_in(-0.0f32, &stream, &pool).unwrap();
    assert!(scalar.value_on(&stream).unwrap().is_sign_negative());
}

#[test]
fn rmm_2243_slices_of_bytes_do_not_narrow() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let flags = [0u8, 1, 1, 0, 1];
    let mut vector = DeviceUVector::from_slice_in(&flags, &stream, &pool).unwrap();
    assert_eq!((vector.as_slice().len(), vector.as_slice_mut().len()), (5, 5));
    assert_eq!(vector.as_slice().slice(1..4).unwrap().to_vec_on(&stream).unwrap(), [1, 1, 0]);
}

#[test]
fn rmm_2526_a_stalled_stream_reads_its_source_before_it_is_gone() {
    let machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let mut vector = DeviceUVector::<u64>::uninit_in(4, &stream, &pool).unwrap();
    let source = PinnedVec::from_slice(&[1, 2, 3, 4]).unwrap();
    vector.copy_from(source.device_slice()).unwrap();
    assert!(!stream.is_idle().unwrap(), "the copy is only enqueued");
    drop(source); // waits
    assert_eq!(vector.to_vec_on(&stream).unwrap(), [1, 2, 3, 4]);
    machine.assert_no_violations();
}

#[test]
fn rmm_2527_scalars_are_made_of_temporaries() {
    let machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let wide = [0x0102_0304_0506_0708u64, 9, 10];
    let mut scalar = DeviceScalar::new_in(wide.map(|word| word + 1), &stream, &pool).unwrap();
    assert_eq!(scalar.value_on(&stream).unwrap(), [0x0102_0304_0506_0709u64, 10, 11]);
    scalar.set_value_async([1, 2, 3]).unwrap();
    assert_eq!(scalar.value_on(&stream).unwrap(), [1, 2, 3]);
    scalar.set_value_to_zero_async().unwrap();
    assert_eq!(scalar.value_on(&stream).unwrap(), [0; 3]);
    let counts = machine.call_counts();
    let uploads = counts.iter().filter(|(name, _)| name.contains("HtoD"));
    assert_eq!(uploads.count(), 0, "the device reads no host memory");
}

#[test]
fn rmm_2511_empty_copies_make_no_call_on_default_streams() {
    let machine = lazy().enter();
    let pool = pool();
    for stream in [StreamRef::legacy(), StreamRef::per_thread()] {
        let mut empty = DeviceUVector::<u32>::uninit_in(0, stream, &pool).unwrap();
        let mut some = DeviceUVector::from_slice_in(&[1, 2, 3], stream, &pool).unwrap();
        let calls = machine.calls();
        empty.copy_from_slice(&[]).unwrap();
        empty.copy_to_slice_on(&mut [], stream).unwrap();
        empty.fill(1).unwrap();
        some.as_slice_mut().slice(3..).unwrap().copy_from_on(empty.as_slice(), stream).unwrap();
        assert_eq!(machine.calls(), calls, "empty copies make no driver call");
        assert_eq!(empty.try_clone_on(stream).unwrap().len(), 0);
        assert_eq!(some.try_clone_on(stream).unwrap().to_vec_on(stream).unwrap(), [1, 2, 3]);
    }
}

#[test]
fn rmm_2477_a_clone_comes_from_the_named_resource() {
    let _machine = lazy().enter();
    let (stream, own, current) = (stream(), pool(), pool());
    set_current_device_resource(&current).unwrap();
    let buffer = DeviceBuffer::from_slice_in(b"bytes", &stream, &own).unwrap();
    let cloned = buffer.try_clone_on(&stream).unwrap();
    assert!(cloned.resource().is_equal(&own));
    assert_eq!((live(&own), live(&current)), (2, 0));
    let elsewhere = buffer.try_clone_in(&stream, &current).unwrap();
    assert!(elsewhere.resource().is_equal(&current));
    assert_eq!((live(&own), live(&current)), (2, 1));
    drop((buffer, cloned, elsewhere));
    assert_eq!((live(&own), live(&current)), (0, 0));
}

#[test]
fn rmm_1655_memory_is_freed_after_the_work_of_all_its_streams() {
    rmm_sim::check(|_| {
        let resource = CudaAsyncMemoryResource::new().unwrap();
        let (own, other, third) = (stream(), stream(), stream());
        let mut vector = DeviceUVector::<u32>::uninit_in(1000, &own, &resource).unwrap();
        vector.as_slice_mut().fill_on(1, &other).unwrap();
        drop(vector.use_on(&third).unwrap());
        drop(vector);
        let mut next = DeviceUVector::<u32>::uninit_in(1000, &own, &resource).unwrap();
        next.fill(2).unwrap();
    });
}

#[test]
fn moves_leave_no_moved_from_container() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let mut source = DeviceUVector::from_slice_in(&[1u16, 2, 3], &stream, &pool).unwrap();
    // What a move leaves behind in RMM is another valid container here.
    let empty = DeviceUVector::uninit_in(0, &stream, &pool).unwrap();
    let taken = std::mem::replace(&mut source, empty);
    source.resize(10).unwrap();
    source.fill(7).unwrap();
    assert!(source.resource().is_equal(&pool));
    let buffer = taken.into_buffer();
    assert_eq!((buffer.len(), live(&pool)), (6, 2));
    let buffer = DeviceUVector::<u32>::try_from_buffer(buffer).unwrap_err();
    let again = DeviceUVector::<u16>::try_from_buffer(buffer).unwrap();
    assert_eq!(again.to_vec_on(&stream).unwrap(), [1, 2, 3]);
}

#[test]
fn a_host_vector_refuses_sizes_that_overflow() {
    let _machine = lazy().enter();
    let mut pinned = PinnedVec::from_slice(&[1u64, 2]).unwrap();
    assert!(pinned.resize(usize::MAX / 4, 0).unwrap_err().is_invalid_argument());
    assert!(pinned.resize(usize::MAX, 0).unwrap_err().is_invalid_argument());
    assert_eq!(pinned.as_slice().unwrap(), [1, 2]);
    assert!(PinnedVec::<u32>::zeroed(1 << 60).unwrap_err().is_out_of_memory());
}

#[test]
fn a_failed_wait_is_an_error_and_the_copy_is_complete() {
    let machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let mut vector = DeviceUVector::from_slice_in(&[1u32, 2], &stream, &pool).unwrap();
    machine.fail(Fault::nth("cuStreamSynchronize", 1, CuResult::LAUNCH_FAILED));
    let error = vector.set_element(0, 5).unwrap_err();
    assert_eq!(error.code(), Some(CuResult::LAUNCH_FAILED));
    assert!(stream.is_idle().unwrap(), "the borrowed value has been read");
    machine.clear_faults();
    machine.fail(Fault::nth("cuStreamSynchronize", 1, CuResult::LAUNCH_FAILED));
    assert_eq!(vector.element_on(0, &stream).unwrap_err().kind(), error.kind());
}

#[test]
fn an_alignment_that_the_resource_does_not_support_is_refused() {
    let _machine = lazy().enter();
    let stream = stream();
    let plain = CudaMemoryResource::new();
    let refused = DeviceBuffer::uninit_aligned_in(10, 512, &stream, &plain).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let mut aligned = DeviceBuffer::uninit_aligned_in(10, 4096, &stream, &pool()).unwrap();
    for bytes in [100, 10_000] {
        aligned.resize(bytes).unwrap();
        assert_eq!((aligned.alignment(), aligned.as_ptr().0 % 4096), (4096, 0));
    }
    let cloned = aligned.try_clone_on(&stream).unwrap();
    assert_eq!((cloned.alignment(), cloned.as_ptr().0 % 4096), (4096, 0));
}

#[test]
fn elements_out_of_range_are_errors() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let mut vector = DeviceUVector::from_slice_in(&[1, 2, 3], &stream, &pool).unwrap();
    assert_eq!(vector.front_element_on(&stream).unwrap(), 1);
    assert_eq!(vector.back_element_on(&stream).unwrap(), 3);
    assert_eq!(vector.element_ptr(2).unwrap().0, vector.as_ptr().0 + 8);
    for wrong in [3, usize::MAX] {
        assert!(vector.element_on(wrong, &stream).unwrap_err().is_out_of_range());
        assert!(vector.element_ptr(wrong).unwrap_err().is_out_of_range());
        assert!(vector.set_element(wrong, 0).unwrap_err().is_out_of_range());
        assert!(vector.set_element_async(wrong, 0).unwrap_err().is_out_of_range());
        assert!(vector.set_element_to_zero_async(wrong).unwrap_err().is_out_of_range());
    }
    let empty = DeviceUVector::<u8>::uninit_in(0, &stream, &pool).unwrap();
    assert!(empty.front_element_on(&stream).unwrap_err().is_out_of_range());
    assert!(empty.back_element_on(&stream).unwrap_err().is_out_of_range());
    assert!(vector.copy_from_slice(&[0; 4]).unwrap_err().is_out_of_range());
    assert!(vector.copy_to_slice_on(&mut [0; 4], &stream).unwrap_err().is_out_of_range());
    assert!(vector.as_slice().split_at(4).unwrap_err().is_out_of_range());
    let mut slice = vector.as_slice_mut();
    assert!(slice.copy_from_slice_on(&[0; 2], &stream).unwrap_err().is_out_of_range());
    assert!(vector.as_slice().cast::<u64>().unwrap_err().is_invalid_argument());
    assert_eq!(vector.as_slice().cast::<u8>().unwrap().len(), 12);
    let odd = vector.as_slice().cast::<u8>().unwrap().slice(1..5).unwrap();
    assert!(odd.cast::<u32>().unwrap_err().is_invalid_argument(), "it is not aligned");
}

#[test]
fn debug_output_does_not_show_contents() {
    let _machine = lazy().enter();
    let (stream, pool) = (stream(), pool());
    let mut vector = DeviceUVector::from_slice_in(&[77_777_777u32; 2], &stream, &pool).unwrap();
    let pinned = PinnedVec::from_slice(&[77_777_777u32; 2]).unwrap();
    let scalar = DeviceScalar::new_in(77_777_777u32, &stream, &pool).unwrap();
    vector.as_slice_mut().copy_from_on(pinned.device_slice(), &stream).unwrap();
    let shown = [
        format!("{vector:?} {scalar:?} {pinned:?}"),
        format!("{:?}", vector.as_slice()),
        format!("{:?}", vector.as_slice_mut()),
        format!("{:?}", vector.use_on(&stream).unwrap()),
    ];
    for text in shown {
        assert!(text.contains("len: ") && text.contains("u32"), "{text}");
        assert!(!text.contains("77777777"), "{text}");
    }
}

#[test]
fn a_pool_of_pinned_memory_serves_host_vectors() {
    let machine = lazy().enter();
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    )
    .build()
    .unwrap();
    let stream = stream();
    {
        let mut staging = HostVec::from_slice_in(&[1.5f32; 100], pool.clone()).unwrap();
        let vector = DeviceUVector::from_slice(&[0.5f32; 100], &stream).unwrap();
        staging.copy_from_device(vector.as_slice(), &stream).unwrap();
        staging.extend_from_slice(&[2.5]).unwrap();
        assert_eq!(staging.len(), 101);
        assert_eq!(staging.as_slice().unwrap()[99..], [0.5, 2.5]);
        staging.resize(2, 0.0).unwrap();
        assert_eq!(staging.as_slice().unwrap(), [0.5; 2]);
    }
    let statistics = pool.statistics();
    assert_eq!(statistics.allocations, statistics.frees);
    let layout = Layout::new::<u64>();
    let pointer = pool.allocate_sync(layout).unwrap();
    // SAFETY: allocated just now with this layout.
    unsafe { pool.deallocate_sync(pointer, layout) };
    machine.assert_no_violations();
}
