//! Defects of cudarc 0.19.10 in the order of its slices, found by the software device. A test that
//! fails because there is no report any more says that cudarc has mended it.

use cudarc::driver::CudaContext;
use cudarc_0_19 as cudarc;
use rmm_containers::DeviceUVector;
use rmm_interop_cudarc::{Lend, LendMut};

use crate::common::*;

/// `CudaStream::alloc` does not record the slice's `write` event, so the first use on another
/// stream does not wait for the allocation.
#[test]
fn cudarc_0_19_10_uses_a_slice_before_its_allocation() {
    let report = report(|_, context| {
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        // SAFETY: the elements are not read.
        let mut slice = unsafe { first.alloc::<f32>(1000) }.unwrap();
        second.memset_zeros(&mut slice).unwrap();
    });
    assert!(report.contains("use before allocation"), "mended? {report}");
}

/// A slice has one event for all readers, so of two other streams that read it, its stream waits
/// for the second only before it frees.
#[test]
fn cudarc_0_19_10_frees_a_slice_that_a_stream_still_reads() {
    let report = report(|_, context| {
        let streams = [(); 3].map(|()| context.new_stream().unwrap());
        let slice = streams[0].alloc_zeros::<f32>(1000).unwrap();
        let mut copies = [1, 2].map(|at| streams[at].alloc_zeros::<f32>(1000).unwrap());
        streams[1].memcpy_dtod(&slice, &mut copies[0]).unwrap();
        streams[2].memcpy_dtod(&slice, &mut copies[1]).unwrap();
        drop(slice);
    });
    assert!(report.contains("freed while in use"), "mended? {report}");
}

/// The same programs with containers are in order: see `order`. This one is the first, in the same
/// words.
#[test]
fn a_container_waits_where_a_slice_does_not() {
    check(|_, context| {
        let (first, second) = (stream(context), stream(context));
        let mut vector = DeviceUVector::<f32>::uninit_in(1000, &first, &driver_pool()).unwrap();
        second.memset_zeros(&mut vector.lend_mut(&second).unwrap()).unwrap();
        assert_eq!(first.clone_dtoh(&vector.lend(&first).unwrap()).unwrap(), [0.0; 1000]);
    });
}

/// Without events (`disable_event_tracking`), order is the program's: the check finds what it left
/// out.
#[test]
fn a_program_without_tracking_is_checked_too() {
    let report = report(|_, context| {
        // SAFETY: one slice, whose order is left out below, which is what this test is about.
        unsafe { CudaContext::disable_event_tracking(context) };
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let mut slice = first.alloc_zeros::<u8>(1000).unwrap();
        second.memset_zeros(&mut slice).unwrap();
    });
    assert!(report.contains("race"), "{report}");
}
