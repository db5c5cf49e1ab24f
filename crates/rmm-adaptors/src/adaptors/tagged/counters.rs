//! Counters of live bytes and blocks for each tag: one set for each thread, and totals.
//!
//! A thread counts in its own set, whose cache lines no other thread writes to. Once its count of a
//! tag's bytes has moved by [`BATCH`], it adds that count to the tag's total and begins again at 0.
//! A reader adds the counts of all threads to the total:
//!
//! ```text
//! tag "loader"   total 40 MiB  +  thread 1: 0.3 MiB  +  thread 2: -0.1 MiB  =  40.2 MiB live
//! ```
//!
//! A reported peak may be off by [`BATCH`] for each thread that uses the tag at the same time. The
//! peak of a tag that one thread uses at a time is exact.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::tag::{MOST_TAGS, Tag, TagUsage};

/// The change in bytes, up or down, at which a thread adds its count of a tag to the total.
pub(super) const BATCH: i64 = 1 << 20;

/// Tags whose counters are allocated together.
const CHUNK: usize = 32;
/// Chunks for all tags.
const CHUNKS: usize = MOST_TAGS / CHUNK;

/// One `T` for each tag, in chunks that are allocated at the first use of a tag in them.
type Chunks<T> = [OnceLock<Box<[T; CHUNK]>>; CHUNKS];

/// The counters of one resource.
pub(super) struct Usage {
    /// Identifies the resource in [`LOCAL`]; never reused.
    id: u64,
    shared: Arc<UsageShared>,
}

/// The totals of a resource, and the counters of each thread that has used it.
struct UsageShared {
    totals: Chunks<Total>,
    threads: Mutex<Vec<Arc<ThreadCounters>>>,
}

/// The total of one tag, without what threads have not added yet.
#[derive(Default)]
struct Total {
    bytes: AtomicI64,
    /// The maximum of `bytes`, including what the adding threads had counted in between.
    peak: AtomicI64,
}

/// The counters of one thread for one resource. Only that thread writes to them, so a load and a
/// store take the place of an atomic addition.
#[derive(Default)]
struct ThreadCounters {
    tags: Chunks<LocalCount>,
}

/// What one thread has counted for one tag.
#[derive(Default)]
struct LocalCount {
    /// Bytes that are not in the total yet. Negative if the thread frees what others allocated.
    bytes: AtomicI64,
    /// The maximum of `bytes` since it was last added to the total.
    most: AtomicI64,
    /// Blocks allocated minus blocks freed; the total has none.
    blocks: AtomicI64,
}

thread_local! {
    /// This thread's counters, one entry for each resource. The most recently used entry is first.
    static LOCAL: RefCell<Vec<LocalEntry>> = const { RefCell::new(Vec::new()) };
}

/// A thread's counters for one resource.
struct LocalEntry {
    /// The resource's [`Usage::id`].
    id: u64,
    counters: Arc<ThreadCounters>,
    /// Whether the resource still exists: if not, the entry can go.
    resource: Weak<UsageShared>,
}

/// The tag's counter. Allocates its chunk at the first use.
fn get_or_allocate<T: Default>(chunks: &Chunks<T>, tag: Tag) -> &T {
    let (chunk, index) = (tag.index() / CHUNK % CHUNKS, tag.index() % CHUNK);
    &chunks[chunk].get_or_init(|| Box::new(std::array::from_fn(|_| T::default())))[index]
}

/// The tag's counter, if its chunk is allocated.
fn get<T>(chunks: &Chunks<T>, tag: Tag) -> Option<&T> {
    Some(&chunks[tag.index() / CHUNK % CHUNKS].get()?[tag.index() % CHUNK])
}

impl Default for Usage {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let totals = std::array::from_fn(|_| OnceLock::new());
        let shared = Arc::new(UsageShared { totals, threads: Mutex::default() });
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), shared }
    }
}

impl Usage {
    /// Counts an allocation of `bytes` for the tag.
    #[inline]
    pub(super) fn add(&self, tag: Tag, bytes: usize) {
        self.change(tag, i64::try_from(bytes).unwrap_or(i64::MAX), 1);
    }

