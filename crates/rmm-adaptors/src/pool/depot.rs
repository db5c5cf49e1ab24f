//! Blocks that one thread's cache had too many of, by the batch, for whoever lacks them.
//!
//! Where one thread allocates and another frees, every block would pass through the heap: a
//! look-up, a merge, a search, and lines of the processor's cache that wander between the two. Here
//! they pass by the batch, all of one size and freed on one stream; but only where somebody lacks
//! them, as what is here does not merge.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::caches::{CLASSES, Class};
use super::heap::{ListId, Point};

/// Blocks in a batch.
pub(super) const BATCH: usize = 64;

/// The most batches that there may be: each takes half a kilobyte of host memory.
const MOST_BATCHES: usize = 512;
/// The most batches of a class that are wanted at a time.
const MOST_WANTED: u32 = 32;
/// Batches of a class that are looked at.
const LOOK_AT: usize = 8;

/// Blocks of one class. For the heap they are live.
#[derive(Debug)]
pub(super) struct Batch {
    class: Class,
    /// Where they were freed, and when at the latest.
    pub(super) list: ListId,
    pub(super) point: Point,
    pub(super) addresses: Vec<u64>,
}

/// The batches of a class.
#[derive(Debug, Default)]
struct Shelf {
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// How many more are wanted.
    wanted: u32,
}

/// The batches of a pool.
#[derive(Debug, Default)]
pub(super) struct Depot {
    /// Index: a class's number. None until there is one.
    shelves: Vec<Shelf>,
    count: usize,
    /// Of batches that are used up: a steady program needs no host memory.
    spare: Vec<Vec<u64>>,
    bytes: u64,
}

impl Batch {
    fn bytes(&self) -> u64 {
        self.class.block_size() * self.addresses.len() as u64
    }
}

impl Depot {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all blocks in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that somebody would have liked to have blocks of the class.
    pub(super) fn want(&mut self, class: Class) {
        self.shelves.resize_with(CLASSES, Shelf::default);
        if let Some(of_class) = self.shelves.get_mut(class.index()) {
            of_class.wanted = MOST_WANTED.min(of_class.wanted + 1);
        }
    }

    /// Keeps blocks of the class that were freed in the list up to the point, if somebody wants
    /// some, there is room, and that makes it hold no more than `most_bytes`.
    pub(super) fn put(
        &mut self,
        class: Class,
        (list, point): (ListId, Point),
        addresses: &[u64],
        most_bytes: u64,
    ) -> bool {
        let bytes = class.block_size() * addresses.len() as u64;
        let Some(of_class) = self.shelves.get_mut(class.index()) else { return false };
        if of_class.wanted == 0 || self.count == MOST_BATCHES || self.bytes + bytes > most_bytes {
            return false;
        }
        of_class.wanted -= 1;
        let mut kept = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        kept.extend_from_slice(addresses);
        self.bytes += bytes;
        self.count += 1;
        of_class.batches.push_back(Batch { class, list, point, addresses: kept });
        true
    }

    /// Takes a batch of the class that `usable` accepts, if one is found among the first few.
    pub(super) fn take(
        &mut self,
        class: Class,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Batch> {
        let of_class = self.shelves.get_mut(class.index())?;
        let mut some = of_class.batches.iter().take(LOOK_AT);
        let index = some.position(|batch| usable(batch.list, batch.point))?;
        let batch = of_class.batches.remove(index)?;
        of_class.wanted = MOST_WANTED.min(of_class.wanted + 1);
        self.count -= 1;
        self.bytes -= batch.bytes();
        Some(batch)
    }

    /// Takes what is left of a batch back, for the next.
    pub(super) fn recycle(&mut self, mut batch: Batch) {
        batch.addresses.clear();
        self.spare.push(batch.addresses);
    }

    /// Takes all batches out, or those of one list.
    pub(super) fn take_all(&mut self, list: Option<ListId>) -> Vec<Batch> {
        let mut taken = Vec::new();
        for shelf in self.shelves.iter_mut().filter(|shelf| !shelf.batches.is_empty()) {
            let is_taken = |batch: &Batch| list.is_none_or(|list| batch.list == list);
            let (mine, others) = shelf.batches.drain(..).partition::<VecDeque<_>, _>(is_taken);
            shelf.batches = others;
            taken.extend(mine);
        }
        self.count -= taken.len();
        self.bytes -= taken.iter().map(Batch::bytes).sum::<u64>();
        taken
    }

    /// Frees the host memory of what is used up.
    pub(super) fn shrink(&mut self) {
        self.spare = Vec::new();
        if self.count == 0 {
            self.shelves = Vec::new();
        }
    }

    /// Bytes of the host's memory that it takes.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let of_shelf = |shelf: &Shelf| shelf.batches.capacity() * size_of::<Batch>();
        let shelves = self.shelves.capacity() * size_of::<Shelf>();
        let batches = self.shelves.iter().map(of_shelf).sum::<usize>();
        let addresses = (self.count + self.spare.len()) * BATCH * size_of::<u64>();
        (shelves + batches + addresses + self.spare.capacity() * size_of::<Vec<u64>>()) as u64
    }

