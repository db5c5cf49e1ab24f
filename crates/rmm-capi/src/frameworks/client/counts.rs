//! The statistics of a client: plain numbers under one lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::spin::{SpinGuard, SpinLock};
use crate::handle::failure::{ErrorFigures, Failure};
use crate::handle::sized::Sized;
use crate::handle::status::RMM_RS_OUT_OF_MEMORY;

/// What sizes are rounded up to in statistics, as by `PyTorch`'s own allocator.
const ROUNDING: usize = 512;

/// The largest request that counts as small.
const MOST_SMALL: usize = 1 << 20;

/// No limit.
const NONE: u64 = u64::MAX;

/// A number that goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ClientStat {
    /// Its value now.
    pub current: i64,
    /// Its highest value since the client was made, or since the last reset of peaks.
    pub peak: i64,
    /// The sum of all increases since the client was made, or since the last reset of sums.
    pub allocated: i64,
    /// The sum of all decreases in that time.
    pub freed: i64,
}

/// The statistics of a client. Each has three entries: of all requests, of those up to 1 MiB, and
/// of larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ClientStatistics {
    /// `sizeof(rmm_rs_client_statistics)`, set by the caller.
    pub size: usize,
    /// Blocks that are allocated.
    pub allocation: [ClientStat; 3],
    /// Their bytes, each request rounded up to a multiple of 512.
    pub allocated_bytes: [ClientStat; 3],
    /// The bytes of active blocks as they were requested: `PyTorch` counts them so.
    pub requested_bytes: [ClientStat; 3],
    /// Blocks that are allocated, and those that were freed and wait for recorded streams.
    pub active: [ClientStat; 3],
    /// Their bytes, each request rounded up to a multiple of 512.
    pub active_bytes: [ClientStat; 3],
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for ClientStatistics {}

/// The size of a block, as the statistics count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSize {
    /// What was requested: at most `isize::MAX`, as that of every layout.
    pub(crate) requested: usize,
}

impl BlockSize {
    /// The request, rounded up to a multiple of 512.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        self.requested.next_multiple_of(ROUNDING)
    }

    /// What an allocation adds.
    #[inline]
    fn amounts(self) -> Amounts {
        // No layout has more than `isize::MAX` bytes, and no device has as many.
        let (bytes, requested) = (self.bytes().cast_signed(), self.requested.cast_signed());
        [1, bytes as i64, requested as i64, 1, bytes as i64]
    }
}

/// One number for each field of the statistics, in their order.
type Amounts = [i64; 5];

/// The fields that a free changes if the block stays active.
const ALLOCATED: std::ops::Range<usize> = 0..2;
/// The fields that the return of a freed block changes.
const ACTIVE: std::ops::Range<usize> = 2..5;

/// The counts of small blocks, or of large ones.
///
/// # Invariant
/// `current = before + allocated - freed`, where `freed` is not kept.
#[derive(Clone, Copy, Debug, Default)]
struct ClassCounts {
    current: Amounts,
    peak: Amounts,
    /// Increases since the last reset of sums.
    allocated: Amounts,
    /// `current` at that time.
    before: Amounts,
}

impl ClassCounts {
    fn stat(&self, field: usize) -> ClientStat {
        let (current, peak) = (self.current[field], self.peak[field]);
        let allocated = self.allocated[field];
        ClientStat { current, peak, allocated, freed: self.before[field] + allocated - current }
    }
}

/// What the lock protects.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Of all blocks: the sums of the two classes, and their peaks.
    current: Amounts,
    peak: Amounts,
    small: ClassCounts,
    large: ClassCounts,
    /// Bytes of requests that are in progress, while there is a limit.
    in_progress: u64,
}

impl Numbers {
    #[inline]
    fn class(&mut self, size: BlockSize) -> &mut ClassCounts {
        if size.requested <= MOST_SMALL { &mut self.small } else { &mut self.large }
    }

    #[inline]
    fn add(&mut self, size: BlockSize) {
        let amounts = size.amounts();
        let class = self.class(size);
        for (field, amount) in amounts.into_iter().enumerate() {
            class.current[field] += amount;
            class.peak[field] = class.peak[field].max(class.current[field]);
            class.allocated[field] += amount;
        }
        for (field, amount) in amounts.into_iter().enumerate() {
            self.current[field] += amount;
            self.peak[field] = self.peak[field].max(self.current[field]);
        }
    }

    #[inline]
    fn subtract(&mut self, size: BlockSize, fields: std::ops::Range<usize>) {
        let amounts = size.amounts();
        let class = self.class(size);
        for field in fields.clone() {
            class.current[field] -= amounts[field];
        }
        for field in fields {
            self.current[field] -= amounts[field];
        }
    }

