//! The counters of statistics adaptors.

use rmm_adaptors::{AllocationCounters, StatisticsResourceAdaptor};

use crate::handle::failure::Failure;
use crate::handle::find::with_adaptor;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;

/// What a statistics adaptor counted.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CountedBlocks {
    /// `sizeof(rmm_rs_statistics)`, set by the caller.
    pub size: usize,
    /// Bytes allocated now.
    pub current_bytes: i64,
    /// The most bytes at once.
    pub peak_bytes: i64,
    /// Bytes of all allocations.
    pub total_bytes: i64,
    /// Blocks allocated now.
    pub current_allocations: i64,
    /// The most blocks at once.
    pub peak_allocations: i64,
    /// All allocations.
    pub total_allocations: i64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for CountedBlocks {}

impl From<AllocationCounters> for CountedBlocks {
    fn from(counters: AllocationCounters) -> Self {
        let AllocationCounters { bytes, allocations, .. } = counters;
        Self {
            size: 0,
            current_bytes: bytes.value,
            peak_bytes: bytes.peak,
            total_bytes: bytes.total,
            current_allocations: allocations.value,
            peak_allocations: allocations.peak,
            total_allocations: allocations.total,
        }
    }
}

/// Writes what the statistics adaptor, or the first one below the resource, has counted since it
/// was made, or since the last push.
///
/// Source: `statistics_resource_adaptor::get_bytes_counter`, `get_allocations_counter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_statistics_get(
    resource: *const ResourceHandle,
    out: *mut CountedBlocks,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let counters =
            with_adaptor!(resource, StatisticsResourceAdaptor, "counts allocations", |this| this
                .counters())?;
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_statistics", out, &counters.into()) }
    })
}

/// Changes what an adaptor counts, and writes what it counted, unless `out` is null. Nothing
/// changes if that cannot be written.
///
/// # Safety
/// `resource` is null or live during the call. `out` is null or a structure as large as it says,
/// and writable.
unsafe fn change(
    resource: *const ResourceHandle,
    out: *mut CountedBlocks,
    change: impl FnOnce(&ResourceHandle) -> Result<AllocationCounters, Failure>,
) -> Status {
    guard::status(|| {
        // SAFETY: the caller's contract.
        let resource = unsafe { borrow(resource) }?;
        if out.is_null() {
            return change(resource).map(drop);
        }
        // SAFETY: the caller's contract.
        unsafe { sized::check("rmm_rs_statistics", out) }?;
        let counters = change(resource)?;
        // SAFETY: the caller's contract.
        unsafe { sized::write("rmm_rs_statistics", out, &counters.into()) }
    })
}

/// Begins to count anew, and writes what was counted before, unless `out` is null.
///
/// Source: `statistics_resource_adaptor::push_counters`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_statistics_push(
    resource: *const ResourceHandle,
    out: *mut CountedBlocks,
) -> Status {
    let push = |resource: &ResourceHandle| {
        let does = "counts allocations";
        with_adaptor!(resource, StatisticsResourceAdaptor, does, |this| this.push_counters())
    };
    // SAFETY: by the clauses on handles and structures, for `resource` and `out`.
    unsafe { change(resource, out, push) }
}

/// Ends the last push, adds what was counted since to what was counted before, and writes it,
/// unless `out` is null. `RMM_RS_INVALID_ARGUMENT` if there was no push.
///
/// Source: `statistics_resource_adaptor::pop_counters`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_statistics_pop(
    resource: *const ResourceHandle,
    out: *mut CountedBlocks,
) -> Status {
    let pop = |resource: &ResourceHandle| {
        let does = "counts allocations";
        let popped =
            with_adaptor!(resource, StatisticsResourceAdaptor, does, |this| this.pop_counters())?;
        Ok(popped?)
    };
    // SAFETY: by the clauses on handles and structures, for `resource` and `out`.
    unsafe { change(resource, out, pop) }
}