    /// Whether a block with this address is in it.
    pub(super) fn contains(&self, address: u64) -> bool {
        let mut batches = self.shelves.iter().flat_map(|shelf| &shelf.batches);
        batches.any(|batch| batch.addresses.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_BYTES: u64 = 1 << 20;
    const ONE: ListId = ListId(1);
    const OTHER: ListId = ListId(2);

    fn class() -> Class {
        Class::holding(4096).expect("it is small")
    }

    fn put(depot: &mut Depot, list: ListId, point: Point, addresses: &[u64]) -> bool {
        depot.put(class(), (list, point), addresses, MOST_BYTES)
    }

    #[test]
    fn only_what_somebody_wants_is_kept() {
        let mut depot = Depot::default();
        assert!(!put(&mut depot, ONE, 1, &[1, 2]));
        depot.want(Class::holding(256).expect("it is small"));
        assert!(!put(&mut depot, ONE, 1, &[1, 2]), "another class");
        depot.want(class());
        assert!(put(&mut depot, ONE, 1, &[1, 2]));
        assert_eq!(depot.bytes(), 2 * 4096);
        assert!(!put(&mut depot, ONE, 2, &[3]), "that was one");
        let batch = depot.take(class(), |_, _| true).expect("there is one");
        assert_eq!((batch.list, batch.point, &batch.addresses[..]), (ONE, 1, &[1, 2][..]));
        assert_eq!(depot.bytes(), 0);
        depot.recycle(batch);
        assert!(put(&mut depot, ONE, 2, &[3]), "who takes one wants another");
        assert!(depot.contains(3) && !depot.contains(1));
    }

    #[test]
    fn it_holds_no_more_than_it_may() {
        let mut depot = Depot::default();
        depot.want(class());
        assert!(!depot.put(class(), (ONE, 1), &[1, 2], 4096));
        assert!(depot.put(class(), (ONE, 1), &[1], 4096));
    }

    #[test]
    fn batches_that_were_taken_make_room_for_others() {
        let mut depot = Depot::default();
        depot.want(class());
        for point in 0..=MOST_BATCHES as Point {
            assert!(put(&mut depot, ONE, point, &[1]));
            assert!(depot.take(class(), |_, _| true).is_some());
            assert!(depot.is_empty());
        }
    }

    #[test]
    fn there_is_an_end_to_batches() {
        let mut depot = Depot::default();
        let kept = (0..2 * MOST_BATCHES).filter(|_| {
            depot.want(class());
            depot.put(class(), (ONE, 1), &[1], u64::MAX)
        });
        assert_eq!(kept.count(), MOST_BATCHES);
    }

    #[test]
    fn a_taker_gets_the_oldest_that_it_may_use() {
        let mut depot = Depot::default();
        (0..3).for_each(|_| depot.want(class()));
        for (list, point) in [(ONE, 5), (OTHER, 1), (ONE, 3)] {
            assert!(put(&mut depot, list, point, &[point]));
        }
        let mut take = |usable: fn(ListId, Point) -> bool| {
            depot.take(class(), usable).map(|batch| (batch.list, batch.point))
        };
        assert_eq!(take(|list, point| list == ONE && point < 5), Some((ONE, 3)));
        assert_eq!(take(|_, _| false), None);
        assert_eq!(take(|_, _| true), Some((ONE, 5)));
        assert_eq!(take(|_, _| true), Some((OTHER, 1)));
    }

    #[test]
    fn the_batches_of_one_list_can_be_had_alone() {
        let mut depot = Depot::default();
        (0..3).for_each(|_| depot.want(class()));
        for (list, point) in [(ONE, 1), (OTHER, 2), (ONE, 3)] {
            assert!(put(&mut depot, list, point, &[point]));
        }
        let mut points = |list| depot.take_all(list).iter().map(|batch| batch.point).collect();
        let of_one: Vec<Point> = points(Some(ONE));
        let others: Vec<Point> = points(None);
        assert_eq!((of_one, others, depot.bytes()), (vec![1, 3], vec![2], 0));
    }
}
