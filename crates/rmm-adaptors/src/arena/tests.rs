//! Model test of superblocks: random programs, compared with a list of live blocks after every
//! step.

use proptest::prelude::*;

use super::superblock::{GRANULE, GRANULES, SUPERBLOCK};
use super::superblocks::{FreeOutcome, Superblocks};

const BASES: [u64; 3] = [SUPERBLOCK, 2 * SUPERBLOCK, 4 * SUPERBLOCK + 7 * GRANULE];

#[derive(Clone, Debug)]
enum Op {
    Allocate { granules: u16, alignment: u64 },
    Free { which: usize },
    FreeUnknown { address: u64 },
    Transfer { which: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![8 => 1u16..8, 4 => 1u16..300, 2 => 1000u16..2000, 1 => Just(GRANULES)];
    let alignment =
        prop_oneof![6 => Just(GRANULE), 1 => Just(GRANULE * 2), 1 => Just(GRANULE * 16)];
    prop_oneof![
        8 => (size, alignment).prop_map(|(granules, alignment)| Op::Allocate { granules, alignment }),
        6 => any::<usize>().prop_map(|which| Op::Free { which }),
        1 => (0..6 * SUPERBLOCK).prop_map(|address| Op::FreeUnknown { address }),
        1 => any::<usize>().prop_map(|which| Op::Transfer { which }),
    ]
}

/// The granules of a superblock that are allocated or transferred.
struct Model {
    base: u64,
    taken: Vec<bool>,
}

impl Model {
    fn range(&mut self, address: u64, bytes: u64) -> Option<&mut [bool]> {
        let from = usize::try_from(address.checked_sub(self.base)? / GRANULE).ok()?;
        self.taken.get_mut(from..from + usize::try_from(bytes / GRANULE).ok()?)
    }

    /// The lowest address with `granules` free ones in a row.
    fn first_fit(&self, granules: u16) -> Option<u64> {
        let fits = |window: &[bool]| window.iter().all(|taken| !taken);
        let at = self.taken.windows(granules.into()).position(fits)?;
        Some(self.base + at as u64 * GRANULE)
    }
}

fn mark(models: &mut [Model], address: u64, bytes: u64, taken: bool) {
    let range =
        models.iter_mut().find_map(|model| model.range(address, bytes)).expect("in one superblock");
    for granule in range {
        assert_ne!(*granule, taken, "blocks overlap");
        *granule = taken;
    }
}

/// The live blocks are those of the model, free neighbours are coalesced, and the sums agree.
fn check(superblocks: &Superblocks, models: &[Model], live: &[(u64, u64)]) {
    let free: u64 =
        models.iter().map(|model| model.taken.iter().filter(|taken| !**taken).count() as u64).sum();
    assert_eq!(superblocks.free_bytes(), free * GRANULE);
    assert_eq!(superblocks.live_bytes(), live.iter().map(|(_, bytes)| bytes).sum::<u64>());
    let mut known = live.to_vec();
    known.sort_unstable();
    let parts: Vec<_> = superblocks.slices().collect();
    let handed_out: Vec<_> = parts
        .iter()
        .filter(|(_, part)| part.is_live)
        .map(|&(start, part)| (start, part.bytes))
        .collect();
    assert_eq!(handed_out, known);
    for pair in parts.windows(2) {
        let ((first, one), (second, other)) = (pair[0], pair[1]);
        assert!(first + one.bytes <= second, "blocks overlap");
        let are_neighbours = first + one.bytes == second && !BASES.contains(&second);
        assert!(!are_neighbours || one.is_live || other.is_live, "not merged");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_gets_the_lowest_address_that_fits(ops in proptest::collection::vec(op(), 1..150)) {
        let mut superblocks = Superblocks::default();
        let mut models: Vec<Model> = Vec::new();
        for base in BASES {
            superblocks.add(base);
            models.push(Model { base, taken: vec![false; GRANULES.into()] });
        }
        let mut live: Vec<(u64, u64)> = Vec::new();
        for op in ops {
            match op {
                Op::Allocate { granules, alignment } => {
                    let slack = u16::try_from(alignment / GRANULE - 1).unwrap();
                    let padded = granules + slack;
                    let expected = models.iter().find_map(|model| model.first_fit(padded));
                    let taken = if padded > GRANULES { None } else { superblocks.allocate(padded, slack, alignment) };
                    prop_assert_eq!(taken, expected.map(|address| address.next_multiple_of(alignment)));
                    if let Some(address) = taken {
                        let bytes = u64::from(granules) * GRANULE;
                        mark(&mut models, address, bytes, true);
                        live.push((address, bytes));
                    }
                }
                Op::Free { which } if !live.is_empty() => {
                    let (address, bytes) = live.swap_remove(which % live.len());
                    mark(&mut models, address, bytes, false);
                    if let FreeOutcome::SuperblockIdle(base) = superblocks.free(address) {
                        let block = superblocks.remove(base).expect("it is there");
                        prop_assert!(block.is_idle());
                        let model = models.iter_mut().find(|model| model.base == base).unwrap();
                        // Add it again as a new superblock, with the granules that were
                        // transferred.
                        model.taken.fill(false);
                        superblocks.recycle(block);
                        superblocks.add(base);
                    }
                    prop_assert_eq!(superblocks.free(address), FreeOutcome::Unknown, "freed twice");
                }
                Op::FreeUnknown { address } if live.iter().all(|block| block.0 != address) => {
                    prop_assert_eq!(superblocks.free(address), FreeOutcome::Unknown);
                }
                Op::Transfer { which } if !live.is_empty() => {
                    let (address, bytes) = live.swap_remove(which % live.len());
                    prop_assert_eq!(superblocks.transfer_to_global(address), Some(bytes));
                    prop_assert_eq!(superblocks.transfer_to_global(address), None);
                }
                Op::Free { .. } | Op::FreeUnknown { .. } | Op::Transfer { .. } => {}
            }
            check(&superblocks, &models, &live);
        }
    }
}

#[test]
fn idle_superblocks_are_kept_in_proportion() {
    let mut superblocks = Superblocks::default();
    let bases: Vec<u64> = (1..=8).map(|number| number * SUPERBLOCK).collect();
    for &base in &bases {
        superblocks.add(base);
    }
    for &base in &bases {
        assert_eq!(superblocks.allocate(GRANULES, 0, GRANULE), Some(base));
    }
    assert_eq!(superblocks.allocate(1, 0, GRANULE), None);
    assert_eq!(superblocks.free(bases[1]), FreeOutcome::Done);
    assert_eq!(superblocks.free(bases[0]), FreeOutcome::Done);
    assert_eq!(
        superblocks.free(bases[2]),
        FreeOutcome::SuperblockIdle(bases[2]),
        "two of eight are kept"
    );
    assert!(superblocks.remove(bases[2]).is_some_and(|block| block.is_empty()));
    // One is in use again: another may be kept instead.
    assert_eq!(superblocks.allocate(1, 0, GRANULE), Some(bases[0]));
    assert_eq!(
        superblocks.free(bases[7]),
        FreeOutcome::SuperblockIdle(bases[7]),
        "one of seven is"
    );
    assert!(superblocks.remove(bases[7]).is_some());
    assert_eq!(superblocks.allocate(GRANULES, 0, GRANULE), Some(bases[1]));
    assert_eq!(superblocks.free(bases[1]), FreeOutcome::Done);
}
