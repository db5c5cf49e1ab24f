//! Workload: requests with a deadline, of a full pool, by 16 threads.
//!
//! What is asked of it on an H200: of 100,000 requests 99.9 % return within a deadline of 2 ms.

use std::alloc::Layout;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmm_adaptors::{PoolMemoryResource, last_deadline_wake};
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
/// The bounds of what is shown of times after a sleep, in microseconds.
const HISTOGRAM: [u64; 6] = [50, 100, 200, 400, 800, 1600];

/// In each round a stream frees all memory of the pool behind work that takes longer than the
/// round, while all threads ask for that memory.
pub(super) fn refusals(bench: &mut Bench<'_>) -> Outcome {
    // The fills take a third of a second on an H200, a hundred waits a fifth. The driver takes
    // about a thousand calls ahead: a pool that records an event behind more would wait for them.
    let (rounds, requests_a_round, fills, bytes) = match bench.extent {
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
        on_threads(&device, of_threads.iter_mut(), &|| barrier.wait(), &|requests: &mut Vec<
            _,
        >| {
            for _ in 0..requests_a_round {
                requests.push(request(&pool, layout)?);
            }
            Ok(())
        })?;
        Device::synchronize_current()?;
    }
    let requests = of_threads.concat();
    rows(bench, "", requests.iter().map(|it| it.time).collect())?;
    lateness(bench, &requests)?;
    // How long the system lets threads sleep that ask for three quarters of that time.
    let mut of_threads = vec![Vec::new(); THREADS];
    for _ in 0..rounds {
        let barrier = SpinBarrier::new(THREADS);
        on_threads(&device, of_threads.iter_mut(), &|| barrier.wait(), &|times| {
            times.extend((0..requests_a_round).map(|_| sleep()));
            Ok(())
        })?;
    }
    rows(bench, "sleep of 1.5 ms: ", of_threads.concat())
}

fn rows(bench: &mut Bench<'_>, what: &str, mut times: Vec<Duration>) -> Outcome {
    times.sort_unstable();
    share_row(bench, &format!("{what}within the deadline"), &times, |&time| time <= DEADLINE)?;
    percentiles(bench, what, &times)
}

/// Where the time of the requests went that had to sleep: how much later than they asked for the
/// system woke them up, and what came after that.
fn lateness(bench: &mut Bench<'_>, requests: &[Request]) -> Outcome {
    let late = requests.iter().filter_map(Request::late);
    let rest = requests.iter().filter_map(Request::rest);
    let parts: [(&str, Vec<Duration>); 2] =
        [("woken late: ", late.collect()), ("after that: ", rest.collect())];
    for (what, mut times) in parts {
        times.sort_unstable();
        percentiles(bench, what, &times)?;
        for micros in HISTOGRAM.into_iter().filter(|_| !times.is_empty()) {
            let most = Duration::from_micros(micros);
            share_row(bench, &format!("{what}up to {micros} us"), &times, |&it| it <= most)?;
        }
    }
    let missed = |it: &Request| it.time > DEADLINE;
    let too_late = |it: &Request| it.woken.is_some_and(|woken| woken.after > DEADLINE);
    share_row(bench, "missed, woken after the deadline", requests, |it| {
        missed(it) && too_late(it)
    })?;
    share_row(bench, "missed, woken in time", requests, |it| {
        missed(it) && it.woken.is_some() && !too_late(it)
    })?;
    share_row(bench, "missed, never asleep", requests, |it| missed(it) && it.woken.is_none())?;
    share_row(bench, "refused without the lock", requests, |it| {
        it.woken.is_some_and(|woken| !woken.has_lock)
    })
}

/// The share of `of` that `is_so`.
fn share_row<T>(
    bench: &mut Bench<'_>,
    name: &str,
    of: &[T],
    is_so: impl Fn(&T) -> bool,
) -> Outcome {
    let those = of.iter().filter(|&it| is_so(it)).count();
    let share = to_f64(those as u64) / to_f64(of.len().max(1) as u64) * 100.0;
    bench.row("refusals", name, share, "%")
}

fn percentiles(bench: &mut Bench<'_>, what: &str, sorted: &[Duration]) -> Outcome {
    for (name, per_mille) in [("p50", 500), ("p99.9", 999), ("longest", 1000)] {
        if !sorted.is_empty() {
            let time = share(sorted, per_mille).as_secs_f64() * 1e3;
            bench.row("refusals", format!("{what}{name}"), time, "ms")?;
        }
    }
    Ok(())
}

/// A request that was refused, or served.
#[derive(Clone, Debug)]
struct Request {
    /// How long it took.
    time: Duration,
    /// When it woke up last, if it slept.
    woken: Option<Woken>,
}

#[derive(Clone, Copy, Debug)]
struct Woken {
    /// After the request began.
    after: Duration,
    /// Later than it asked for.
    late: Duration,
    /// Whether it had the pool's lock again.
    has_lock: bool,
}

impl Request {
    fn late(&self) -> Option<Duration> {
        self.woken.map(|woken| woken.late)
    }

    /// How long it took from there on.
    fn rest(&self) -> Option<Duration> {
        self.woken.map(|woken| self.time.saturating_sub(woken.after))
    }
}

/// How long it takes to sleep for 1.5 ms, by a condition variable as the pool does.
fn sleep() -> Duration {
    let (never, lock) = (Condvar::new(), Mutex::new(()));
    let begin = Instant::now();
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    drop(never.wait_timeout_while(guard, DEADLINE * 3 / 4, |()| true));
    begin.elapsed()
}

/// A request that is out of memory at its deadline.
fn request(pool: &PoolMemoryResource, layout: Layout) -> Result<Request, Error> {
    // That of an earlier one.
    let _earlier = last_deadline_wake();
    let begin = Instant::now();
    let limited = effort(Effort::Until(begin + DEADLINE));
    let outcome = pool.allocate_sync(layout);
    let time = begin.elapsed();
    drop(limited);
    let woken = last_deadline_wake().map(|wake| Woken {
        after: wake.woken - begin,
        late: wake.woken.saturating_duration_since(wake.wanted),
        has_lock: wake.has_lock,
    });
    match outcome {
        Ok(block) => {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pool.deallocate_sync(block, layout) };
        }
        Err(error) if error.is_out_of_memory() => {}
        Err(error) => return Err(error),
    }
    Ok(Request { time, woken })
}