    /// Counts a free of `bytes` for the tag.
    #[inline]
    pub(super) fn subtract(&self, tag: Tag, bytes: usize) {
        self.change(tag, -i64::try_from(bytes).unwrap_or(i64::MAX), -1);
    }

    #[inline]
    fn change(&self, tag: Tag, bytes: i64, blocks: i64) {
        let counted = LOCAL.try_with(|entries| {
            let Ok(mut entries) = entries.try_borrow_mut() else { return false };
            if entries.first().is_none_or(|first| first.id != self.id) {
                self.move_to_front(&mut entries);
            }
            let count = get_or_allocate(&entries[0].counters.tags, tag);
            self.shared.count(count, tag, bytes, blocks);
            true
        });
        if counted != Ok(true) {
            self.change_without_thread_local(tag, bytes, blocks);
        }
    }

    /// Counts a change on a thread that cannot use its counters, as they were dropped when the
    /// thread ended or are borrowed. It makes a set for this change alone, which
    /// [`merge_ended`](UsageShared::merge_ended) merges.
    #[cold]
    fn change_without_thread_local(&self, tag: Tag, bytes: i64, blocks: i64) {
        let counters = ThreadCounters::default();
        self.shared.count(get_or_allocate(&counters.tags, tag), tag, bytes, blocks);
        self.shared.threads().push(Arc::new(counters));
    }

    /// Moves this resource's entry to the front; makes one if there is none.
    #[cold]
    fn move_to_front(&self, entries: &mut Vec<LocalEntry>) {
        if let Some(index) = entries.iter().position(|entry| entry.id == self.id) {
            return entries.swap(0, index);
        }
        entries.retain(|entry| entry.resource.strong_count() > 0);
        let counters = Arc::new(ThreadCounters::default());
        self.shared.register(&counters);
        let resource = Arc::downgrade(&self.shared);
        entries.insert(0, LocalEntry { id: self.id, counters, resource });
    }

    /// The usage of one tag.
    pub(super) fn of(&self, tag: Tag) -> TagUsage {
        let threads = self.shared.merged();
        self.shared.of(&threads, tag)
    }

    /// The usage of every tag that ever had memory, sorted by live bytes, then by peak, from the
    /// largest.
    pub(super) fn all(&self) -> Vec<TagUsage> {
        self.shared.all()
    }

    /// The counters, to be read while the resource exists.
    pub(super) fn source(&self) -> TagSource {
        TagSource(Arc::downgrade(&self.shared))
    }
}

/// The counters of a resource, which it does not keep alive.
#[derive(Clone)]
pub(crate) struct TagSource(Weak<UsageShared>);

impl TagSource {
    /// The usage of every tag that ever had memory, the largest first; `None` if the resource is
    /// gone.
    pub(crate) fn read(&self) -> Option<Vec<TagUsage>> {
        Some(self.0.upgrade()?.all())
    }

    /// Whether the resource exists.
    pub(crate) fn exists(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether both are of one resource.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl UsageShared {
    fn threads(&self) -> MutexGuard<'_, Vec<Arc<ThreadCounters>>> {
        fork::lock(&self.threads)
    }

    /// The counters of the threads, those that have ended merged.
    fn merged(&self) -> MutexGuard<'_, Vec<Arc<ThreadCounters>>> {
        let mut threads = self.threads();
        self.merge_ended(&mut threads);
        threads
    }

    /// The usage of one tag: its total, and what threads have not added to it yet.
    fn of(&self, threads: &[Arc<ThreadCounters>], tag: Tag) -> TagUsage {
        let (mut not_added, mut most, mut blocks) = (0, 0, 0);
        for count in threads.iter().filter_map(|counters| get(&counters.tags, tag)) {
            not_added += count.bytes.load(Ordering::Relaxed);
            most = most.max(count.most.load(Ordering::Relaxed));
            blocks += count.blocks.load(Ordering::Relaxed);
        }
        let total = get(&self.totals, tag);
        let total = |field: fn(&Total) -> &AtomicI64| {
            total.map_or(0, |total| field(total).load(Ordering::Relaxed))
        };
        let added = total(|total| &total.bytes);
        let live = added + not_added;
        let peak = total(|total| &total.peak).max(added + most).max(live);
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        TagUsage::new(tag, count(live), count(blocks), count(peak))
    }

