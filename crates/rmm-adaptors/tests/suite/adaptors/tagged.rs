//! Tests of attribution by tag, over threads and scopes.

use std::sync::{Barrier, mpsc};
use std::thread;

use rmm_adaptors::{Tag, TaggedResourceAdaptor};
use rmm_core::{DevicePtr, SynchronousResource};

use super::scripted::{Scripted, free_sync};
use crate::support::layout;

type Tagged = TaggedResourceAdaptor<Scripted>;

/// Live bytes, live blocks and peak of a tag.
fn usage(tagged: &Tagged, tag: Tag) -> (u64, u64, u64) {
    let usage = tagged.usage_of(tag);
    (usage.live_bytes, usage.live_blocks, usage.peak_bytes)
}

#[test]
fn a_block_counts_for_the_tag_of_its_allocation() {
    let tagged = Tagged::new(Scripted::default());
    let (outer, inner) = (Tag::named("outer"), Tag::named("inner"));
    let outside = tagged.allocate_sync(layout(1)).unwrap();
    let _in_outer = outer.enter();
    let first = tagged.allocate_sync(layout(100)).unwrap();
    let second = {
        let _in_inner = inner.enter();
        tagged.allocate_sync(layout(3 << 20)).unwrap()
    };
    let third = tagged.allocate_sync(layout(50)).unwrap();
    assert_eq!(usage(&tagged, Tag::UNTAGGED), (1, 1, 1));
    assert_eq!(usage(&tagged, outer), (150, 2, 150));
    assert_eq!(usage(&tagged, inner), (3 << 20, 1, 3 << 20));
    let names: Vec<&str> = tagged.usage().iter().map(|usage| usage.tag.name()).collect();
    assert_eq!(names, ["inner", "outer", "untagged"], "the most bytes first");
    free_sync(&tagged, second, layout(3 << 20));
    free_sync(&tagged, first, layout(100));
    assert_eq!(usage(&tagged, inner), (0, 0, 3 << 20));
    assert_eq!(usage(&tagged, outer), (50, 1, 150));
    free_sync(&tagged, third, layout(50));
    free_sync(&tagged, outside, layout(1));
    assert_eq!(usage(&tagged, outer), (0, 0, 150));
}

#[test]
fn the_peak_of_one_thread_is_exact() {
    let tagged = Tagged::new(Scripted::default());
    let tag = Tag::named("exact");
    let _scope = tag.enter();
    let (mut live, mut peak, mut blocks) = (0, 0, Vec::new());
    // Sizes around the one at which a thread adds its counters to the shared sums.
    for step in 0..400_usize {
        let bytes = [100, 700 << 10, 1 << 20, 3 << 20][step % 4] + step;
        if step % 5 < 3 {
            blocks.push((tagged.allocate_sync(layout(bytes)).unwrap(), bytes));
            live += bytes;
            peak = peak.max(live);
        } else if let Some((block, bytes)) = blocks.pop() {
            free_sync(&tagged, block, layout(bytes));
            live -= bytes;
        }
        assert_eq!(usage(&tagged, tag), (live as u64, blocks.len() as u64, peak as u64), "{step}");
    }
    for (block, bytes) in blocks {
        free_sync(&tagged, block, layout(bytes));
    }
}

#[test]
fn a_free_of_another_thread_counts_for_the_same_tag() {
    let tagged = Tagged::new(Scripted::default());
    let tag = Tag::named("handed over");
    let (give, take) = mpsc::channel::<DevicePtr>();
    thread::scope(|scope| {
        let tagged = &tagged;
        scope.spawn(move || {
            let _scope = tag.enter();
            for _ in 0..10_000 {
                give.send(tagged.allocate_sync(layout(1000)).unwrap()).unwrap();
            }
        });
        scope.spawn(move || {
            let _scope = Tag::named("another").enter();
            for block in take {
                free_sync(tagged, block, layout(1000));
            }
        });
    });
    let (live, blocks, peak) = usage(&tagged, tag);
    assert_eq!((live, blocks), (0, 0));
    assert!((1000..=10_000_000 + 2 * Tagged::PEAK_ERROR).contains(&peak), "{peak}");
    assert_eq!(usage(&tagged, Tag::named("another")), (0, 0, 0));
}

#[test]
fn the_peak_of_several_threads_is_within_the_bound() {
    const THREADS: u32 = 4;
    const EACH: usize = 64;
    const BYTES: usize = 100 << 10;
    let tagged = Tagged::new(Scripted::default());
    let (tag, all_in) = (Tag::named("together"), Barrier::new(4));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let _scope = tag.enter();
                let blocks: Vec<DevicePtr> =
                    (0..EACH).map(|_| tagged.allocate_sync(layout(BYTES)).unwrap()).collect();
                all_in.wait();
                for block in blocks {
                    free_sync(&tagged, block, layout(BYTES));
                }
            });
        }
    });
    let (live, blocks, peak) = usage(&tagged, tag);
    assert_eq!((live, blocks), (0, 0));
    let exact = u64::from(THREADS) * (EACH * BYTES) as u64;
    let error = u64::from(THREADS) * Tagged::PEAK_ERROR;
    assert!((exact - error..=exact + error).contains(&peak), "{peak}, should be {exact}");
}

/// RMM #2304, for a table that RMM does not have.
#[test]
fn an_address_reused_during_its_free_has_its_new_tag() {
    let upstream = Scripted::default();
    let tagged = Tagged::new(upstream.clone());
    let (old, new) = (Tag::named("old"), Tag::named("new"));
    let block = {
        let _scope = old.enter();
        tagged.allocate_sync(layout(100)).unwrap()
    };
    let same = tagged.clone();
    upstream.reuse_in_free(move || {
        let _scope = new.enter();
        assert_eq!(same.allocate_sync(layout(200)).unwrap(), block);
    });
    free_sync(&tagged, block, layout(100));
    assert_eq!(usage(&tagged, old), (0, 0, 100));
    assert_eq!(usage(&tagged, new), (200, 1, 200));
    free_sync(&tagged, block, layout(200));
    assert_eq!(usage(&tagged, new), (0, 0, 200));
}

#[test]
fn counters_of_threads_that_ended_are_kept() {
    let tagged = Tagged::new(Scripted::default());
    let tag = Tag::named("short-lived");
    for round in 1..=20 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let _scope = tag.enter();
                tagged.allocate_sync(layout(1000)).unwrap();
            });
        });
        assert_eq!(usage(&tagged, tag), (round * 1000, round, round * 1000));
    }
}

#[test]
fn two_resources_count_apart() {
    let (one, two) = (Tagged::new(Scripted::default()), Tagged::new(Scripted::default()));
    let tag = Tag::named("apart");
    let _scope = tag.enter();
    let of_one = one.allocate_sync(layout(10)).unwrap();
    let of_two = two.allocate_sync(layout(20)).unwrap();
    free_sync(&one, of_one, layout(10));
    assert_eq!((usage(&one, tag), usage(&two, tag)), ((0, 0, 10), (20, 1, 20)));
    free_sync(&two, of_two, layout(20));
}
