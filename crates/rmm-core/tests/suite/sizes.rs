//! Arithmetic on sizes, up to the ends of the range.

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DevicePtr, align_down, align_up, format_bytes, is_aligned,
    is_pointer_aligned, is_supported_alignment, is_supported_base_resource_alignment,
};

#[test]
fn powers_of_two_are_alignments_and_nothing_else_is() {
    for shift in 0..usize::BITS {
        assert!(is_supported_alignment(1 << shift));
        let base = is_supported_base_resource_alignment(1 << shift);
        assert_eq!(base, 1 << shift <= CUDA_ALLOCATION_ALIGNMENT);
    }
    for wrong in [0, 3, 6, 255, 257, usize::MAX] {
        assert!(!is_supported_alignment(wrong), "{wrong}");
        assert!(!is_supported_base_resource_alignment(wrong), "{wrong}");
        assert!(!is_aligned(0, wrong) && !is_pointer_aligned(DevicePtr(0), wrong), "{wrong}");
        assert_eq!((align_up(512, wrong), align_down(512, wrong)), (None, None), "{wrong}");
    }
}

#[test]
fn rounding_gives_the_nearest_multiples_or_nothing() {
    let values = [0, 1, 255, 256, 257, 1 << 40, usize::MAX / 2, usize::MAX - 256, usize::MAX];
    for value in values {
        for alignment in [1, 2, 256, 1 << 20, 1 << (usize::BITS - 1)] {
            let down = align_down(value, alignment).unwrap();
            assert!(is_aligned(down, alignment) && down <= value && value - down < alignment);
            match align_up(value, alignment) {
                Some(up) => {
                    assert!(is_aligned(up, alignment) && up >= value && up - value < alignment);
                }
                None => assert!(usize::MAX - value < alignment - 1, "{value} to {alignment} fits"),
            }
        }
    }
}

#[test]
fn alignment_is_decided_by_the_low_bits_of_an_address() {
    assert!(is_pointer_aligned(DevicePtr::NULL, 1 << 20));
    assert!(is_pointer_aligned(DevicePtr(u64::MAX - 255), 256));
    assert!(!is_pointer_aligned(DevicePtr(u64::MAX), 2));
    assert!(is_pointer_aligned(DevicePtr(u64::MAX), 1));
}

#[test]
fn the_largest_number_of_bytes_has_a_unit() {
    assert_eq!(format_bytes(0), "0 B");
    assert_eq!(format_bytes(1023), "1023 B");
    assert_eq!(format_bytes(u64::MAX), "15.9 EiB");
}
