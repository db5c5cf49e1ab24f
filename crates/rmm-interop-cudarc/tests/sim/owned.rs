//! Slices of cudarc's in the memory of containers.

use cudarc::driver::{DevicePtr, DeviceSlice};
use cudarc_0_19 as cudarc;
use rmm_containers::DeviceUVector;
use rmm_interop_cudarc::OwnedSlice;

use crate::common::*;

#[test]
fn a_slice_is_used_on_two_streams_and_freed_to_its_resource() {
    check(|_, context| {
        let (first, second, pool) = (stream(context), stream(context), pool());
        let vector = DeviceUVector::<f32>::uninit_in(1000, &first, &pool).unwrap();
        // SAFETY: it is used on one stream beside its own.
        let mut slice = unsafe { OwnedSlice::new(vector, &first) }.unwrap();
        first.memcpy_htod(&[2.0; 1000], &mut slice).unwrap();
        assert_eq!(second.clone_dtoh(&*slice).unwrap(), [2.0; 1000]);
        second.memset_zeros(&mut slice.view_mut()).unwrap();
        drop(slice); // `first` waits for `second`
        let again = DeviceUVector::<f32>::zeroed_in(1000, &first, &pool).unwrap();
        assert_eq!(again.to_vec().unwrap(), [0.0; 1000]);
    });
}

#[test]
fn its_first_use_may_be_on_another_stream() {
    check(|_, context| {
        let (first, second) = (stream(context), stream(context));
        let vector = DeviceUVector::<f32>::uninit_in(1000, &first, &driver_pool()).unwrap();
        // SAFETY: it is used on one stream beside its own.
        let mut slice = unsafe { OwnedSlice::new(vector, &first) }.unwrap();
        second.memset_zeros(&mut slice).unwrap();
        drop(slice);
    });
}

#[test]
fn a_vector_that_comes_back_waits_for_the_slices_uses() {
    check(|_, context| {
        let (first, second) = (stream(context), stream(context));
        let vector = DeviceUVector::<f32>::uninit_in(1000, &first, &driver_pool()).unwrap();
        // SAFETY: it is used on one stream beside its own.
        let mut slice = unsafe { OwnedSlice::new(vector, &first) }.unwrap();
        second.memset_zeros(&mut slice).unwrap();
        let vector = slice.into_vector(); // `first` waits for `second`
        assert_eq!(vector.to_vec().unwrap(), [0.0; 1000]);
    });
}

#[test]
fn the_vector_moves_to_the_slices_stream_and_comes_back() {
    check(|_, context| {
        let (first, second) = (stream(context), stream(context));
        let vector = DeviceUVector::from_slice_in(&[7_u32; 10], &first, &driver_pool()).unwrap();
        let address = vector.as_ptr().0;
        // SAFETY: it is used on one stream.
        let slice = unsafe { OwnedSlice::new(vector, &second) }.unwrap();
        assert_eq!((slice.len(), slice.device_ptr(&second).0), (10, address));
        let vector = slice.into_vector();
        assert_eq!(vector.stream(), second.ours());
        assert_eq!(vector.to_vec().unwrap(), [7; 10]);
    });
}
