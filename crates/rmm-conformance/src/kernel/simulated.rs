//! The kernels of the software device.

use rmm_core::DevicePtr;
use rmm_sim::Kernel;
use rmm_sys::CuResult;

fn bytes(words: u32) -> usize {
    usize::try_from(words).unwrap_or(usize::MAX).saturating_mul(4)
}

/// The words that a filled block has.
fn values(words: u32, first_value: u32) -> Vec<[u8; 4]> {
    let mut contents = vec![[0; 4]; usize::try_from(words).unwrap_or(0)];
    let (place, mut word, mut value) = (contents.as_mut_slice(), 0, first_value);
    // No iterators: without optimisation, as in tests, this loop is what the whole suite waits for.
    while word < place.len() {
        place[word] = value.to_le_bytes();
        value = value.wrapping_add(1);
        word += 1;
    }
    contents
}

/// How many words are others.
fn differing(found: &[[u8; 4]], wanted: &[[u8; 4]]) -> usize {
    if found.as_flattened() == wanted.as_flattened() {
        return 0;
    }
    found.iter().zip(wanted).filter(|(found, wanted)| found != wanted).count()
}

pub(super) fn stall() -> Kernel {
    Kernel::new("stall", |_| ())
}

pub(super) fn fail() -> Kernel {
    Kernel::new("fail", |_| ()).fails(CuResult::ILLEGAL_ADDRESS)
}

pub(super) fn fill(pointer: DevicePtr, words: u32, first_value: u32) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory<'_>| {
        // Memory that is gone is noted by the machine itself.
        let _ignored = memory.write(pointer, values(words, first_value).as_flattened());
    };
    Kernel::new("fill", run).writes(pointer, bytes(words))
}

pub(super) fn add(pointer: DevicePtr, words: u32, summand: u32) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory<'_>| {
        let mut contents = vec![[0; 4]; usize::try_from(words).unwrap_or(0)];
        if memory.read(pointer, contents.as_flattened_mut()).is_ok() {
            for word in &mut contents {
                *word = u32::from_le_bytes(*word).wrapping_add(summand).to_le_bytes();
            }
            let _ignored = memory.write(pointer, contents.as_flattened());
        }
    };
    Kernel::new("add", run).writes(pointer, bytes(words))
}

pub(super) fn check(pointer: DevicePtr, words: u32, first_value: u32, errors: DevicePtr) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory<'_>| {
        let mut contents = vec![[0; 4]; usize::try_from(words).unwrap_or(0)];
        let wrong = match memory.read(pointer, contents.as_flattened_mut()) {
            Ok(()) => differing(&contents, &values(words, first_value)),
            Err(_) => contents.len(),
        };
        let mut counter = [0; 4];
        let read = memory.read(errors, &mut counter);
        let sum = u32::from_le_bytes(counter)
            .saturating_add(u32::try_from(wrong).unwrap_or(u32::MAX))
            .to_le_bytes();
        if read.is_ok() {
            let _ignored = memory.write(errors, &sum);
        }
    };
    Kernel::new("check", run).reads(pointer, bytes(words)).updates(errors, 4)
}