    fn statistics(&self) -> ClientStatistics {
        let field = |field: usize| {
            let [small, large] = [&self.small, &self.large].map(|class| class.stat(field));
            let all = ClientStat {
                current: self.current[field],
                peak: self.peak[field],
                allocated: small.allocated + large.allocated,
                freed: small.freed + large.freed,
            };
            [all, small, large]
        };
        ClientStatistics {
            size: 0,
            allocation: field(0),
            allocated_bytes: field(1),
            requested_bytes: field(2),
            active: field(3),
            active_bytes: field(4),
        }
    }
}

/// The statistics and the limit of a client.
///
/// In cache lines of their own: each call writes them, and reads the client's other fields.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counts {
    numbers: SpinLock<Numbers>,
    /// The most bytes that may be allocated.
    limit: AtomicU64,
}

/// Room within the limit for a request in progress. It ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Room<'a> {
    counts: &'a Counts,
    /// 0 without a limit.
    bytes: u64,
}

impl Room<'_> {
    /// Counts the block of the request, which succeeded.
    #[inline]
    pub(crate) fn fill(mut self, size: BlockSize) {
        let mut numbers = self.counts.lock();
        numbers.in_progress -= std::mem::take(&mut self.bytes);
        numbers.add(size);
    }
}

impl Drop for Room<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.counts.lock().in_progress -= self.bytes;
        }
    }
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self { numbers: SpinLock::default(), limit: AtomicU64::new(NONE) }
    }

    #[inline]
    fn lock(&self) -> SpinGuard<'_, Numbers> {
        self.numbers.lock()
    }

    /// Sets the most bytes that may be allocated. What is allocated beyond stays.
    pub(crate) fn limit_to(&self, bytes: u64) {
        // It protects no other memory.
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Reserves room within the limit for a request.
    ///
    /// # Errors
    /// If there is too little. Other requests in progress count.
    #[inline]
    pub(crate) fn reserve(&self, size: BlockSize) -> Result<Room<'_>, Failure> {
        let limit = self.limit.load(Ordering::Relaxed);
        let bytes = if limit == NONE { 0 } else { self.reserve_within(limit, size)? };
        Ok(Room { counts: self, bytes })
    }

    #[cold]
    fn reserve_within(&self, limit: u64, size: BlockSize) -> Result<u64, Failure> {
        let bytes = size.bytes() as u64;
        let mut numbers = self.lock();
        let live = numbers.current[1].cast_unsigned();
        let sum = live + numbers.in_progress;
        if sum.checked_add(bytes).is_some_and(|sum| sum <= limit) {
            numbers.in_progress += bytes;
            return Ok(bytes);
        }
        drop(numbers);
        let requested = size.requested as u64;
        let text = format!(
            "out of memory: {requested} bytes, with {live} allocated, are more than the {limit} \
             that the memory fraction allows"
        );
        let (requested, live) = (Some(requested), Some(live));
        let figures =
            ErrorFigures { requested, live, limit: Some(limit), ..ErrorFigures::default() };
        Err(Failure { figures: Box::new(figures), ..Failure::plain(RMM_RS_OUT_OF_MEMORY, text) })
    }

    /// Counts an allocation, whatever the limit is.
    pub(crate) fn allocate(&self, size: BlockSize) {
        self.lock().add(size);
    }

    /// Counts a free whose block goes back to its resource now.
    #[inline]
    pub(crate) fn free(&self, size: BlockSize) {
        self.lock().subtract(size, ALLOCATED.start..ACTIVE.end);
    }

    /// Counts a free whose block stays active.
    pub(crate) fn free_later(&self, size: BlockSize) {
        self.lock().subtract(size, ALLOCATED);
    }

    /// Counts the return of a block that was freed before.
    pub(crate) fn release(&self, size: BlockSize) {
        self.lock().subtract(size, ACTIVE);
    }

    /// The statistics as they are at one time.
    pub(crate) fn read(&self) -> ClientStatistics {
        let numbers = *self.lock();
        numbers.statistics()
    }

    /// Lowers all peaks to the current values.
    pub(crate) fn reset_peaks(&self) {
        let mut numbers = self.lock();
        numbers.peak = numbers.current;
        let Numbers { small, large, .. } = &mut *numbers;
        for class in [small, large] {
            class.peak = class.current;
        }
    }

    /// Sets all sums to 0.
    pub(crate) fn reset_accumulated(&self) {
        let Numbers { small, large, .. } = &mut *self.lock();
        for class in [small, large] {
            (class.allocated, class.before) = (Amounts::default(), class.current);
        }
    }
}
