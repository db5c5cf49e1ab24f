//! Per-thread counters of each tag.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::tag::{MOST_TAGS, Tag, TagUsage};

/// Bytes that a thread counts locally before it adds them to the shared sums.
pub(super) const BATCH: i64 = 1 << 20;

/// How many tags' counters are allocated together.
const CHUNK: usize = 32;
const CHUNKS: usize = MOST_TAGS / CHUNK;

type Chunks<T> = [OnceLock<Box<[T; CHUNK]>>; CHUNKS];

/// Counters of one resource.
pub(super) struct Usage {
    id: u64,
    shared: Arc<Shared>,
}

/// The sums over all threads, and the counters of each thread.
struct Shared {
    tags: Chunks<Total>,
    threads: Mutex<Vec<Arc<ThreadCounters>>>,
}

/// The sums of a tag over all threads, without what threads have not added yet.
#[derive(Default)]
struct Total {
    bytes: AtomicI64,
    peak: AtomicI64,
}

/// The counters of one thread, which is their only writer.
#[derive(Default)]
struct ThreadCounters {
    tags: Chunks<Cell>,
}

/// What one thread has not added to a tag's sums yet; the thread is the only writer.
#[derive(Default)]
struct Cell {
    bytes: AtomicI64,
    /// The maximum of `bytes` since the last addition to the sums.
    most: AtomicI64,
    /// Live blocks; never added to the sums.
    blocks: AtomicI64,
}

thread_local! {
    /// The counters of this thread for each resource, by the resource's id. The most recently used
    /// resource is first.
    static LOCAL: RefCell<Vec<LocalCounters>> = const { RefCell::new(Vec::new()) };
}

struct LocalCounters {
    id: u64,
    cells: Arc<ThreadCounters>,
    /// Expires with the resource.
    resource: Weak<Shared>,
}

fn of<T: Default>(chunks: &Chunks<T>, tag: Tag) -> &T {
    let (chunk, place) = (tag.place() / CHUNK % CHUNKS, tag.place() % CHUNK);
    &chunks[chunk].get_or_init(|| Box::new(std::array::from_fn(|_| T::default())))[place]
}

fn known<T>(chunks: &Chunks<T>, tag: Tag) -> Option<&T> {
    Some(&chunks[tag.place() / CHUNK % CHUNKS].get()?[tag.place() % CHUNK])
}

impl Default for Usage {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared =
            Shared { tags: std::array::from_fn(|_| OnceLock::new()), threads: Mutex::default() };
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), shared: Arc::new(shared) }
    }
}

impl Usage {
    #[inline]
    pub(super) fn add(&self, tag: Tag, bytes: usize) {
        self.change(tag, i64::try_from(bytes).unwrap_or(i64::MAX), 1);
    }

    #[inline]
    pub(super) fn subtract(&self, tag: Tag, bytes: usize) {
        self.change(tag, -i64::try_from(bytes).unwrap_or(i64::MAX), -1);
    }

    #[inline]
    fn change(&self, tag: Tag, bytes: i64, blocks: i64) {
        // A thread that is ending may have no counters any more: its changes then go to the sums at
        // once.
        let counted = LOCAL.try_with(|mine| {
            let Ok(mut mine) = mine.try_borrow_mut() else { return false };
            if mine.first().is_none_or(|first| first.id != self.id) {
                self.bring_forward(&mut mine);
            }
            self.shared.count(of(&mine[0].cells.tags, tag), tag, bytes, blocks);
            true
        });
        if counted != Ok(true) {
            self.change_at_the_end(tag, bytes, blocks);
        }
    }

    #[cold]
    fn change_at_the_end(&self, tag: Tag, bytes: i64, blocks: i64) {
        let cells = ThreadCounters::default();
        self.shared.count(of(&cells.tags, tag), tag, bytes, blocks);
        self.shared.threads().push(Arc::new(cells));
    }

    /// Moves this thread's counters of the resource to the front; creates them if there are none.
    #[cold]
    fn bring_forward(&self, mine: &mut Vec<LocalCounters>) {
        if let Some(place) = mine.iter().position(|mine| mine.id == self.id) {
            return mine.swap(0, place);
        }
        mine.retain(|mine| mine.resource.strong_count() > 0);
        let cells = Arc::new(ThreadCounters::default());
        self.shared.register(&cells);
        let resource = Arc::downgrade(&self.shared);
        mine.insert(0, LocalCounters { id: self.id, cells, resource });
    }

