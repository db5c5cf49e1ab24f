//! Memory as such: usable, aligned, and not shared with another block.

use std::alloc::Layout;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Resource};

use crate::failure::ensure;
use crate::{CheckResult, CheckedBlock, Failure, Random, Subject};

/// Clause 1: memory may be used at once by work on the stream, by kernels and by copies to and from
/// it, of any size.
///
/// # Errors
/// What is wrong.
pub fn memory_is_usable<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    for words in [1, 3, 63, 64, 65, 1000, 1 << 16, (1 << 18) + 1] {
        let mut block = subject.allocate(subject.stream(), words)?;
        block.fill(words, 0)?;
        block.check(words, &errors)?;
        errors.expect_none(subject.stream(), "kernels do not read what they wrote")?;

        let count = usize::try_from(words).map_err(Failure::new)?;
        let mut read = vec![0; count];
        block.copy_to(&mut read)?;
        let filled: Vec<u32> = (0..words).map(|word| words.wrapping_add(word)).collect();
        ensure(read == filled, || format!("{words} words were not copied out as filled"))?;

        let sent: Vec<u32> = filled.iter().map(|word| word ^ 0x5555_5555).collect();
        block.copy_from(&sent)?;
        let mut twin = subject.allocate(subject.stream(), words)?;
        twin.copy_from_block(&block)?;
        drop(block);
        twin.copy_to(&mut read)?;
        ensure(read == sent, || {
            format!("{words} words did not survive copies in, across and out")
        })?;
    }
    Ok(())
}

/// Clause 6: the address is a multiple of the alignment; every power of two up to 256 is honoured,
/// a larger one is honoured or refused.
///
/// # Errors
/// What is wrong.
pub fn alignments_are_honoured<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream) = (subject.resource(), subject.stream().as_stream_ref());
    for shift in 0..=16 {
        let alignment = 1usize << shift;
        for bytes in [1, 255, 256, 257, 5000, 1 << 20] {
            let layout = Layout::from_size_align(bytes, alignment).map_err(Failure::new)?;
            // A small one first, so that the next does not lie at the start of a piece by luck.
            let odd = subject.allocate(subject.stream(), 1)?;
            match resource.allocate(stream, layout) {
                Ok(pointer) => {
                    let is_aligned = pointer.0 % (alignment as u64) == 0;
                    // SAFETY: allocated just now with this layout, and not used.
                    unsafe { resource.deallocate(stream, pointer, layout) };
                    ensure(is_aligned && pointer != DevicePtr::NULL, || {
                        format!("{bytes} bytes aligned to {alignment} lie at {:#x}", pointer.0)
                    })?;
                }
                Err(error) if alignment > CUDA_ALLOCATION_ALIGNMENT => {
                    let text = error.to_string();
                    ensure(text.contains(&alignment.to_string()), || {
                        format!("the refusal does not name the alignment {alignment}: {text}")
                    })?;
                }
                Err(error) => {
                    return Err(Failure::new(format!("alignment {alignment} refused: {error}")));
                }
            }
            drop(odd);
        }
    }
    Ok(())
}

/// Clause 5: a request of zero bytes succeeds with the null address, whatever its alignment, and
/// can be freed (RMM #2107, #2316, #2403).
///
/// # Errors
/// What is wrong.
pub fn zero_bytes_are_free<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream) = (subject.resource(), subject.stream().as_stream_ref());
    for alignment in [1, 256, 4096] {
        let layout = Layout::from_size_align(0, alignment).map_err(Failure::new)?;
        let ordered = resource.allocate(stream, layout)?;
        let at_once = resource.allocate_sync(layout)?;
        for pointer in [ordered, at_once] {
            ensure(pointer == DevicePtr::NULL, || format!("no bytes lie at {:#x}", pointer.0))?;
        }
        // SAFETY: allocated above with this layout.
        unsafe { resource.deallocate(stream, ordered, layout) };
        // SAFETY: as above.
        unsafe { resource.deallocate_sync(at_once, layout) };
    }
    Ok(())
}

/// The promise of `SynchronousResource`: memory that is allocated is not allocated again before it
/// is freed. Blocks of random sizes, on two streams, each with contents of its own.
///
/// # Errors
/// What is wrong.
pub fn live_blocks_never_overlap<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    const LIVE: usize = 120;
    const ROUNDS: usize = 3;
    let errors = subject.counter()?;
    let other = subject.other_stream()?;
    let mut random = Random::new(7);
    let mut live: Vec<(CheckedBlock<'_, R>, u32)> = Vec::new();
    for round in 0..ROUNDS {
        while live.len() < LIVE {
            let stream = if random.below(2) == 0 { subject.stream() } else { &other };
            let block = subject.allocate(stream, 1 + random.below(8192))?;
            if let Some((known, _)) = live.iter().find(|(known, _)| known.overlaps(&block)) {
                return Err(Failure::new(format!("live blocks overlap: {known:?}, {block:?}")));
            }
            let value = random.next_u32();
            block.fill(value, 0)?;
            live.push((block, value));
        }
        for (block, value) in &live {
            block.check(*value, &errors)?;
        }
        let what = format!("live blocks share memory in round {round}");
        errors.expect_none(subject.stream(), &what)?;
        errors.expect_none(&other, &what)?;
        for _ in 0..LIVE / 2 {
            let chosen = random.index(live.len());
            drop(live.swap_remove(chosen));
        }
    }
    Ok(())
}
