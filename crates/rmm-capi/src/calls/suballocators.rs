//! Suballocators: resources that take large blocks from an upstream and hand out parts of them.

use std::slice;

use rmm_adaptors::{ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource};
use rmm_core::{AnyResource, Introspect as _};

use crate::calls::pool::store_of;
use crate::handle::failure::Failure;
use crate::handle::find;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::Status;

/// Makes an arena: a pool that reserves `arena_size` bytes at once, and does not grow. 0 is half of
/// the device's free memory. With `dump_log_on_failure` it writes what it holds to a file when an
/// allocation fails.
///
/// Source: `rmm::mr::arena_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_arena_new(
    upstream: *const ResourceHandle,
    arena_size: u64,
    dump_log_on_failure: bool,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        let builder = ArenaMemoryResource::builder(upstream.of_device()?);
        let builder = builder.dump_log_on_failure(dump_log_on_failure);
        let builder = if arena_size > 0 { builder.arena_size(arena_size) } else { builder };
        Ok(upstream.below(AnyResource::new(builder.build()?)))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Makes a resource of blocks of one size: larger requests are refused. 0 is the default of each
/// number: blocks of 1 MiB, of which 128 are allocated at once.
///
/// Source: `rmm::mr::fixed_size_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_fixed_size_new(
    upstream: *const ResourceHandle,
    block_size: u64,
    blocks_to_preallocate: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        let blocks = usize::try_from(blocks_to_preallocate)
            .map_err(|_| Failure::invalid("more blocks than memory can have"))?;
        let builder = FixedSizeMemoryResource::builder(upstream.of_device()?);
        let builder = if block_size > 0 { builder.block_size(block_size) } else { builder };
        let builder = if blocks > 0 { builder.blocks(blocks) } else { builder };
        Ok(upstream.below(AnyResource::new(builder.build()?)))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Stores the bytes of a block of such a resource, or of the first one below the resource: a
/// multiple of 256.
///
/// Source: `fixed_size_memory_resource::get_block_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_fixed_size_block_size(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| {
        let blocks = resource.any.find::<FixedSizeMemoryResource<()>>();
        let blocks = blocks.ok_or_else(|| find::none(resource, "has blocks of one size"))?;
        Ok(blocks.block_size())
    };
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Makes a resource with a bin of fixed size for each power of two from `2^min_size_exponent` to
/// `2^max_size_exponent` bytes; larger requests go to the upstream.
///
/// Source: `rmm::mr::binning_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_binning_new(
    upstream: *const ResourceHandle,
    min_size_exponent: i32,
    max_size_exponent: i32,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        let exponent = |number: i32| match u32::try_from(number) {
            Ok(number) if number < u64::BITS => Ok(number),
            _ => Err(Failure::invalid(format!("2 to the power of {number} is no bin's size"))),
        };
        let powers = exponent(min_size_exponent)?..=exponent(max_size_exponent)?;
        let builder = BinningMemoryResource::builder(upstream.of_device()?);
        Ok(upstream.below(AnyResource::new(builder.bins_of_powers(powers)?.build())))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Elements of an array of C: none if there are 0, wherever it is.
///
/// # Safety
/// `first` is null, or `count` elements from it on may be read and stay unchanged for `'a`.
unsafe fn array<'a, T>(what: &str, first: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::invalid(format!("{what} are null")));
    }
    if !first.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("{what} are no array of {count}")));
    }
    // SAFETY: the caller's contract; it is aligned, and has no more bytes than memory can have.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Makes a resource with `count` bins: one for requests of up to `sizes[i]` bytes, which
/// `resources[i]` serves. If that is null, or `resources` is, the bin is of blocks of that size,
/// allocated from the upstream. A request goes to the smallest bin that it fits; one that fits none
/// goes to the upstream. Sizes are rounded up to 256 bytes, and no two are equal.
///
/// Source: `rmm::mr::binning_memory_resource`, `add_bin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_binning_new_with_bins(
    upstream: *const ResourceHandle,
    sizes: *const u64,
    resources: *const *const ResourceHandle,
    count: usize,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        // SAFETY: by the clause on arrays, it is null or has as many elements.
        let sizes = unsafe { array("the sizes of bins", sizes, count) }?;
        let resources = if resources.is_null() {
            None
        } else {
            // SAFETY: by the clause on arrays, it has as many elements.
            Some(unsafe { array("the resources of bins", resources, count) }?)
        };
        let mut builder = BinningMemoryResource::builder(upstream.of_device()?);
        let mut reports = false;
        for (place, &size) in sizes.iter().enumerate() {
            let resource = resources.and_then(|resources| resources.get(place).copied());
            // SAFETY: by the clause on handles, it is null or live during the call.
            builder = match resource.and_then(|resource| unsafe { resource.as_ref() }) {
                Some(resource) => {
                    reports |= resource.reports();
                    builder.bin_of(size, resource.of_device()?)?
                }
                None => builder.bin(size)?,
            };
        }
        let made = upstream.below(AnyResource::new(builder.build()));
        Ok(if reports { made.that_reports() } else { made })
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}
