//! The kernels of the software device.

use rmm_core::DevicePtr;
use rmm_sim::Kernel;

fn bytes(words: u32) -> usize {
    usize::try_from(words).unwrap_or(usize::MAX).saturating_mul(4)
}

fn values(words: u32, first_value: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..words).map(move |word| first_value.wrapping_add(word).to_le_bytes())
}

pub(super) fn stall() -> Kernel {
    Kernel::new("stall", |_| ())
}

pub(super) fn fill(pointer: DevicePtr, words: u32, first_value: u32) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory| {
        let contents: Vec<[u8; 4]> = values(words, first_value).collect();
        // Memory that is gone is noted by the machine itself.
        let _noted = memory.write(pointer, contents.as_flattened());
    };
    Kernel::new("fill", run).writes(pointer, bytes(words))
}

pub(super) fn add(pointer: DevicePtr, words: u32, summand: u32) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory| {
        let mut contents = vec![[0; 4]; usize::try_from(words).unwrap_or(0)];
        if memory.read(pointer, contents.as_flattened_mut()).is_ok() {
            for word in &mut contents {
                *word = u32::from_le_bytes(*word).wrapping_add(summand).to_le_bytes();
            }
            let _noted = memory.write(pointer, contents.as_flattened());
        }
    };
    Kernel::new("add", run).updates(pointer, bytes(words))
}

pub(super) fn check(pointer: DevicePtr, words: u32, first_value: u32, errors: DevicePtr) -> Kernel {
    let run = move |memory: &mut rmm_sim::KernelMemory| {
        let mut contents = vec![[0; 4]; usize::try_from(words).unwrap_or(0)];
        let wrong = match memory.read(pointer, contents.as_flattened_mut()) {
            Ok(()) => {
                let expected = values(words, first_value);
                contents.into_iter().zip(expected).filter(|(found, wanted)| found != wanted).count()
            }
            Err(_) => contents.len(),
        };
        let mut counter = [0; 4];
        let read = memory.read(errors, &mut counter);
        let sum = u32::from_le_bytes(counter)
            .saturating_add(u32::try_from(wrong).unwrap_or(u32::MAX))
            .to_le_bytes();
        if read.is_ok() {
            let _noted = memory.write(errors, &sum);
        }
    };
    Kernel::new("check", run).reads(pointer, bytes(words)).updates(errors, 4)
}