    /// The usage of one tag.
    pub(super) fn of(&self, tag: Tag) -> TagUsage {
        let mut threads = self.shared.threads();
        self.shared.fold_ended(&mut threads);
        let (mut sum, mut most, mut blocks) = (0, 0, 0);
        for cell in threads.iter().filter_map(|cells| known(&cells.tags, tag)) {
            sum += cell.bytes.load(Ordering::Relaxed);
            most = most.max(cell.most.load(Ordering::Relaxed));
            blocks += cell.blocks.load(Ordering::Relaxed);
        }
        let total = known(&self.shared.tags, tag);
        let total = |field: fn(&Total) -> &AtomicI64| {
            total.map_or(0, |total| field(total).load(Ordering::Relaxed))
        };
        let added = total(|total| &total.bytes);
        let live = added + sum;
        let peak = total(|total| &total.peak).max(added + most).max(live);
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        TagUsage::new(tag, count(live), count(blocks), count(peak))
    }

    /// The usage of every tag that ever had memory, the largest first.
    pub(super) fn all(&self) -> Vec<TagUsage> {
        let tags = (0..MOST_TAGS).filter_map(|number| u16::try_from(number).ok());
        let usages = tags.map(|number| self.of(Tag::numbered(number)));
        let mut usages: Vec<TagUsage> = usages.filter(|usage| usage.peak_bytes > 0).collect();
        usages.sort_by_key(|usage| (Reverse(usage.live_bytes), Reverse(usage.peak_bytes)));
        usages
    }
}

impl Shared {
    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<Arc<ThreadCounters>>> {
        fork::lock(&self.threads)
    }

    #[inline]
    fn count(&self, cell: &Cell, tag: Tag, bytes: i64, blocks: i64) {
        let (load, store) = (AtomicI64::load, AtomicI64::store);
        store(&cell.blocks, load(&cell.blocks, Ordering::Relaxed) + blocks, Ordering::Relaxed);
        let sum = load(&cell.bytes, Ordering::Relaxed).saturating_add(bytes);
        store(&cell.bytes, sum, Ordering::Relaxed);
        if sum > load(&cell.most, Ordering::Relaxed) {
            store(&cell.most, sum, Ordering::Relaxed);
        }
        if sum.unsigned_abs() >= BATCH.unsigned_abs() {
            self.hand_over(cell, tag);
        }
    }

    /// Adds a thread's local count to the sums.
    #[cold]
    fn hand_over(&self, cell: &Cell, tag: Tag) {
        let (bytes, most) = (cell.bytes.load(Ordering::Relaxed), cell.most.load(Ordering::Relaxed));
        cell.bytes.store(0, Ordering::Relaxed);
        cell.most.store(0, Ordering::Relaxed);
        let total = of(&self.tags, tag);
        let before = total.bytes.fetch_add(bytes, Ordering::Relaxed);
        let peak = before.saturating_add(most.max(bytes));
        if peak > total.peak.load(Ordering::Relaxed) {
            total.peak.fetch_max(peak, Ordering::Relaxed);
        }
    }

    fn register(&self, cells: &Arc<ThreadCounters>) {
        let mut threads = self.threads();
        self.fold_ended(&mut threads);
        threads.push(Arc::clone(cells));
    }

    /// Merges the counters of threads that have ended into one set.
    fn fold_ended(&self, threads: &mut Vec<Arc<ThreadCounters>>) {
        // The only reference: the thread has dropped its own, so everything that it counted is
        // visible.
        let is_ended = |cells: &mut Arc<ThreadCounters>| Arc::get_mut(cells).is_some();
        if threads.iter_mut().filter_map(Arc::get_mut).count() < 2 {
            return;
        }
        let all = ThreadCounters::default();
        for cells in threads.extract_if(.., is_ended) {
            for number in (0..MOST_TAGS).filter_map(|number| u16::try_from(number).ok()) {
                let tag = Tag::numbered(number);
                if let Some(cell) = known(&cells.tags, tag) {
                    let blocks = cell.blocks.load(Ordering::Relaxed);
                    self.hand_over(cell, tag);
                    if blocks != 0 {
                        self.count(of(&all.tags, tag), tag, 0, blocks);
                    }
                }
            }
        }
        threads.push(Arc::new(all));
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}
