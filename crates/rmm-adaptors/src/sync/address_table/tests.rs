//! Tests of the table: random programs, compared with `std`'s `HashMap` after every step, and
//! threads.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;
use rmm_core::DevicePtr;

use super::AddressTable;
use crate::sync::first_thread::{Access, FirstThreadCell};

/// A table that its first thread uses exclusively.
#[derive(Default)]
struct Biased {
    first: FirstThreadCell<()>,
    table: AddressTable,
}

impl Biased {
    fn insert(&self, pointer: DevicePtr, value: u64) -> bool {
        self.table.insert(&self.first.access(), pointer, value)
    }

    fn remove(&self, pointer: DevicePtr) -> Option<u64> {
        self.table.remove(&self.first.access(), pointer)
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    Remove(u64),
    /// Another thread comes.
    Share,
}

fn op() -> impl Strategy<Value = Op> {
    // Few addresses, so that many are present; 0 and the last one are no keys.
    let address = (0_u64..7).prop_map(|number| if number < 6 { number * 256 } else { u64::MAX });
    prop_oneof![
        10 => address.clone().prop_map(Op::Insert),
        10 => address.prop_map(Op::Remove),
        1 => Just(Op::Share),
    ]
}

proptest! {
    #[test]
    fn the_table_equals_a_hash_map(ops in prop::collection::vec(op(), 0..60)) {
        let (table, mut model) = (Biased::default(), HashMap::new());
        for (value, op) in (0..).zip(ops) {
            match op {
                Op::Insert(address) => {
                    let pointer = DevicePtr(address);
                    let is_new = !model.contains_key(&pointer);
                    model.entry(pointer).or_insert(value);
                    prop_assert_eq!(table.insert(pointer, value), is_new);
                }
                Op::Remove(address) => {
                    let pointer = DevicePtr(address);
                    prop_assert_eq!(table.remove(pointer), model.remove(&pointer));
                }
                Op::Share => {
                    let absent = DevicePtr(1 << 20);
                    let removed = thread::scope(|scope| scope.spawn(|| table.remove(absent)).join());
                    prop_assert_eq!(removed.expect("it does not panic"), None);
                }
            }
            prop_assert_eq!(table.table.iter().count(), model.len());
            prop_assert_eq!(table.table.iter().collect::<HashMap<_, _>>(), model.clone());
        }
    }
}

/// More addresses than the first level holds, and some that fit no slot.
fn many_blocks() -> Vec<(DevicePtr, u64)> {
    let odd = [0, 0x1001, u64::MAX << 8, u64::MAX].map(DevicePtr);
    let blocks = (1..20_000).map(|number| DevicePtr(number << 8)).chain(odd);
    blocks.zip(0..).collect()
}

#[test]
fn entries_outgrow_a_level() {
    let (table, blocks) = (Biased::default(), many_blocks());
    for &(block, value) in &blocks {
        assert!(table.insert(block, value), "{block:?}");
    }
    assert!(table.table.levels[1].get().is_some(), "one level is too small for this test");
    assert!(blocks.iter().all(|&(block, _)| !table.insert(block, 0)), "each is present");
    assert_eq!(table.table.iter().count(), blocks.len());
    for &(block, value) in blocks.iter().rev() {
        assert_eq!(table.remove(block), Some(value), "{block:?}");
        assert_eq!(table.remove(block), None, "{block:?}");
    }
}

#[test]
fn entries_of_careful_owners_outgrow_a_level() {
    let (table, blocks) = (AddressTable::default(), many_blocks());
    for &(block, value) in &blocks {
        table.insert_new(&Access::SHARED, block, value);
    }
    assert!(table.levels[1].get().is_some(), "one level is too small for this test");
    for &(block, value) in blocks.iter().rev() {
        assert_eq!(table.remove_own(block), Some(value), "{block:?}");
        assert_eq!(table.remove_own(block), None, "{block:?}");
    }
}

#[test]
fn threads_remove_blocks_of_others_while_one_lists_them() {
    let table = Biased::default();
    let value = |block: DevicePtr| block.0 ^ 7;
    thread::scope(|scope| {
        let (give, take) = mpsc::channel::<DevicePtr>();
        for thread in 0..3 {
            let (table, give) = (&table, give.clone());
            scope.spawn(move || {
                for number in 1..3000 {
                    let block = DevicePtr((number * 3 + thread) << 8);
                    assert!(table.insert(block, value(block)));
                    give.send(block).expect("it is received");
                }
            });
        }
        drop(give);
        for (count, block) in take.into_iter().enumerate() {
            assert_eq!(table.remove(block), Some(value(block)));
            if count % 500 == 0 {
                assert!(table.table.iter().all(|(block, listed)| listed == value(block)));
            }
        }
    });
    assert_eq!(table.table.iter().count(), 0);
}

#[test]
fn of_threads_that_free_a_block_at_once_one_removes_it() {
    let (table, block) = (AddressTable::default(), DevicePtr(256));
    let both = Barrier::new(2);
    for _ in 0..1000 {
        assert!(table.insert(&Access::SHARED, block, 1));
        let free = || {
            both.wait();
            table.remove(&Access::SHARED, block)
        };
        let removed = thread::scope(|scope| {
            let other = scope.spawn(free);
            [free(), other.join().expect("it does not panic")]
        });
        assert_eq!(removed.iter().flatten().count(), 1);
    }
}

#[test]
fn addresses_of_one_stride_do_not_fill_level_after_level() {
    // Their hashes begin alike: all are in one group of the first level, and would be in the next.
    for stride in [16_594_432, 14_876_672] {
        let biased = Biased::default();
        for number in 1..1000 {
            assert!(biased.insert(DevicePtr(number * stride), number));
        }
        let levels = biased.table.levels.iter().filter(|level| level.get().is_some()).count();
        assert!(levels <= 4, "{levels} levels for a stride of {stride}");
        assert!(biased.table.iter().map(|(_, number)| number).eq(1..1000), "each once");
    }
}
