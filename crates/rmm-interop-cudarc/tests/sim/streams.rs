//! Streams that both libraries know.

use std::collections::HashSet;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc_0_19 as cudarc;
use rmm_containers::DeviceUVector;
use rmm_core::{Context, CudaStream, StreamKind};
use rmm_interop_cudarc::{Lend, LendMut, Stream};
use rmm_sim::Machine;

use crate::common::*;

#[test]
fn a_container_outlives_every_handle_of_its_stream() {
    check(|_, context| {
        let (vector, theirs) = {
            let stream = stream(context);
            let vector = DeviceUVector::from_slice_in(&[1_u8; 1000], &stream, &driver_pool());
            (vector.unwrap(), Arc::downgrade(stream.theirs()))
        };
        assert!(theirs.upgrade().is_some(), "the container keeps the stream");
        assert_eq!(vector.to_vec().unwrap(), [1; 1000]);
    });
}

#[test]
fn an_arc_that_is_adopted_twice_gives_equal_streams() {
    check(|_, context| {
        let theirs = context.new_stream().unwrap();
        // SAFETY: the stream is not captured.
        let adopt = || unsafe { Stream::adopt(&theirs) }.unwrap();
        let (first, second) = (adopt(), adopt());
        assert_eq!(first.ours(), second.ours());
        let other = stream(context);
        assert_ne!(first.ours(), other.ours());
        drop((first, second));
        assert_eq!(Arc::strong_count(&theirs), 1, "nothing keeps the stream");
    });
}

#[test]
fn a_new_stream_at_a_reused_handle_is_another_stream() {
    load();
    let _machine = rmm_sim::enter();
    let context = CudaContext::new(0).unwrap();
    let (mut ids, mut handles) = (HashSet::new(), HashSet::new());
    for _ in 0..1000 {
        let stream = stream(&context);
        assert!(ids.insert(stream.ours().id()), "an identity is given once");
        handles.insert(stream.ours().as_raw().addr());
    }
    assert!(handles.len() < 1000, "the driver reuses handles");
}

#[test]
fn default_streams_are_the_default_streams() {
    check(|_, context| {
        for (theirs, kind) in [
            (context.default_stream(), StreamKind::Legacy),
            (context.per_thread_stream(), StreamKind::PerThread),
        ] {
            // SAFETY: default streams are not captured.
            let stream = unsafe { Stream::adopt(&theirs) }.unwrap();
            assert_eq!(stream.ours().kind(), kind);
            let other = CudaStream::new().unwrap();
            let mut x =
                DeviceUVector::from_slice_in(&[1_u8; 1000], &other, &driver_pool()).unwrap();
            stream.memset_zeros(&mut x.lend_mut(&stream).unwrap()).unwrap();
            assert_eq!(stream.clone_dtoh(&x.lend(&stream).unwrap()).unwrap(), [0; 1000]);
        }
    });
}

#[test]
fn a_stream_of_another_context_leaves_the_current_one() {
    load();
    let _machine = Machine::builder().devices(2).enter();
    let contexts = [CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap()];
    let theirs = contexts[1].new_stream().unwrap();
    contexts[0].bind_to_thread().unwrap();
    let before = Context::current().unwrap();
    // SAFETY: the stream is not captured.
    let stream = unsafe { Stream::adopt(&theirs) }.unwrap();
    assert_eq!(Context::current().unwrap(), before);
    assert_ne!(stream.ours().own_context(), Some(before));
    assert_eq!(stream.ours().device().unwrap().ordinal(), 1);
}

#[test]
fn two_libraries_see_each_others_work() {
    check(|_, context| {
        let s = stream(context);
        let mut x = DeviceUVector::from_slice_in(&[3_u8; 10], &s, &pool()).unwrap();
        s.memset_zeros(&mut x.lend_mut(&s).unwrap()).unwrap();
        x.fill(9).unwrap();
        assert_eq!(s.clone_dtoh(&x.lend(&s).unwrap()).unwrap(), [9; 10]);
    });
}
