//! What a reading costs while other threads allocate.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rmm_core::{CudaStream, Resource as _};

use super::*;

#[expect(clippy::print_stderr, reason = "the caller reads it")]
fn say(what: &str) {
    eprintln!("{what}");
}

/// Least and median of readings while 16 threads allocate and free.
fn measure(read: impl Fn()) -> Result<(Duration, Duration), Error> {
    let tagged = TaggedResourceAdaptor::new(pool(512 * MIB)?);
    monitor::register("price", &tagged);
    let (stop, begun) = (AtomicBool::new(false), Barrier::new(17));
    let context = rmm_core::Context::current()?;
    let mut times = thread::scope(|scope| {
        for number in 0..16_usize {
            let (tagged, stop, begun) = (&tagged, &stop, &begun);
            scope.spawn(move || {
                let _context = context.enter()?;
                let stream = CudaStream::new()?;
                let _tag = Tag::named(["load", "train"][number % 2]).enter();
                begun.wait();
                while !stop.load(Ordering::Relaxed) {
                    for bytes in [1000, 70_000, 3 << 20] {
                        let block = tagged.allocate(&stream, layout(bytes))?;
                        // SAFETY: allocated above with this layout, on its only stream.
                        unsafe { tagged.deallocate(&stream, block, layout(bytes)) };
                    }
                }
                Ok::<(), Error>(())
            });
        }
        begun.wait();
        // Long enough for each of the others to run: there are fewer cores than threads.
        let end = Instant::now() + Duration::from_secs(2);
        let mut times = Vec::new();
        while times.len() < 1000 || Instant::now() < end {
            thread::yield_now();
            let before = Instant::now();
            read();
            times.push(before.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
        times
    });
    times.sort_unstable();
    let statistics = tagged.upstream().statistics();
    say(&format!(
        "{} readings, {} allocations, {} waits for the lock; 99 of 100 within {:?}",
        times.len(),
        statistics.allocations,
        statistics.lock_waits,
        times[times.len() * 99 / 100],
    ));
    Ok((times[0], times[times.len() / 2]))
}

#[test]
#[ignore = "it measures: run it alone, in release mode"]
fn a_reading_is_short_while_16_threads_allocate() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let (least, median) = measure(|| drop(monitor::read()))?;
    say(&format!("read: least {least:?}, median {median:?}"));
    #[cfg(feature = "metrics")]
    {
        let (least, median) = measure(rmm_adaptors::metrics::sample)?;
        say(&format!("sample, no recorder: least {least:?}, median {median:?}"));
    }
    assert!(least < Duration::from_micros(10));
    Ok(())
}
