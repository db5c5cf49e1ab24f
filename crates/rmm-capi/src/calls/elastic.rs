//! Elastic memory: addresses for a maximum, and memory for ranges that comes and goes in place.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Mutex;

use rmm_containers::ElasticBuffer;
use rmm_core::sys::CuStream;
use rmm_core::{StreamRef, SynchronousResource as _, fork};
use rmm_resources::VirtualMemoryResource;

use crate::calls::allocate::to_c;
use crate::calls::pool::store;
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::library::{clear_mut, clear_number};
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;
use crate::streams;

/// Addresses, of which ranges have memory.
#[derive(Debug)]
pub struct Elastic {
    buffer: Mutex<ElasticBuffer>,
}

/// What elastic memory holds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ElasticFigures {
    /// `sizeof(rmm_rs_elastic_figures)`, set by the caller.
    pub size: usize,
    /// The first address, which does not change.
    pub pointer: *mut c_void,
    /// Bytes of addresses, a multiple of the page size.
    pub capacity: u64,
    /// The bytes of a page: of what is committed and decommitted.
    pub page_size: u64,
    /// Bytes that are committed.
    pub committed: u64,
    /// Those of them that are committed from the first address on without a gap.
    pub front: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers and a pointer, of the same size.
unsafe impl Sized for ElasticFigures {}

/// # Safety
/// `elastic` is null or live during the call.
unsafe fn with<R>(
    elastic: *const Elastic,
    act: impl FnOnce(&mut ElasticBuffer) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the caller's contract.
    let elastic = unsafe { found(elastic) }?;
    act(&mut fork::lock(&elastic.buffer))
}

/// # Safety
/// It is null or live for as long.
unsafe fn found<'a>(elastic: *const Elastic) -> Result<&'a Elastic, Failure> {
    // SAFETY: the caller's contract.
    let elastic = unsafe { elastic.as_ref() };
    elastic.ok_or_else(|| Failure::invalid("the elastic memory is null"))
}

/// # Errors
/// For a range that cannot be addressed.
fn range(offset: u64, bytes: u64) -> Result<Range<usize>, Failure> {
    let end = offset.checked_add(bytes).and_then(|end| usize::try_from(end).ok());
    let start = usize::try_from(offset).ok();
    let range = start.zip(end).map(|(start, end)| start..end);
    range.ok_or_else(|| {
        Failure::invalid(format!("{bytes} bytes from {offset} on cannot be addressed"))
    })
}

/// Reserves addresses for `capacity` bytes, rounded up to whole pages of the resource, which is one
/// of `rmm_rs_virtual_resource_new` or `rmm_rs_virtual_resource_for_export`, not one over it.
/// Memory is used in the context of `stream`, on which nothing is enqueued. Stores a handle in
/// `out`, to be released by `rmm_rs_elastic_release`. Calls of several threads with it are made one
/// after another: while one waits, so do the others. A commit that asks pools to return memory lets
/// their callbacks call them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_reserve(
    resource: *const ResourceHandle,
    capacity: u64,
    stream: *mut c_void,
    out: *mut *mut Elastic,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the elastic memory is null"));
        }
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let pages = resource.any.downcast_ref::<VirtualMemoryResource>().ok_or_else(|| {
            Failure::refused(format!(
                "not supported: `{}` is not virtual memory itself, whose addresses can be reserved",
                resource.any.name()
            ))
        })?;
        let capacity = usize::try_from(capacity)
            .map_err(|_| Failure::invalid(format!("{capacity} bytes cannot be addressed")))?;
        let reserve = |stream: StreamRef<'_>| ElasticBuffer::reserve(capacity, stream, pages);
        // SAFETY: the clauses on streams and on their ends are the contract of `with`.
        let buffer = unsafe { streams::with(CuStream::from_raw(stream), || false, reserve) }??;
        let elastic = Box::into_raw(Box::new(Elastic { buffer: Mutex::new(buffer) }));
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { out.write(elastic) };
        Ok(())
    })
}

/// Gives memory to a range of whole pages, of which none is committed: to all of it or, on an
/// error, to none. Any stream may use it at once. `RMM_RS_INVALID_ARGUMENT`, with a message that
/// names the range, if it is empty, not of whole pages, beyond the capacity, or overlaps with what
/// is committed; `RMM_RS_OUT_OF_MEMORY` if there is not enough memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_commit(
    elastic: *mut Elastic,
    offset: u64,
    bytes: u64,
) -> Status {
    guard::status(|| {
        let range = range(offset, bytes)?;
        // SAFETY: by the clause on handles, `elastic` is null or live during the call.
        let elastic = unsafe { found(elastic) }?;
        Ok(ElasticBuffer::commit_locked(&elastic.buffer, range)?)
    })
}

