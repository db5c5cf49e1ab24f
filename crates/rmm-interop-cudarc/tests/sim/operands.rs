//! Containers as operands of cudarc's copies and fills.

use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, ManagedVec, PinnedVec};
use rmm_core::CudaStream;
use rmm_interop_cudarc::{Lend, LendHost, LendMut};

use crate::common::*;

#[test]
fn each_copy_is_one_statement() {
    check(|_, context| {
        let (s, pool) = (stream(context), pool());
        let home = CudaStream::new().unwrap();
        let host: Vec<u32> = (0..1000).collect();
        let x = DeviceUVector::from_slice_in(&host, &home, &pool).unwrap();
        let mut y = DeviceUVector::<u32>::uninit_in(1000, &home, &pool).unwrap();
        s.memcpy_dtod(&x.lend(&s).unwrap(), &mut y.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(s.clone_dtoh(&y.lend(&s).unwrap()).unwrap(), host);
        s.memset_zeros(&mut y.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0; 1000]);
        s.memcpy_htod(&host, &mut y.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap(), host);
    });
}

#[test]
fn every_container_is_an_operand() {
    check(|_, context| {
        let (s, pool) = (stream(context), pool());
        let mut buffer = DeviceBuffer::uninit_in(8, &s, &pool).unwrap();
        s.memset_zeros(&mut buffer.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(s.clone_dtoh(&buffer.lend(&s).unwrap()).unwrap(), [0; 8]);
        let scalar = DeviceScalar::new_in(7_u32, &s, &pool).unwrap();
        assert_eq!(s.clone_dtoh(&scalar.lend(&s).unwrap()).unwrap(), [7]);
        let mut managed = ManagedVec::from_slice(&[1_u8; 8]).unwrap();
        s.memset_zeros(&mut managed.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(managed.as_slice().unwrap(), [0; 8]);
    });
}

#[test]
fn a_range_is_an_operand() {
    check(|_, context| {
        let (s, pool) = (stream(context), pool());
        let mut x = DeviceUVector::from_slice_in(&[1_u8, 2, 3, 4], &s, &pool).unwrap();
        let middle = x.as_slice().slice(1..3).unwrap();
        assert_eq!(s.clone_dtoh(&middle.lend(&s).unwrap()).unwrap(), [2, 3]);
        let mut end = x.as_slice_mut().slice(2..).unwrap();
        s.memset_zeros(&mut end.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1, 2, 0, 0]);
    });
}

#[test]
fn pinned_memory_is_copied_both_ways() {
    check(|_, context| {
        let s = stream(context);
        let source = PinnedVec::from_slice(&[7_u32; 100]).unwrap();
        let slice = s.clone_htod(&source.lend(&s).unwrap()).unwrap();
        drop(source); // waits for the copy
        let mut target = PinnedVec::from_slice(&[0_u32; 100]).unwrap();
        s.memcpy_dtoh(&slice, &mut target.lend_mut(&s).unwrap()).unwrap();
        assert_eq!(target.as_slice().unwrap(), [7; 100]); // waits too
    });
}

#[test]
fn an_empty_container_is_an_operand() {
    check(|_, context| {
        let s = stream(context);
        let empty = DeviceUVector::<u32>::uninit_in(0, &s, &pool()).unwrap();
        assert!(s.clone_dtoh(&empty.lend(&s).unwrap()).is_ok_and(|host| host.is_empty()));
        let host = PinnedVec::<u32>::from_slice(&[]).unwrap();
        let mut target = DeviceUVector::<u32>::uninit_in(4, &s, &pool()).unwrap();
        s.memcpy_htod(&host.lend(&s).unwrap(), &mut target.lend_mut(&s).unwrap()).unwrap();
    });
}
