//! The latency between the end of work and the run of the task that awaits it, for each way to wake
//! it, beside a blocking wait.
//!
//! ```text
//! cargo run --release -p rmm-async --example wake_latency [ROUNDS]
//! ```
//!
//! Each round enqueues a fill, and waits for it. The table has the time of a round: the median, the
//! 99th percentile, and the difference of the median from that of a blocking wait, which is the
//! latency of the way. Without a GPU it runs on the software device, whose times mean nothing.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rmm_async::completed;
use rmm_containers::{DeviceBuffer, PinnedVec};
use rmm_core::sys::Driver;
use rmm_core::{CudaEvent, CudaStream, Error, StreamFlags, check, driver_in_context};
use rmm_sim::Machine;

/// How often the thread that polls events does so.
const POLLING: Duration = Duration::from_millis(1);

/// Unparks the thread that runs the future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: parks the thread between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Ready when a test says so. Wakes itself at once, or keeps its waker for another thread.
struct Until<'a, F> {
    is_ready: F,
    waker: Option<&'a Mutex<Option<Waker>>>,
}

impl<F: FnMut() -> Result<bool, Error> + Unpin> Future for Until<'_, F> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(place) = self.waker {
            *place.lock().expect("no panic") = Some(context.waker().clone());
        } else {
            context.waker().wake_by_ref();
        }
        match (self.is_ready)() {
            Ok(false) => Poll::Pending,
            outcome => Poll::Ready(outcome.map(drop)),
        }
    }
}

/// Calls the stored waker, if there is one.
fn wake(waker: &Mutex<Option<Waker>>) {
    let waker = waker.lock().expect("no panic").take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A thread that calls a function again and again while this exists.
struct Scanner {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Scanner {
    fn new(mut scan: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let scans = move || {
            while !stopped.load(Ordering::Relaxed) {
                scan();
            }
        };
        Self { stop, thread: Some(thread::spawn(scans)) }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

/// The times of rounds, in microseconds, sorted.
fn measure(rounds: usize, mut round: impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    for _ in 0..rounds / 10 {
        round()?;
    }
    let timed = |_| {
        let start = Instant::now();
        round()?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    };
    let mut all = (0..rounds).map(timed).collect::<Result<Vec<f64>, Error>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// By a word that the stream writes, which one thread scans.
fn by_word(
    rounds: usize,
    stream: &CudaStream,
    mut work: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    let mut memory = PinnedVec::<u32>::zeroed(1)?;
    let address = memory.device_slice().as_ptr();
    let host: *mut u32 = memory.as_mut_slice()?.as_mut_ptr();
    // SAFETY: the word lives until the scanner has ended, and is accessed by atomics only.
    let seen: &'static AtomicU32 = unsafe { AtomicU32::from_ptr(host) };
    let waker = Arc::new(Mutex::new(None));
    let (scanned, awaited) = (Arc::clone(&waker), Arc::new(AtomicU32::new(0)));
    let target = Arc::clone(&awaited);
    let _scanner = Scanner::new(move || {
        if seen.load(Ordering::Acquire) == target.load(Ordering::Acquire) {
            wake(&scanned);
        }
        std::hint::spin_loop();
    });
    let mut number = 0;
    measure(rounds, || {
        work()?;
        number += 1;
        awaited.store(number, Ordering::Release);
        let (driver, _) = driver_in_context()?;
        // SAFETY: the stream exists, and the word is memory that the device writes.
        let code = unsafe { driver.cuStreamWriteValue32_v2(stream.as_raw(), address, number, 0) };
        check("cuStreamWriteValue32_v2", code)?;
        let is_ready = || Ok(seen.load(Ordering::Acquire) == number);
        block_on(Until { is_ready, waker: Some(&waker) })
    })
}

/// By one thread that polls events.
fn by_polling_thread(
    rounds: usize,
    stream: &CudaStream,
    mut work: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    type Watched = (Arc<CudaEvent>, Arc<Mutex<Option<Waker>>>);
    let (sender, receiver): (Sender<Watched>, _) = channel();
    let mut watched: Vec<Watched> = Vec::new();
    let _scanner = Scanner::new(move || {
        thread::park_timeout(POLLING);
        watched.extend(receiver.try_iter());
        watched.retain(|(event, waker)| {
            let is_pending = matches!(event.is_complete(), Ok(false));
            if !is_pending {
                wake(waker);
            }
            is_pending
        });
    });
    let waker = Arc::new(Mutex::new(None));
    measure(rounds, || {
        work()?;
        let event = Arc::new(stream.as_stream_ref().record_event()?);
        sender.send((Arc::clone(&event), Arc::clone(&waker))).expect("the thread receives");
        block_on(Until { is_ready: || event.is_complete(), waker: Some(&waker) })
    })
}

/// Measures all ways for fills of this size.
fn table(rounds: usize, bytes: usize) -> Result<(), Error> {
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut buffer = DeviceBuffer::uninit(bytes, &stream)?;
    let mut work = || buffer.fill(1);
    let blocking = measure(rounds, || {
        work()?;
        stream.synchronize()
    })?;
    let spinning = measure(rounds, || {
        work()?;
        let event = stream.as_stream_ref().record_event()?;
        block_on(Until { is_ready: || event.is_complete(), waker: None })
    })?;
    let host_function = measure(rounds, || {
        work()?;
        block_on(completed(&stream)?)
    })?;
    let scanned = by_word(rounds, &stream, &mut work);
    let polling = by_polling_thread(rounds, &stream, &mut work)?;
    let middle = blocking[rounds / 2];
    println!("\na fill of {bytes} bytes, {rounds} rounds, microseconds");
    println!("{:<48} {:>10} {:>10} {:>10}", "way", "median", "p99", "latency");
    let row = |way: &str, times: &[f64]| {
        let (median, late) = (times[rounds / 2], times[rounds * 99 / 100]);
        println!("{way:<48} {median:>10.1} {late:>10.1} {:>10.1}", median - middle);
    };
    row("blocking wait (cuStreamSynchronize)", &blocking);
    row("event queried at each poll, wakes itself", &spinning);
    row("host function and watcher (`completed`)", &host_function);
    match scanned {
        Ok(times) => row("word written by the stream, a thread that spins", &times),
        Err(error) => println!("word written by the stream: {error}"),
    }
    row("a thread that queries events every 1 ms", &polling);
    Ok(())
}

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let rounds = std::cmp::max(rounds, 1);
    let software = Driver::load().is_err().then(Machine::new);
    let _entered = software.as_ref().map(Machine::enter_all_threads);
    let _running = software.as_ref().map(Machine::run_in_background);
    println!(
        "{}",
        if software.is_some() { "software device: the times mean nothing" } else { "GPU" }
    );
    for bytes in [4 << 10, 16 << 20, 256 << 20] {
        table(rounds, bytes)?;
    }
    Ok(())
}
