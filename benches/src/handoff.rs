//! Hand-off benchmark: one thread allocates, another frees, with a ring of blocks between them.

use std::alloc::Layout;
use std::hint;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rmm_cli::device::AnyDevice;
use rmm_core::{CudaStream, DevicePtr, Error, Resource};

use crate::pin::pin_thread;

/// Blocks that may be on their way.
const RING: usize = 1024;

/// What a slot of the ring holds while no block is there; no block is at address 0.
const EMPTY: u64 = 0;

/// What a slot holds after a failed allocation: nothing more comes.
const END: u64 = u64::MAX;

/// Allocates `pairs` blocks on the calling thread and the first stream, frees them on another
/// thread and the second stream, and returns how long both took together. `layout` is not empty.
///
/// # Errors
/// If the other thread cannot use the device, or an allocation fails.
pub(crate) fn run(
    device: &AnyDevice,
    resource: &(impl Resource + Sync),
    streams: &[CudaStream; 2],
    layout: Layout,
    pairs: u64,
) -> Result<Duration, Error> {
    let ring: Vec<AtomicU64> = (0..RING).map(|_| AtomicU64::new(EMPTY)).collect();
    let start = Barrier::new(2);
    let [source, sink] = streams;
    thread::scope(|scope| {
        pin_thread(0, 2);
        let freeing = scope.spawn(|| {
            pin_thread(1, 2);
            let current = device.make_current();
            start.wait();
            for slot in ring.iter().cycle().take(usize::try_from(pairs).unwrap_or(usize::MAX)) {
                let mut block = EMPTY;
                wait_until(|| {
                    block = slot.load(Ordering::Acquire);
                    block != EMPTY
                });
                slot.store(EMPTY, Ordering::Release);
                if block == END {
                    break;
                }
                // SAFETY: the block was allocated with this layout, came here alone, and no work
                // uses it.
                unsafe { resource.deallocate(sink, DevicePtr(block), layout) };
            }
            current.map(drop)
        });
        start.wait();
        let clock = Instant::now();
        let mut outcome = Ok(());
        for slot in ring.iter().cycle().take(usize::try_from(pairs).unwrap_or(usize::MAX)) {
            wait_until(|| slot.load(Ordering::Acquire) == EMPTY);
            match resource.allocate(source, layout) {
                Ok(block) => slot.store(block.0, Ordering::Release),
                Err(error) => {
                    slot.store(END, Ordering::Release);
                    outcome = Err(error);
                    break;
                }
            }
        }
        let joined = freeing.join();
        let elapsed = clock.elapsed();
        outcome?;
        match joined {
            Ok(current) => current.map(|()| elapsed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Spins for a while, then lets others run between looks.
fn wait_until(mut done: impl FnMut() -> bool) {
    const SPINS: u32 = 64;
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks < SPINS { hint::spin_loop() } else { thread::yield_now() }
    }
}