/// Returns the memory of a committed range of whole pages to the device, once all work that was
/// recorded for it has completed: waits for it if `blocking`, otherwise returns `RMM_RS_NOT_READY`.
/// The addresses stay. Stores the bytes in `released`, unless it is null.
///
/// `RMM_RS_INVALID_ARGUMENT`, with a message that names the range, if it is empty, not of whole
/// pages, or not committed; `RMM_RS_REFUSED` if a graph uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_decommit(
    elastic: *mut Elastic,
    offset: u64,
    bytes: u64,
    blocking: bool,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `released` is null or valid for a write.
    unsafe { clear_number(released) };
    guard::status(|| {
        let range = range(offset, bytes)?;
        let decommit = |buffer: &mut ElasticBuffer| {
            let outcome =
                if blocking { buffer.decommit_blocking(range) } else { buffer.decommit(range) };
            Ok(outcome? as u64)
        };
        // SAFETY: by the clause on handles, `elastic` is null or live during the call; by that on
        // elastic memory, all other work on the range has completed.
        let bytes = unsafe { with(elastic, decommit) }?;
        if released.is_null() {
            return Ok(());
        }
        // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
        unsafe { store(released, bytes) }
    })
}

/// Records that work which was enqueued on a stream by now uses a committed range, so that a
/// decommit waits for it. The stream may end afterwards; a default stream is that of the device
/// which is current. On a stream under capture, a graph uses the range: it stays committed until
/// `rmm_rs_elastic_end_graph_uses`.
///
/// Source: PyTorch's `recordStream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_record_stream(
    elastic: *mut Elastic,
    offset: u64,
    bytes: u64,
    stream: *mut c_void,
) -> Status {
    guard::status(|| {
        let range = range(offset, bytes)?;
        let record = |buffer: &mut ElasticBuffer| {
            let record = |stream: StreamRef<'_>| buffer.record_current_stream(range, stream);
            // SAFETY: the clauses on streams and on their ends are the contract of `with`.
            Ok(unsafe { streams::with(CuStream::from_raw(stream), || false, record) }??)
        };
        // SAFETY: by the clause on handles, `elastic` is null or live during the call.
        unsafe { with(elastic, record) }
    })
}

/// Forgets that graphs use the memory, so that it can be decommitted: none of them runs, and none
/// is launched that uses what is decommitted then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_end_graph_uses(elastic: *mut Elastic) -> Status {
    guard::status(|| {
        let end = |buffer: &mut ElasticBuffer| {
            // SAFETY: the clause on elastic memory says the same.
            unsafe { buffer.end_graph_uses() };
            Ok(())
        };
        // SAFETY: by the clause on handles, `elastic` is null or live during the call.
        unsafe { with(elastic, end) }
    })
}

/// Writes what elastic memory holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_figures_get(
    elastic: *const Elastic,
    out: *mut ElasticFigures,
) -> Status {
    guard::status(|| {
        let figures = |buffer: &mut ElasticBuffer| {
            let first = buffer.committed().next().filter(|range| range.start == 0);
            Ok(ElasticFigures {
                size: 0,
                pointer: to_c(buffer.as_ptr()),
                capacity: buffer.capacity() as u64,
                page_size: buffer.page_size() as u64,
                committed: buffer.committed().map(|range| range.len() as u64).sum(),
                front: first.map_or(0, |range| range.end as u64),
            })
        };
        // SAFETY: by the clause on handles, `elastic` is null or live during the call.
        let figures = unsafe { with(elastic, figures) }?;
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_elastic_figures", out, &figures) }
    })
}

/// Stores the first committed range that ends after `from`, an offset in bytes; 0 bytes if there is
/// none. Between two of them there is a gap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_next_range(
    elastic: *const Elastic,
    from: u64,
    offset: *mut u64,
    bytes: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `offset` is null or valid for a write.
    unsafe { clear_number(offset) };
    // SAFETY: by the clause on pointers, `bytes` is null or valid for a write.
    unsafe { clear_number(bytes) };
    guard::status(|| {
        let find = |buffer: &mut ElasticBuffer| {
            let next = buffer.committed().find(|range| range.end as u64 > from);
            Ok(next.unwrap_or(0..0))
        };
        // SAFETY: by the clause on handles, `elastic` is null or live during the call.
        let found = unsafe { with(elastic, find) }?;
        // SAFETY: by the clause on pointers, `offset` is null or valid for a write.
        unsafe { store(offset, found.start as u64) }?;
        // SAFETY: by the clause on pointers, `bytes` is null or valid for a write.
        unsafe { store(bytes, found.len() as u64) }
    })
}

/// Waits for the work that was recorded, and returns all memory and the addresses. What may still
/// be in use, or is part of a capture, stays allocated. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_elastic_release(elastic: *mut Elastic) {
    guard::value((), || {
        if !elastic.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
            // ends here.
            drop(unsafe { Box::from_raw(elastic) });
        }
    });
}
