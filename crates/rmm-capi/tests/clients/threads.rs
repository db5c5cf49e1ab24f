//! Clients that several threads use at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use rmm_rs::frameworks::client::counts::ClientStat;

use super::fixtures::*;

const THREADS: usize = 4;
const BLOCKS: usize = 40;

/// The address of a block, for another thread.
struct Address(*mut std::ffi::c_void);

// SAFETY: it is a number; the memory is the device's.
unsafe impl Send for Address {}

#[test]
fn peaks_are_exact_whichever_thread_allocates() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let all_allocated = Barrier::new(THREADS);
    let all_free = Barrier::new(THREADS);
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (client, all_allocated, all_free) = (&client, &all_allocated, &all_free);
            scope.spawn(move || {
                let _entered = MACHINE.enter();
                let _device = device(0);
                let stream = Stream::new();
                for round in 0..3 {
                    let bytes = (512 * (index + 1)) << round;
                    let blocks: Vec<_> =
                        (0..BLOCKS).map(|_| client.allocate(&stream, bytes)).collect();
                    // The most at once is now, and never more.
                    all_allocated.wait();
                    blocks.into_iter().for_each(free);
                    all_free.wait();
                }
            });
        }
    });
    let number = |number: usize| i64::try_from(number).expect("a small number");
    let one_round = number(512 * BLOCKS * (1..=THREADS).sum::<usize>());
    let (peak, sum) = (4 * one_round, 7 * one_round);
    let statistics = client.statistics();
    let expected = ClientStat { current: 0, peak, allocated: sum, freed: sum };
    assert_eq!(statistics.allocated_bytes[0], expected);
    assert_eq!(statistics.active_bytes[0], expected);
    let (peak, sum) = (number(THREADS * BLOCKS), number(3 * THREADS * BLOCKS));
    assert_eq!(
        statistics.allocation[0],
        ClientStat { current: 0, peak, allocated: sum, freed: sum }
    );
}

#[test]
fn blocks_that_other_threads_record_and_free_all_come_back() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let streams = [(); THREADS].map(|()| Stream::new());
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<Address>()).unzip();
    let total = AtomicI64::new(0);
    thread::scope(|scope| {
        for (index, receiver) in receivers.into_iter().enumerate() {
            let senders = senders.clone();
            let (client, streams, total) = (&client, &streams, &total);
            scope.spawn(move || {
                let _entered = MACHINE.enter();
                let _device = device(0);
                let mut numbers = Numbers::new(index as u64);
                let next = (index + 1) % THREADS;
                for round in 0..BLOCKS {
                    let bytes = 1 + numbers.below(2 * MIB);
                    let requested = i64::try_from(bytes).expect("a small number");
                    total.fetch_add(requested, Ordering::Relaxed);
                    let block = client.allocate(&streams[index], bytes);
                    streams[index].fill(block, bytes);
                    if round % 3 > 0 {
                        streams[next].wait_for(&streams[index]);
                        streams[next].fill(block, bytes);
                        record(block, &streams[next]);
                    }
                    senders[next].send(Address(block)).expect("the thread runs");
                    // The neighbour's: its streams were recorded before it was sent.
                    free(receiver.recv().expect("one for each").0);
                }
            });
        }
    });
    client.settle();
    let statistics = client.statistics();
    let total = total.into_inner();
    assert_eq!(statistics.requested_bytes[0].allocated, total);
    assert_eq!(statistics.requested_bytes[0].freed, total);
    for stat in [statistics.allocation[0], statistics.active[0]] {
        let sum = i64::try_from(THREADS * BLOCKS).expect("a small number");
        assert_eq!((stat.current, stat.allocated, stat.freed), (0, sum, sum));
    }
    assert!(client.walk(std::ptr::null()).is_empty());
}

#[test]
fn another_threads_own_default_stream_keeps_its_order() {
    const PER_THREAD: *mut std::ffi::c_void = std::ptr::without_provenance_mut(2);
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let stream = Stream::new();
    let block = thread::scope(|scope| {
        let of_thread = scope.spawn(|| {
            let _entered = MACHINE.enter();
            let _device = device(0);
            let own = client.try_allocate_from(std::ptr::null(), PER_THREAD, MIB);
            let own = own.expect("there is memory");
            fill(rmm_core::StreamRef::per_thread(), own, MIB);
            let recorded = client.allocate(&stream, MIB);
            rmm_core::StreamRef::per_thread().wait_for(&stream.0).expect("a wait");
            fill(rmm_core::StreamRef::per_thread(), recorded, MIB);
            let recording =
                c!(rmm_rs::frameworks::client::rmm_rs_client_record_stream(recorded, PER_THREAD));
            ok(recording);
            [Address(own), Address(recorded)]
        });
        of_thread.join().expect("the thread ends")
    });
    // The handle 2 means another stream here.
    for Address(block) in block {
        free(block);
        assert!(find(block).is_none(), "it came back after a wait for the device");
    }
    for _ in 0..2 {
        let again = client.allocate(&stream, MIB);
        stream.fill(again, MIB);
    }
    for block in client.walk(std::ptr::null()) {
        free(block.pointer);
    }
}
