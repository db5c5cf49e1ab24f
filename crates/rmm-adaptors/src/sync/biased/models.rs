//! Models of two revokers of one cell, without a lock around them, under every interleaving (loom).
//! Models of an owner and a revoker are with the types that are built on the cell.

use std::sync::atomic::AtomicU32 as HiddenFromLoom;

use loom::sync::Arc;
use loom::thread;

use super::*;

/// Acts on the value as a revoker.
fn revoke_one<B: Bias>(cell: &BiasedCell<(), u32, B>, mut act: impl FnMut(&mut u32) -> B::Next) {
    revoke(std::slice::from_ref(cell), None, [0], |(), value| act(value));
}

#[test]
fn two_revokers_are_never_inside_together() {
    loom::model(|| {
        let add = |value: &mut u32| {
            *value += 1;
            NextOwner::None
        };
        let cell = Arc::new(BiasedCell::<(), u32, PerThread>::new((), 0, Fences::of_process()));
        let other = thread::spawn({
            let cell = Arc::clone(&cell);
            move || revoke_one(&cell, add)
        });
        revoke_one(&cell, add);
        other.join().expect("it does not panic");
        let mut sum = 0;
        revoke_one(&cell, |value| {
            sum = *value;
            NextOwner::None
        });
        assert_eq!(sum, 2);
    });
}

#[test]
fn a_first_thread_s_cell_is_revoked_once() {
    loom::model(|| {
        let cell = Arc::new(BiasedCell::<(), u32, FirstThread>::new((), 0, Fences::of_process()));
        let count = Arc::new(HiddenFromLoom::new(0));
        let revoke_and_count = {
            let (cell, count) = (Arc::clone(&cell), Arc::clone(&count));
            move || {
                revoke_one(&cell, |value| {
                    *value += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        };
        let other = thread::spawn(revoke_and_count.clone());
        revoke_and_count();
        other.join().expect("it does not panic");
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(matches!(cell.claim(|| ThreadNumber::of_model(3)), Ownership::Revoked));
    });
}
