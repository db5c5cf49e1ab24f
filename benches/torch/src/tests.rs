//! The functions as PyTorch calls them, on the software device.

use rmm_core::CudaStream;
use rmm_sim::Machine;

use super::*;

/// One test, since there is one pool in a process.
#[test]
fn blocks_of_every_stream_come_from_one_pool() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let own = CudaStream::non_blocking().unwrap();
    let handles = [CuStream::NULL, CuStream::LEGACY, CuStream::PER_THREAD, own.as_raw()];
    for stream in handles {
        // SAFETY: the stream exists until the end of the test, after which nothing is called.
        let [small, large] = [1_000, 3 << 20].map(|size| unsafe { my_malloc(size, 0, stream) });
        assert!(!small.is_null() && !large.is_null() && small != large);
        assert!(small.addr().is_multiple_of(CUDA_ALLOCATION_ALIGNMENT));
        // SAFETY: allocated above for this size; no work uses it.
        unsafe { my_free(large, 3 << 20, 0, stream) };
        // SAFETY: likewise.
        unsafe { my_free(small, 1_000, 0, stream) };
    }
    assert_eq!(my_calls(), 8);
    assert!(my_live() >= 3 << 20, "{}", my_live());
    assert!(my_reserved() >= my_live());

    // SAFETY: as above.
    let of = |handle| unsafe { adopted(handle) }.unwrap();
    let first = of(own.as_raw());
    assert_eq!(*of(CuStream::NULL), CudaStream::legacy());
    assert!(ptr::eq(first, of(own.as_raw())), "a stream is adopted once");

    // SAFETY: as above.
    let refused = unsafe { my_malloc(1_000, 1, own.as_raw()) };
    assert!(refused.is_null(), "there is no pool for that device");
    // SAFETY: as above.
    let negative = unsafe { my_malloc(-1, 0, own.as_raw()) };
    assert!(negative.is_null());
    assert_eq!(my_calls(), 8);
}
