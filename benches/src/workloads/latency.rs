//! Workload: worst-case latency of single calls beside many live blocks.

use std::alloc::Layout;
use std::panic;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rmm_cli::device::AnyDevice;
use rmm_core::{AnyResource, CudaStream, DevicePtr, Error, Resource as _};

use super::bench::{Bench, new_stream, to_f64};
use super::pairs::layout;
use super::random::each_call;
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::pin::pin_thread;
use crate::protocol::SplitMix64;

/// Many blocks, of which every other one is free.
#[derive(Clone, Copy, Debug)]
struct Case {
    blocks: usize,
    streams: usize,
    threads: usize,
}

const CASES: &[Case] = &[
    Case { blocks: 100_000, streams: 1, threads: 1 },
    Case { blocks: 100_000, streams: 64, threads: 1 },
    Case { blocks: 100_000, streams: 1_024, threads: 1 },
    Case { blocks: 100_000, streams: 64, threads: 4 },
    Case { blocks: 1_000_000, streams: 1, threads: 1 },
    Case { blocks: 1_000_000, streams: 64, threads: 1 },
];

/// What one thread may spend on the blocks, and again on the calls beside them: some allocators
/// take milliseconds a call.
const MOST_TIME: Duration = Duration::from_secs(2);
/// Calls of a kind beside the blocks.
const CALLS: usize = 10_000;
/// Streams that come and go before a first use.
const STREAMS_GONE: usize = 8_000;
/// More than a pool has.
const GROWTH: usize = 17 << 30;

/// How long each call of a kind took.
#[derive(Debug, Default)]
struct Times {
    allocate: Vec<Duration>,
    free: Vec<Duration>,
    /// Whether the blocks were all made.
    is_whole: bool,
}

/// The longest calls beside many blocks, those that ask the driver for memory, the first on a new
/// stream, and percentiles of the calls of a long list.
pub(super) fn latency(bench: &mut Bench<'_>) -> Outcome {
    for case in CASES {
        let is_quick = bench.extent.repetitions() == 1;
        if is_quick && (case.blocks > 100_000 || case.streams > 64) {
            continue;
        }
        let Case { blocks, streams, threads } = *case;
        let params = format!("blocks={blocks} streams={streams} threads={threads}");
        beside_blocks(bench, Case { blocks: bench.extent.scaled(blocks), ..*case }, &params)?;
    }
    after_streams(bench)?;
    each_call(bench)
}

fn beside_blocks(bench: &mut Bench<'_>, case: Case, params: &str) -> Outcome {
    let (allocator, calls) = (bench.make(Start::Full)?, bench.extent.scaled(CALLS));
    let streams: Vec<CudaStream> =
        (0..case.streams).map(|_| new_stream()).collect::<Result<_, _>>()?;
    let times = on_threads(&bench.device.handle(), &allocator.resource, &streams, case, calls);
    let Times { mut allocate, mut free, is_whole } = match times {
        // Bins take far more memory than such small blocks have.
        Err(error) if error.is_out_of_memory() => return Ok(()),
        times => times?,
    };
    if !is_whole {
        // It would take minutes to make the blocks.
        return Ok(());
    }
    for (call, times) in [("allocate", &mut allocate), ("free", &mut free)] {
        times.sort_unstable();
        let place = times.len() - 1 - times.len() / 10_000;
        bench.row("latency", format!("{params} {call} p99.99"), nanos(times[place]), "ns")?;
        let longest = nanos(times[times.len() - 1]);
        bench.row("latency", format!("{params} {call} longest"), longest, "ns")?;
    }
    // The driver is asked for memory. What has none to add refuses.
    let (large, stream) = (layout(GROWTH)?, &streams[0]);
    let clock = Instant::now();
    let grown = allocator.resource.allocate(stream, large);
    let time = clock.elapsed();
    if let Ok(block) = grown {
        bench.row("latency", format!("{params} growth"), nanos(time), "ns")?;
        // SAFETY: allocated just now with this layout; no work uses it.
        unsafe { allocator.resource.deallocate(stream, block, large) };
    }
    stream.synchronize()?;
    let clock = Instant::now();
    if allocator.trim() {
        bench.row("latency", format!("{params} trim"), nanos(clock.elapsed()), "ns")?;
    }
    Ok(())
}

