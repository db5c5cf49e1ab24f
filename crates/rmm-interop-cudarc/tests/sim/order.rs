//! The order that lending keeps, and what it cannot.

use std::mem::ManuallyDrop;

use cudarc::driver::DevicePtrMut;
use cudarc_0_19 as cudarc;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::CudaStream;
use rmm_interop_cudarc::{Lend, LendHost, LendMut};
use rmm_sim::Fault;
use rmm_sys::CuResult;

use crate::common::*;

#[test]
fn nothing_depends_on_a_guard() {
    check(|_, context| {
        let other = stream(context);
        let home = CudaStream::new().unwrap();
        let mut vector =
            DeviceUVector::from_slice_in(&[1_u8; 1000], &home, &driver_pool()).unwrap();
        let mut lent = vector.lend_mut(&other).unwrap();
        let (pointer, guard) = lent.device_ptr_mut(&other);
        // SAFETY: the address is the vector's, on the stream that it was lent to.
        unsafe { cudarc::driver::result::memset_d8_async(pointer, 0, 1000, other.cu_stream()) }
            .unwrap();
        let _leaked = ManuallyDrop::new(guard);
        drop(vector); // freed on `home`, which waits for `other`
        other.synchronize().unwrap();
    });
}

#[test]
fn two_streams_read_and_the_container_is_dropped() {
    check(|_, context| {
        let streams = [stream(context), stream(context), stream(context)];
        let [first, others @ ..] = &streams;
        let resource = driver_pool();
        let vector = DeviceUVector::from_slice_in(&[1.0_f32; 1000], first, &resource).unwrap();
        let mut copies: Vec<_> = others
            .iter()
            .map(|other| DeviceUVector::<f32>::uninit_in(1000, other, &resource).unwrap())
            .collect();
        for (other, copy) in others.iter().zip(&mut copies) {
            let (from, mut to) = (vector.lend(other).unwrap(), copy.lend_mut(other).unwrap());
            other.memcpy_dtod(&from, &mut to).unwrap();
        }
        drop(vector);
        for copy in copies {
            assert_eq!(copy.to_vec().unwrap(), [1.0; 1000]);
        }
    });
}

#[test]
fn the_first_use_may_be_on_a_third_stream() {
    check(|_, context| {
        let (first, second) = (stream(context), stream(context));
        let mut vector = DeviceUVector::<u32>::uninit_in(1000, &first, &driver_pool()).unwrap();
        second.memset_zeros(&mut vector.lend_mut(&second).unwrap()).unwrap();
        assert_eq!(vector.to_vec().unwrap(), [0; 1000]);
    });
}

#[test]
fn use_on_another_stream_than_lent_to_waits_once() {
    check(|machine, context| {
        let (first, second) = (stream(context), context.new_stream().unwrap());
        let home = CudaStream::new().unwrap();
        let mut vector =
            DeviceUVector::from_slice_in(&[1_u8; 1000], &home, &driver_pool()).unwrap();
        vector.fill(2).unwrap(); // queued, on `home`
        let before = machine.stalls().count;
        second.memset_zeros(&mut vector.lend_mut(&first).unwrap()).unwrap();
        assert_eq!(machine.stalls().count, before + 1, "the host waits once");
        assert_eq!(vector.to_vec().unwrap(), [0; 1000]);
    });
}

#[test]
fn reading_on_another_stream_than_lent_to_is_in_order() {
    check(|_, context| {
        let (first, second) = (stream(context), context.new_stream().unwrap());
        let home = CudaStream::new().unwrap();
        let mut vector =
            DeviceUVector::from_slice_in(&[1_u8; 1000], &home, &driver_pool()).unwrap();
        vector.fill(2).unwrap(); // queued, on `home`
        let copy = second.clone_dtoh(&vector.lend(&first).unwrap()).unwrap();
        drop(vector);
        assert_eq!(copy, [2; 1000]);
    });
}

#[test]
fn without_an_event_for_another_stream_the_host_waits_first() {
    check(|machine, context| {
        let (first, second) = (stream(context), context.new_stream().unwrap());
        let mut vector = DeviceUVector::<u8>::uninit_in(1000, &first, &driver_pool()).unwrap();
        let mut lent = vector.lend_mut(&first).unwrap();
        machine.fail(Fault::from_nth("cuEventCreate", 0, CuResult::OUT_OF_MEMORY));
        second.memset_zeros(&mut lent).unwrap();
        machine.clear_faults();
        assert_eq!(machine.failed_calls(), ["cuEventCreate"]);
        assert_eq!(vector.to_vec().unwrap(), [0; 1000]);
    });
}

#[test]
fn pinned_memory_on_another_stream_than_lent_to_is_in_order() {
    check(|_, context| {
        let (first, second) = (stream(context), context.new_stream().unwrap());
        let source = PinnedVec::from_slice(&[7_u32; 100]).unwrap();
        let slice = second.clone_htod(&source.lend(&first).unwrap()).unwrap();
        drop(source);
        let mut target = PinnedVec::from_slice(&[0_u32; 100]).unwrap();
        second.memcpy_dtoh(&slice, &mut target.lend_mut(&first).unwrap()).unwrap();
        assert_eq!(target.as_slice().unwrap(), [7; 100]);
    });
}

/// What is left to get wrong is unsafe in cudarc, and is found.
#[test]
fn an_address_that_is_taken_elsewhere_is_reported() {
    let report = report(|_, context| {
        let (first, second) = (stream(context), context.new_stream().unwrap());
        let home = CudaStream::new().unwrap();
        let mut vector =
            DeviceUVector::from_slice_in(&[1_u8; 1000], &home, &driver_pool()).unwrap();
        let mut lent = vector.lend_mut(&first).unwrap();
        let (pointer, guard) = lent.device_ptr_mut(&first);
        // SAFETY: the address is the vector's. The stream is not the one that it was lent to, which
        // is what this test is about; the software device keeps the bytes in bounds.
        unsafe { cudarc::driver::result::memset_d8_async(pointer, 0, 1000, second.cu_stream()) }
            .unwrap();
        drop(guard);
        drop(vector);
        second.synchronize().unwrap();
    });
    assert!(report.contains("use after free") || report.contains("freed while in use"), "{report}");
}
