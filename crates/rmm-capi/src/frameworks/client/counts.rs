//! The statistics of a client: plain numbers under one lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use rmm_core::fork;

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

impl ClientStat {
    #[inline]
    fn add(&mut self, amount: i64) {
        self.current += amount;
        self.allocated += amount;
        self.peak = self.peak.max(self.current);
    }

    #[inline]
    fn subtract(&mut self, amount: i64) {
        self.current -= amount;
        self.freed += amount;
    }
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
    /// Their bytes as they were requested.
    pub requested_bytes: [ClientStat; 3],
    /// Blocks that are allocated, and those that were freed and wait for recorded streams.
    pub active: [ClientStat; 3],
    /// Their bytes, each request rounded up to a multiple of 512.
    pub active_bytes: [ClientStat; 3],
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for ClientStatistics {}

impl ClientStatistics {
    fn for_each(&mut self, mut act: impl FnMut(&mut ClientStat)) {
        let all = [
            &mut self.allocation,
            &mut self.allocated_bytes,
            &mut self.requested_bytes,
            &mut self.active,
            &mut self.active_bytes,
        ];
        all.into_iter().flatten().for_each(&mut act);
    }

    #[inline]
    fn subtract_allocated(&mut self, size: BlockSize) {
        for class in [0, size.class()] {
            self.allocation[class].subtract(1);
            self.allocated_bytes[class].subtract(size.bytes_signed());
            self.requested_bytes[class].subtract(size.requested_signed());
        }
    }

    #[inline]
    fn subtract_active(&mut self, size: BlockSize) {
        for class in [0, size.class()] {
            self.active[class].subtract(1);
            self.active_bytes[class].subtract(size.bytes_signed());
        }
    }
}

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

    #[inline]
    fn class(self) -> usize {
        if self.requested <= MOST_SMALL { 1 } else { 2 }
    }

    // Blocks of a device are far below 2^63 bytes: a layout is, and no allocation of more succeeds.
    #[inline]
    fn bytes_signed(self) -> i64 {
        self.bytes().cast_signed() as i64
    }

    #[inline]
    fn requested_signed(self) -> i64 {
        self.requested.cast_signed() as i64
    }
}

/// What the lock protects.
#[derive(Debug, Default)]
struct Numbers {
    statistics: ClientStatistics,
    /// Bytes of requests that are in progress, while there is a limit.
    requested: u64,
}

/// The statistics and the limit of a client.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Lock order: leaf. Take no other lock, and call no resource, while holding it.
    numbers: Mutex<Numbers>,
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
        numbers.requested -= std::mem::take(&mut self.bytes);
        let all = &mut numbers.statistics;
        for class in [0, size.class()] {
            all.allocation[class].add(1);
            all.allocated_bytes[class].add(size.bytes_signed());
            all.requested_bytes[class].add(size.requested_signed());
            all.active[class].add(1);
            all.active_bytes[class].add(size.bytes_signed());
        }
    }
}

impl Drop for Room<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.counts.lock().requested -= self.bytes;
        }
    }
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self { numbers: Mutex::default(), limit: AtomicU64::new(NONE) }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Numbers> {
        fork::lock(&self.numbers)
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
        let live = numbers.statistics.allocated_bytes[0].current.cast_unsigned();
        let sum = live + numbers.requested;
        if sum.checked_add(bytes).is_some_and(|sum| sum <= limit) {
            numbers.requested += bytes;
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

    /// Counts a free whose block goes back to its resource now.
    #[inline]
    pub(crate) fn free(&self, size: BlockSize) {
        let mut numbers = self.lock();
        numbers.statistics.subtract_allocated(size);
        numbers.statistics.subtract_active(size);
    }

    /// Counts a free whose block stays active.
    pub(crate) fn free_later(&self, size: BlockSize) {
        self.lock().statistics.subtract_allocated(size);
    }

    /// Counts the return of a block that was freed before.
    pub(crate) fn give_back(&self, size: BlockSize) {
        self.lock().statistics.subtract_active(size);
    }

    /// The statistics as they are at one time.
    pub(crate) fn read(&self) -> ClientStatistics {
        self.lock().statistics
    }

    /// Lowers all peaks to the current values.
    pub(crate) fn reset_peaks(&self) {
        self.lock().statistics.for_each(|stat| stat.peak = stat.current);
    }

    /// Sets all sums to 0.
    pub(crate) fn reset_accumulated(&self) {
        self.lock().statistics.for_each(|stat| (stat.allocated, stat.freed) = (0, 0));
    }
}
