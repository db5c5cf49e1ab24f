//! Tests of the aligned adaptor: alignments above 256, and what it requests from upstream.

use std::alloc::Layout;

use rmm_adaptors::AlignedResourceAdaptor;
use rmm_core::{DevicePtr, SynchronousResource, is_pointer_aligned};

use super::scripted::{FIRST, Scripted, free_sync};
use crate::support::layout;

#[test]
fn blocks_above_the_threshold_are_aligned_and_freed() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::with_threshold(upstream.clone(), 4096, 1000).unwrap();
    let small = aligned.allocate_sync(layout(999)).unwrap();
    let large = aligned.allocate_sync(layout(1000)).unwrap();
    assert_eq!(small, DevicePtr(FIRST));
    assert!(is_pointer_aligned(large, 4096) && large != DevicePtr(FIRST + 1024));
    // RMM's sizes: rounded up to the alignment, plus the most that is lost in front.
    assert_eq!(upstream.state().asked, [layout(999), layout(4096 + 4096 - 256)]);
    free_sync(&aligned, large, layout(1000));
    free_sync(&aligned, small, layout(999));
    let freed = [(DevicePtr(FIRST + 1024), layout(4096 + 4096 - 256)), (small, layout(999))];
    assert_eq!(upstream.state().freed, freed);
}

/// RMM #2003: an alignment below 256 made the size too small, and upstream was asked for an
/// alignment of 1.
#[test]
fn small_alignments_are_raised_to_256() {
    for alignment in [1, 16, 128, 256] {
        let upstream = Scripted::default();
        let aligned = AlignedResourceAdaptor::new(upstream.clone(), alignment).unwrap();
        aligned.allocate_sync(layout(1000)).unwrap();
        assert_eq!(upstream.state().asked, [layout(1000)], "as it is");
    }
    for alignment in [0, 3, 4097] {
        let made = AlignedResourceAdaptor::new(Scripted::default(), alignment);
        assert!(made.unwrap_err().is_invalid_argument());
    }
}

/// In RMM, a requested alignment above 256 was ignored.
#[test]
fn the_requested_alignment_holds_below_the_threshold() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::with_threshold(upstream.clone(), 512, 1 << 20).unwrap();
    upstream.state().next = 256;
    let wants = Layout::from_size_align(100, 8192).unwrap();
    let block = aligned.allocate_sync(wants).unwrap();
    assert!(is_pointer_aligned(block, 8192));
    free_sync(&aligned, block, wants);
    assert_eq!(upstream.state().freed[0].0, DevicePtr(FIRST + 256));
}

/// The padded size must not overflow.
#[test]
fn a_size_that_cannot_be_padded_fails() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::new(upstream.clone(), 1 << 40).unwrap();
    let huge = Layout::from_size_align(isize::MAX as usize - 255, 256).unwrap();
    assert!(aligned.allocate_sync(huge).unwrap_err().is_out_of_memory());
    assert!(upstream.state().asked.is_empty());
}

/// RMM leaked such a block.
#[test]
fn a_block_at_an_address_in_use_is_freed() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::new(upstream.clone(), 4096).unwrap();
    upstream.state().next = 256;
    let block = aligned.allocate_sync(layout(100)).unwrap();
    upstream.state().next = 512;
    assert!(aligned.allocate_sync(layout(100)).unwrap_err().is_invalid_argument());
    assert_eq!(upstream.live(), 1);
    free_sync(&aligned, block, layout(100));
    assert_eq!(upstream.state().freed[1].0, DevicePtr(FIRST + 256));
}

/// RMM #2304.
#[test]
fn an_address_reused_during_its_free_is_found() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::new(upstream.clone(), 4096).unwrap();
    upstream.state().next = 256;
    let block = aligned.allocate_sync(layout(100)).unwrap();
    let same = aligned.clone();
    upstream.reuse_in_free(move || assert_eq!(same.allocate_sync(layout(100)).unwrap(), block));
    free_sync(&aligned, block, layout(100));
    free_sync(&aligned, block, layout(100));
    let freed = upstream.state().freed.clone();
    assert!(freed.iter().all(|&(pointer, _)| pointer == DevicePtr(FIRST + 256)), "{freed:?}");
    assert_eq!(freed.len(), 2);
}
