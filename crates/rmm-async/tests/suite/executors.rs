//! Work is awaited on any executor, under every schedule.

use rmm_async::{completed, download, upload};
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::sys::{CuCaptureMode, CuGraph};
use rmm_core::{CudaStream, Error, StreamRef};

use crate::harness::{block_on, check, lazy, stream};

/// Fills, awaits, and copies back, over two streams.
async fn program(own: CudaStream, other: CudaStream) -> Result<Vec<u32>, Error> {
    let mut vector = DeviceUVector::<u32>::zeroed(100, &own)?;
    vector.as_slice_mut().slice(..50)?.fill_on(7, &other)?;
    let filled = other.as_stream_ref().record_event()?;
    completed(&other)?.await?;
    assert!(filled.is_complete()?, "the work before it is complete");
    let staging = PinnedVec::filled(9, 50)?;
    let (second, staging) = upload(staging, &own)?.await?;
    assert_eq!(staging.len(), 50);
    vector.as_slice_mut().slice(50..)?.copy_from_on(second.as_slice(), &other)?;
    drop(second);
    download(vector.as_slice(), &other)?.await
}

fn assert_filled(outcome: Result<Vec<u32>, Error>) {
    let elements = outcome.expect("the device works");
    assert_eq!((&elements[..50], &elements[50..]), (&[7; 50][..], &[9; 50][..]));
}

#[test]
fn a_hand_written_executor_awaits_work() {
    check(|_| assert_filled(block_on(program(stream(), stream()))));
}

#[test]
fn smol_awaits_work() {
    check(|_| assert_filled(smol::block_on(program(stream(), stream()))));
    check(|_| {
        let executor = smol::Executor::new();
        let tasks = [(); 3].map(|()| executor.spawn(program(stream(), stream())));
        smol::block_on(executor.run(async {
            for task in tasks {
                assert_filled(task.await);
            }
        }));
    });
}

#[test]
fn tokio_awaits_work_on_one_thread_and_on_many() {
    check(|_| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_filled(runtime.block_on(program(stream(), stream())));
    });
    check(|_| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).build().expect("a runtime");
        let tasks = [(); 3].map(|()| runtime.spawn(program(stream(), stream())));
        for task in tasks {
            assert_filled(runtime.block_on(task).expect("no panic"));
        }
    });
}

#[test]
fn default_streams_are_awaited() {
    check(|_| {
        for stream in [StreamRef::legacy(), StreamRef::per_thread()] {
            let vector = DeviceUVector::filled(3u8, 100, stream).expect("a vector");
            let copy = download(vector.as_slice(), stream).expect("a copy");
            assert_eq!(block_on(copy).expect("the device works"), [3; 100]);
        }
    });
}

#[test]
fn a_thread_without_a_context_awaits() {
    let machine = lazy();
    let _here = machine.enter();
    let (legacy, own) = (CudaStream::legacy(), CudaStream::per_thread());
    let vector = DeviceUVector::<u32>::filled(5, 100, &legacy).expect("there is memory");
    // Each on a thread that has called nothing before.
    let programs: [&(dyn Fn() -> Result<(), Error> + Sync); 3] =
        [&|| block_on(completed(&legacy)?), &|| block_on(completed(&own)?), &|| {
            block_on(download(vector.as_slice(), &legacy)?).map(drop)
        }];
    for program in programs {
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _there = machine.enter();
                program()
            });
            thread.join().expect("it does not panic")
        });
        outcome.expect("the device works");
    }
    machine.assert_no_violations();
}

#[test]
fn a_future_moves_to_another_thread() {
    check(|_| {
        let stream = stream();
        let vector = DeviceUVector::filled(3u8, 100, &stream).expect("a vector");
        let mut copy = download(vector.as_slice(), &stream).expect("a copy");
        let first = crate::harness::poll_once(&mut copy);
        let moved = std::thread::spawn(move || match first {
            std::task::Poll::Ready(outcome) => outcome,
            std::task::Poll::Pending => block_on(copy),
        });
        let outcome = moved.join().expect("no panic");
        assert_eq!(outcome.expect("the device works"), [3; 100]);
    });
}

#[test]
fn captured_streams_are_refused_and_stay_captured() {
    let _machine = lazy().enter();
    let stream = stream();
    let vector = DeviceUVector::filled(3u8, 100, &stream).expect("a vector");
    let pending = completed(&stream).expect("it is not captured yet");
    let driver = rmm_sim::driver();
    // SAFETY: the stream exists.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
    assert!(begun.is_success());
    assert!(completed(&stream).expect_err("refused").is_unsupported());
    assert!(download(vector.as_slice(), &stream).expect_err("refused").is_unsupported());
    let mut graph = CuGraph::NULL;
    // SAFETY: `graph` may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert!(ended.is_success(), "the capture is intact");
    // SAFETY: the graph exists and is destroyed once.
    assert!(unsafe { driver.cuGraphDestroy(graph) }.is_success());
    block_on(pending).expect("the device works");
}

#[test]
fn a_query_does_not_end_the_capture_of_another_thread() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let (own, captured) = (stream(), stream());
    let vector = DeviceUVector::filled(3u8, 100, &own).expect("a vector");
    let pending = completed(&own).expect("it is not captured");
    let driver = rmm_sim::driver();
    // SAFETY: the stream exists.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(captured.as_raw(), CuCaptureMode::GLOBAL) };
    assert!(begun.is_success());
    let awaiting = std::thread::spawn({
        let machine = machine.clone();
        move || machine.scope(|| block_on(pending))
    });
    awaiting.join().expect("no panic").expect("the device works");
    let mut graph = CuGraph::NULL;
    // SAFETY: `graph` may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(captured.as_raw(), &raw mut graph) };
    assert!(ended.is_success(), "the capture is intact");
    // SAFETY: the graph exists and is destroyed once.
    assert!(unsafe { driver.cuGraphDestroy(graph) }.is_success());
    drop(vector);
}