/// The first pair on a new stream after many others have come, have been used, and have gone.
fn after_streams(bench: &mut Bench<'_>) -> Outcome {
    let (allocator, layout) = (bench.make(Start::Full)?, layout(4 << 10)?);
    let pair = |stream: &CudaStream| -> Outcome<Duration> {
        let clock = Instant::now();
        let block = allocator.resource.allocate(stream, layout)?;
        // SAFETY: allocated just now with this layout; no work uses it.
        unsafe { allocator.resource.deallocate(stream, block, layout) };
        Ok(clock.elapsed())
    };
    let streams: Vec<CudaStream> =
        (0..bench.extent.scaled(STREAMS_GONE)).map(|_| new_stream()).collect::<Result<_, _>>()?;
    for stream in &streams {
        pair(stream)?;
    }
    drop(streams);
    let time = pair(&new_stream()?)?;
    bench.row("latency", format!("first use after {STREAMS_GONE} streams"), nanos(time), "ns")
}

/// Each thread makes its share of the blocks on its share of the streams, and then calls beside
/// them.
fn on_threads(
    device: &AnyDevice,
    resource: &AnyResource,
    streams: &[CudaStream],
    case: Case,
    calls: usize,
) -> Result<Times, Error> {
    let ready = Barrier::new(case.threads);
    let shares = streams.chunks(streams.len().div_ceil(case.threads));
    let all: Vec<Result<Times, Error>> = thread::scope(|scope| {
        let running: Vec<_> = shares
            .enumerate()
            .map(|(thread, streams)| {
                let ready = &ready;
                scope.spawn(move || {
                    pin_thread(thread, case.threads);
                    let current = device.make_current();
                    ready.wait(); // also if it failed: the others wait for this thread
                    let share = (case.blocks / case.threads, calls / case.threads);
                    let times =
                        beside(resource, streams, share, SplitMix64::new(200 + thread as u64));
                    current.and(times)
                })
            })
            .collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|times| times.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    let mut sum = Times { is_whole: true, ..Times::default() };
    for times in all {
        let times = times?;
        sum.allocate.extend(times.allocate);
        sum.free.extend(times.free);
        sum.is_whole &= times.is_whole;
    }
    Ok(sum)
}

/// A block of 256 bytes to 8 KiB, as a random number says.
fn some_layout(random: &mut SplitMix64) -> Result<Layout, Error> {
    let bytes = (random.next_u64() % 32 + 1) * 256;
    Layout::from_size_align(usize::try_from(bytes).expect("at most 8 KiB"), 256)
        .map_err(|error| Error::invalid_argument("layout", error.to_string()))
}

fn beside(
    resource: &AnyResource,
    streams: &[CudaStream],
    (blocks, calls): (usize, usize),
    mut random: SplitMix64,
) -> Result<Times, Error> {
    let mut times = Times::default();
    let mut made: Vec<Option<(DevicePtr, Layout)>> = Vec::with_capacity(blocks);
    let of = |place: usize| streams[place % streams.len()].as_stream_ref();
    let free = |times: &mut Vec<Duration>, place: usize, (block, layout): (_, Layout)| {
        let clock = Instant::now();
        // SAFETY: the block was allocated with this layout on the stream of its place, each is
        // freed once, and no work uses it.
        unsafe { resource.deallocate(of(place), block, layout) };
        times.push(clock.elapsed());
    };
    let begin = Instant::now();
    while made.len() < blocks && begin.elapsed() < MOST_TIME {
        let (layout, clock) = (some_layout(&mut random)?, Instant::now());
        let block = match resource.allocate(of(made.len()), layout) {
            Ok(block) => block,
            Err(error) => {
                for (place, block) in made.into_iter().flatten().enumerate() {
                    free(&mut times.free, place, block);
                }
                return Err(error);
            }
        };
        times.allocate.push(clock.elapsed());
        made.push(Some((block, layout)));
    }
    times.is_whole = made.len() == blocks;
    // The last first: a list by addresses takes them at its start.
    let (mut place, begin) = (made.len(), Instant::now());
    while place > 1 && begin.elapsed() < MOST_TIME {
        place -= 2;
        if let Some(block) = made[place].take() {
            free(&mut times.free, place, block);
        }
    }
    times.is_whole &= place <= 1;
    let begin = Instant::now();
    for call in 0..calls {
        if begin.elapsed() > MOST_TIME {
            break;
        }
        let (layout, clock) = (some_layout(&mut random)?, Instant::now());
        let block = resource.allocate(of(call), layout)?;
        times.allocate.push(clock.elapsed());
        free(&mut times.free, call, (block, layout));
    }
    // The first first: each is a neighbour of what is free before it.
    for (place, block) in made.into_iter().enumerate() {
        if let Some(block) = block {
            free(&mut times.free, place, block);
        }
    }
    Ok(times)
}

fn nanos(time: Duration) -> f64 {
    to_f64(u64::try_from(time.as_nanos()).expect("a call ends within five hundred years"))
}