    /// See [`Usage::all`]. Looks only at tags whose counters some thread has allocated.
    fn all(&self) -> Vec<TagUsage> {
        let threads = self.merged();
        let is_used = |chunk: &usize| {
            let mut threads = threads.iter();
            self.totals[*chunk].get().is_some()
                || threads.any(|counters| counters.tags[*chunk].get().is_some())
        };
        let chunks = (0..CHUNKS).filter(is_used);
        let numbers = chunks.flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK);
        let tags = numbers.filter_map(|number| u16::try_from(number).ok());
        let usages = tags.map(|number| self.of(&threads, Tag::numbered(number)));
        let mut usages: Vec<TagUsage> = usages.filter(|usage| usage.peak_bytes > 0).collect();
        usages.sort_by_key(|usage| (Reverse(usage.live_bytes), Reverse(usage.peak_bytes)));
        usages
    }

    /// Changes a count of this thread, and adds it to the tag's total once it has reached
    /// [`BATCH`].
    #[inline]
    fn count(&self, count: &LocalCount, tag: Tag, bytes: i64, blocks: i64) {
        let (load, store) = (AtomicI64::load, AtomicI64::store);
        store(&count.blocks, load(&count.blocks, Ordering::Relaxed) + blocks, Ordering::Relaxed);
        let sum = load(&count.bytes, Ordering::Relaxed).saturating_add(bytes);
        store(&count.bytes, sum, Ordering::Relaxed);
        if sum > load(&count.most, Ordering::Relaxed) {
            store(&count.most, sum, Ordering::Relaxed);
        }
        if sum.unsigned_abs() >= BATCH.unsigned_abs() {
            self.add_to_total(count, tag);
        }
    }

    /// Adds a thread's count of bytes to the tag's total, and sets it to 0.
    #[cold]
    fn add_to_total(&self, count: &LocalCount, tag: Tag) {
        let (bytes, most) =
            (count.bytes.load(Ordering::Relaxed), count.most.load(Ordering::Relaxed));
        count.bytes.store(0, Ordering::Relaxed);
        count.most.store(0, Ordering::Relaxed);
        let total = get_or_allocate(&self.totals, tag);
        let before = total.bytes.fetch_add(bytes, Ordering::Relaxed);
        let peak = before.saturating_add(most.max(bytes));
        if peak > total.peak.load(Ordering::Relaxed) {
            total.peak.fetch_max(peak, Ordering::Relaxed);
        }
    }

    /// Adds a thread's counters to those that readers add up.
    fn register(&self, counters: &Arc<ThreadCounters>) {
        let mut threads = self.threads();
        self.merge_ended(&mut threads);
        threads.push(Arc::clone(counters));
    }

    /// Merges the counters of threads that have ended into one set, if there are two or more.
    fn merge_ended(&self, threads: &mut Vec<Arc<ThreadCounters>>) {
        // A thread has ended if it has dropped its reference. `get_mut` synchronizes with that
        // drop, so everything that the thread counted is visible here.
        let is_ended = |counters: &mut Arc<ThreadCounters>| Arc::get_mut(counters).is_some();
        if threads.iter_mut().filter_map(Arc::get_mut).count() < 2 {
            return;
        }
        let merged = ThreadCounters::default();
        for counters in threads.extract_if(.., is_ended) {
            for number in (0..MOST_TAGS).filter_map(|number| u16::try_from(number).ok()) {
                let tag = Tag::numbered(number);
                if let Some(count) = get(&counters.tags, tag) {
                    let blocks = count.blocks.load(Ordering::Relaxed);
                    self.add_to_total(count, tag);
                    if blocks != 0 {
                        self.count(get_or_allocate(&merged.tags, tag), tag, 0, blocks);
                    }
                }
            }
        }
        threads.push(Arc::new(merged));
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}
