//! Workload: requests with a deadline, of a full pool, by 16 threads.
//!
//! What is asked of it on an H200: of 100,000 requests 99.9 % return within a deadline of 2 ms.

use std::alloc::Layout;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::DeviceBuffer;
use rmm_core::{Device, Effort, Error, Resource, SynchronousResource, effort};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};

use super::bench::{Bench, new_stream, to_f64};
use super::extent::Extent;
use super::random::share;
use crate::outcome::Outcome;
use crate::rounds::{SpinBarrier, on_threads};

const THREADS: usize = 16;
const DEADLINE: Duration = Duration::from_millis(2);
const POOL: usize = 64 << 20;

/// In each round a stream frees all memory of the pool behind work that takes longer than the
/// round, while all threads ask for that memory.
pub(super) fn refusals(bench: &mut Bench<'_>) -> Outcome {
    // The fills take a third of a second on an H200, a hundred waits a fifth. The driver takes
    // about a thousand calls ahead: a pool that records an event behind more would wait for them.
    let (rounds, requests, fills, bytes) = match bench.extent {
        Extent::Full => (64, 98, 250, 4 << 30),
        Extent::Quick => (1, 5, 1, 1 << 20),
    };
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new()?);
    let pool = builder.maximum_size(POOL as u64).build()?;
    let (layout, stream) = (Layout::from_size_align(POOL, 256)?, new_stream()?);
    let mut work = DeviceBuffer::uninit_in(bytes, &stream, &CudaMemoryResource::new())?;
    let device = bench.device.handle();
    let mut of_threads = vec![Vec::new(); THREADS];
    for _ in 0..rounds {
        let block = pool.allocate(&stream, layout)?;
        for _ in 0..fills {
            work.fill(0)?;
        }
        // SAFETY: allocated above with this layout on this stream, and not used.
        unsafe { pool.deallocate(&stream, block, layout) };
        let barrier = SpinBarrier::new(THREADS);
        on_threads(&device, of_threads.iter_mut(), &|| barrier.wait(), &|times| {
            (0..requests).try_for_each(|_| request(&pool, layout).map(|time| times.push(time)))
        })?;
        Device::synchronize_current()?;
    }
    rows(bench, "", of_threads.concat())?;
    // How long the system lets threads sleep that ask for three quarters of that time.
    let mut of_threads = vec![Vec::new(); THREADS];
    for _ in 0..rounds {
        let barrier = SpinBarrier::new(THREADS);
        on_threads(&device, of_threads.iter_mut(), &|| barrier.wait(), &|times| {
            times.extend((0..requests).map(|_| sleep()));
            Ok(())
        })?;
    }
    rows(bench, "sleep of 1.5 ms: ", of_threads.concat())
}

fn rows(bench: &mut Bench<'_>, what: &str, mut times: Vec<Duration>) -> Outcome {
    times.sort_unstable();
    let kept = times.partition_point(|&time| time <= DEADLINE);
    let kept = to_f64(kept as u64) / to_f64(times.len() as u64) * 100.0;
    bench.row("refusals", format!("{what}within the deadline"), kept, "%")?;
    for (name, per_mille) in [("p50", 500), ("p99.9", 999), ("longest", 1000)] {
        let time = share(&times, per_mille).as_secs_f64() * 1e3;
        bench.row("refusals", format!("{what}{name}"), time, "ms")?;
    }
    Ok(())
}

/// How long it takes to sleep for 1.5 ms, by a condition variable as the pool does.
fn sleep() -> Duration {
    let (never, lock) = (Condvar::new(), Mutex::new(()));
    let begin = Instant::now();
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    drop(never.wait_timeout_while(guard, DEADLINE * 3 / 4, |()| true));
    begin.elapsed()
}

/// How long a request takes that is out of memory at its deadline.
fn request(pool: &PoolMemoryResource, layout: Layout) -> Result<Duration, Error> {
    let begin = Instant::now();
    let limited = effort(Effort::Until(begin + DEADLINE));
    let outcome = pool.allocate_sync(layout);
    let time = begin.elapsed();
    drop(limited);
    match outcome {
        Ok(block) => {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pool.deallocate_sync(block, layout) };
            Ok(time)
        }
        Err(error) if error.is_out_of_memory() => Ok(time),
        Err(error) => Err(error),
    }
}
