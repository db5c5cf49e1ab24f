//! Model test of the table: random programs, compared with `std`'s `HashMap` after every step.

use std::collections::HashMap;

use proptest::prelude::*;
use rmm_core::DevicePtr;

use super::Blocks;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    Remove(u64),
}

fn op() -> impl Strategy<Value = Op> {
    // Few addresses, so that the newest one is often looked up, and others are often present.
    let address = (0_u64..6).prop_map(|number| number * 256);
    prop_oneof![address.clone().prop_map(Op::Insert), address.prop_map(Op::Remove)]
}

fn sorted<'a>(entries: impl Iterator<Item = (DevicePtr, &'a usize)>) -> Vec<(DevicePtr, usize)> {
    let mut entries: Vec<_> = entries.map(|(pointer, value)| (pointer, *value)).collect();
    entries.sort_unstable();
    entries
}

proptest! {
    #[test]
    fn the_table_equals_a_hash_map(ops in prop::collection::vec(op(), 0..60)) {
        let (mut blocks, mut model) = (Blocks::default(), HashMap::new());
        for (number, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(address) => {
                    let pointer = DevicePtr(address);
                    let is_new = !model.contains_key(&pointer);
                    model.entry(pointer).or_insert(number);
                    prop_assert_eq!(blocks.insert(pointer, || number), is_new);
                }
                Op::Remove(address) => {
                    let pointer = DevicePtr(address);
                    prop_assert_eq!(blocks.remove(pointer), model.remove(&pointer));
                }
            }
            prop_assert_eq!(blocks.len(), model.len());
            let expected = sorted(model.iter().map(|(pointer, value)| (*pointer, value)));
            prop_assert_eq!(sorted(blocks.iter()), expected);
        }
        prop_assert_eq!(blocks.into_entries().collect::<HashMap<_, _>>(), model);
    }
}

#[test]
fn no_value_is_constructed_for_a_present_address() {
    let mut blocks = Blocks::default();
    for number in [1, 2] {
        assert!(blocks.insert(DevicePtr(number * 256), || number));
    }
    for number in [1, 2] {
        assert!(!blocks.insert(DevicePtr(number * 256), || unreachable!("{number} is there")));
    }
}
