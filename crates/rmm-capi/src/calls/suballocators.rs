//! Suballocators: resources that take large blocks from an upstream and hand out parts of them.

use rmm_adaptors::{ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource};
use rmm_core::AnyResource;

use crate::handle::failure::Failure;
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
