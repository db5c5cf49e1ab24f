//! One resource shared by many threads.

use std::sync::mpsc::{Receiver, Sender, channel};

use rmm_core::{CudaEvent, Resource};

use crate::{CheckResult, CheckedBlock, DeviceCounter, Failure, Random, Subject};

const THREADS: u64 = 8;
const STEPS: u32 = 80;
/// The most blocks that a thread holds before it frees one.
const HELD: usize = 12;
/// The most words of a block.
const WORDS: u32 = 6000;

/// A block on its way to the next thread, with its contents and the mark behind its uses.
type Parcel<'a, R> = (CheckedBlock<'a, R>, u32, CudaEvent);

/// A resource is `Sync`: eight threads, each on a stream of its own (of the subject's kind),
/// allocate, fill, check and free at random, and hand blocks to the next thread with an event.
/// No block's contents change.
///
/// # Errors
/// What is wrong.
pub fn threads_share_a_resource<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..THREADS {
        let (sender, receiver) = channel();
        senders.push(sender);
        receivers.push(receiver);
    }
    senders.rotate_left(1);
    let outcomes: Vec<CheckResult> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .zip(senders.into_iter().zip(receivers))
            .map(|(seed, (next, from_previous))| {
                scope.spawn(move || {
                    let _current = subject.device().make_current()?;
                    work(subject, seed, next, &from_previous)
                })
            })
            .collect();
        let panicked = |_| Err(Failure::new("a thread panicked"));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    outcomes.into_iter().collect()
}

/// What one thread does.
fn work<'a, R: Resource>(
    subject: &Subject<'a, R>,
    seed: u64,
    next: Sender<Parcel<'a, R>>,
    from_previous: &Receiver<Parcel<'a, R>>,
) -> CheckResult {
    let stream = subject.stream_for_thread()?;
    let errors = DeviceCounter::new(&stream)?;
    let mut random = Random::new(seed);
    let mut held: Vec<(CheckedBlock<'a, R>, u32)> = Vec::new();
    let receive = |(mut block, value, departed): Parcel<'a, R>| {
        block.arrive(&stream, &departed)?;
        block.check(value, &errors)?;
        Ok::<_, Failure>((block, value))
    };
    for _ in 0..STEPS {
        if let Ok(parcel) = from_previous.try_recv() {
            held.push(receive(parcel)?);
        }
        let choice = random.below(8);
        if held.is_empty() || choice < 4 && held.len() < HELD {
            let block = subject.allocate(&stream, 1 + random.below(WORDS))?;
            let value = random.next_u32();
            block.fill(value, u64::from(random.below(50_000)))?;
            held.push((block, value));
            continue;
        }
        let (block, value) = held.swap_remove(random.index(held.len()));
        block.check(value, &errors)?;
        if choice == 7 {
            let departed = block.depart()?;
            // If the next thread has failed, the block comes back and is freed here; that thread
            // says why.
            let _ignored = next.send((block, value, departed));
        }
    }
    drop(next);
    for parcel in from_previous {
        held.push(receive(parcel)?);
    }
    for (block, value) in held {
        block.check(value, &errors)?;
    }
    errors.expect_none(&stream, "another thread wrote to this one's memory")
}
