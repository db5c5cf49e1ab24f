//! A pool that checks frees: each wrong one is counted and reported, and leaves the pool whole.

use std::alloc::Layout;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, DevicePtr, Resource, SynchronousResource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::support::{MIB, Pool, layout, stream};

/// The pool and what it reports.
fn checked() -> (Pool, Receiver<String>) {
    let (sender, found) = channel();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let builder = builder.on_wrong_free(move |finding| drop(sender.send(finding.to_string())));
    (builder.build().expect("a pool"), found)
}

/// What is wrong with a free.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Smaller,
    /// By a byte, which leaves the size class as it is.
    LargerByOne,
    Larger,
    Alignment,
    Second,
    Inside,
    Elsewhere,
    OfAnotherPool,
}

/// Each kind, and whether the free names a block: then that is freed.
const KINDS: [(Wrong, bool); 8] = [
    (Wrong::Smaller, true),
    (Wrong::LargerByOne, true),
    (Wrong::Larger, true),
    (Wrong::Alignment, true),
    (Wrong::Second, false),
    (Wrong::Inside, false),
    (Wrong::Elsewhere, false),
    (Wrong::OfAnotherPool, false),
];

/// Frees a block on a stream, or with no stream.
fn free_on(
    resource: &impl Resource,
    stream: Option<&CudaStream>,
    pointer: DevicePtr,
    layout: Layout,
) {
    match stream {
        // SAFETY: right, or wrong in a way that a pool which checks frees notices.
        Some(stream) => unsafe { resource.deallocate(stream, pointer, layout) },
        // SAFETY: as above.
        None => unsafe { resource.deallocate_sync(pointer, layout) },
    }
}

fn make(wrong: Wrong, size: usize, stream: Option<&CudaStream>) {
    let context = format!("{wrong:?} of {size} bytes, stream {}", stream.is_some());
    let ((pool, found), (other, _)) = (checked(), checked());
    let own = layout(size);
    let allocate = |pool: &Pool| match stream {
        Some(stream) => pool.allocate(stream, own).expect("memory"),
        None => pool.allocate_sync(own).expect("memory"),
    };
    let (block, of_other) = (allocate(&pool), allocate(&other));
    let (pointer, freed) = match wrong {
        Wrong::Smaller => (block, layout(size / 2)),
        Wrong::LargerByOne => (block, layout(size + 1)),
        Wrong::Larger => (block, layout(size * 100)),
        Wrong::Alignment => (block, Layout::from_size_align(size, 16).expect("valid")),
        Wrong::Second => {
            free_on(&pool, stream, block, own);
            (block, own)
        }
        Wrong::Inside => (DevicePtr(block.0 + 256), own),
        Wrong::Elsewhere => (DevicePtr(4096), own),
        Wrong::OfAnotherPool => (of_other, own),
    };
    free_on(&pool, stream, pointer, freed);
    let names_block =
        KINDS.iter().any(|&(kind, names)| names && format!("{kind:?}") == format!("{wrong:?}"));
    let statistics = pool.statistics();
    let counted = (statistics.unknown_frees, statistics.wrong_frees);
    assert_eq!(counted, if names_block { (0, 1) } else { (1, 0) }, "{context}");
    let text = found.try_recv().expect("it is reported");
    assert!(text.contains(&format!("{:#x}", pointer.0)), "{context}: {text}");
    assert!(text.contains(&freed.size().to_string()) || names_block, "{context}: {text}");
    let places = if names_block { [", allocated at ", ", freed at "] } else { [", freed at "; 2] };
    for place in places {
        let (_, rest) = text.split_once(place).expect("both places are named");
        assert!(rest.contains("wrong_frees.rs"), "{context}: {text}");
    }
    // No block is handed out twice, and the one that is live stays so.
    let is_live = !names_block && !matches!(wrong, Wrong::Second);
    let again: Vec<_> = (0..4).map(|_| allocate(&pool)).collect();
    let kept = is_live.then_some(block);
    let all: BTreeSet<_> = again.iter().chain(&kept).copied().collect();
    assert_eq!(all.len(), again.len() + usize::from(is_live), "{context}");
    for block in all {
        free_on(&pool, stream, block, own);
    }
    free_on(&other, stream, of_other, own);
    assert_eq!([pool.statistics().live_bytes, other.statistics().live_bytes], [0, 0], "{context}");
    assert!(found.try_recv().is_err(), "{context}: right frees are not reported");
}

#[test]
fn each_wrong_free_is_reported_and_changes_nothing_else() {
    let machine = Machine::builder().memory(8 << 30).enter();
    let on = stream();
    for (wrong, _) in KINDS {
        // In thread caches, and beyond them.
        for size in [1000, 100_000, 2 * MIB] {
            make(wrong, size, Some(&on));
            make(wrong, size, None);
        }
    }
    let violations = machine.violations();
    assert!(violations.is_empty(), "{violations:?}");
}

#[test]
fn checks_hold_through_reservations_and_clearing() {
    let _machine = rmm_sim::enter();
    let on = stream();
    let (sender, found) = channel();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).clear_blocks(true);
    let builder = builder.on_wrong_free(move |finding| drop(sender.send(finding.to_string())));
    let pool = builder.build().expect("a pool");
    let reservation = pool.reserve(1 << 20).expect("memory");
    let block = reservation.allocate(&on, layout(1000)).expect("memory");
    free_on(&reservation, Some(&on), block, layout(3000));
    assert!(found.try_recv().is_ok_and(|text| text.contains("(1000)")));
    drop(reservation);
    let block = pool.allocate(&on, layout(1000)).expect("memory");
    free_on(&pool, Some(&on), block, layout(1000));
    assert!(found.try_recv().is_err());
    let statistics = pool.statistics();
    assert_eq!(
        (statistics.live_bytes, statistics.unknown_frees, statistics.wrong_frees),
        (0, 0, 1)
    );
}
