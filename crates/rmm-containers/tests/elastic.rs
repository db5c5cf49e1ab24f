//! Elastic containers: memory that comes and goes in place, after the work on it.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use rmm_adaptors::{PoolMemoryResource, SegmentEvent};
use rmm_containers::{DeviceBuffer, ElasticBuffer, ElasticUVector};
use rmm_core::{CudaStream, ErrorKind, StreamFlags, current_driver};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Checker, Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{CuCaptureMode, CuDevice, CuDevicePtr, CuGraph, CuGraphExec, CuResult};

const PAGE: usize = 2 << 20;

fn lazy() -> Machine {
    Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).build()
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn buffer(pages: usize) -> ElasticBuffer {
    let resource = VirtualMemoryResource::new().expect("a resource");
    ElasticBuffer::reserve(pages * PAGE, &stream(), &resource).expect("addresses")
}

fn pages(range: Range<usize>) -> Range<usize> {
    range.start * PAGE..range.end * PAGE
}

/// Fills a page in the order of a stream.
fn fill(buffer: &mut ElasticBuffer, page: usize, value: u8, stream: &CudaStream) {
    let mut slice = buffer.slice_mut(pages(page..page + 1)).expect("it is committed");
    slice.fill_on(value, stream).expect("a fill");
}

/// Launches a kernel of the program's own on a page, and says so by `use_on`.
fn launch(machine: &Machine, buffer: &mut ElasticBuffer, page: usize, stream: &CudaStream) {
    let slice = buffer.slice_mut(pages(page..page + 1)).expect("it is committed");
    let used = slice.into_use_on(stream).expect("a use");
    let kernel = Kernel::repeatable("own", |_| ()).writes(used.as_ptr(), used.bytes());
    machine.launch(stream.as_raw(), kernel).expect("a launch");
}

#[track_caller]
fn assert_clean(machine: &Machine) {
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn a_range_goes_when_its_own_work_is_done() {
    let machine = lazy().enter();
    let (one, other) = (stream(), stream());
    let mut buffer = buffer(8);
    buffer.commit(pages(0..4)).unwrap();
    fill(&mut buffer, 0, 1, &one);
    one.synchronize().unwrap();
    fill(&mut buffer, 1, 2, &one);
    launch(&machine, &mut buffer, 2, &other);
    assert_eq!(buffer.decommit(pages(0..1)).unwrap(), PAGE, "its work is done");
    for busy in [1, 2] {
        let error = buffer.decommit(pages(busy..busy + 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
        assert!(error.to_string().contains(&format!("{:?}", pages(busy..busy + 1))), "{error}");
    }
    assert_eq!(buffer.decommit(pages(3..4)).unwrap(), PAGE, "it was not used");
    // A wait for the one does not run the other's work.
    assert_eq!(buffer.decommit_blocking(pages(1..2)).unwrap(), PAGE);
    assert_eq!(buffer.decommit(pages(2..3)).unwrap_err().kind(), ErrorKind::NotReady);
    assert_eq!(buffer.decommit_blocking(pages(2..3)).unwrap(), PAGE);
    assert_eq!(buffer.committed().count(), 0);
    drop((buffer, one, other));
    assert_clean(&machine);
}

// An open use that was not ended would take in the work on other pages.
#[test]
fn an_open_use_ends_with_the_first_attempt() {
    let machine = lazy().enter();
    let stream = stream();
    let mut buffer = buffer(2);
    buffer.commit(pages(0..2)).unwrap();
    launch(&machine, &mut buffer, 0, &stream);
    assert_eq!(buffer.decommit(pages(0..1)).unwrap_err().kind(), ErrorKind::NotReady);
    let end = stream.record_event().unwrap();
    launch(&machine, &mut buffer, 1, &stream);
    end.synchronize().unwrap();
    assert_eq!(buffer.decommit(pages(0..1)).unwrap(), PAGE);
    assert_eq!(buffer.decommit(pages(1..2)).unwrap_err().kind(), ErrorKind::NotReady);
    drop((buffer, end, stream));
    assert_clean(&machine);
}

// Merged uses would keep all pages of a stream that never idles.
#[test]
fn old_pages_go_while_a_stream_fills_new_ones() {
    const COUNT: usize = 200;
    let machine = lazy().enter();
    let stream = stream();
    let mut buffer = buffer(COUNT);
    let mut ends = Vec::new();
    for page in 0..COUNT {
        buffer.commit(pages(page..page + 1)).unwrap();
        buffer.slice_mut(page * PAGE..page * PAGE + 1).unwrap().fill_on(1, &stream).unwrap();
        ends.push(stream.record_event().unwrap());
        if page >= 20 {
            let old = page - 20;
            ends[old].synchronize().unwrap();
            assert_eq!(buffer.decommit(pages(old..old + 1)).unwrap(), PAGE, "page {old}");
        }
    }
    drop((buffer, ends, stream));
    assert_clean(&machine);
}

#[test]
fn work_that_was_recorded_is_waited_for() {
    let machine = lazy().enter();
    let (one, other) = (stream(), stream());
    let mut buffer = buffer(2);
    buffer.commit(pages(0..1)).unwrap();
    let kernel = Kernel::new("own", |_| ()).writes(CuDevicePtr(buffer.as_ptr().0), PAGE);
    machine.launch(one.as_raw(), kernel).unwrap();
    buffer.record_stream(0..PAGE, &one).unwrap();
    let late = Kernel::new("not recorded", |_| ());
    machine.launch(one.as_raw(), late).unwrap();
    drop(one);
    assert_eq!(buffer.decommit(pages(0..1)).unwrap_err().kind(), ErrorKind::NotReady);
    fill(&mut buffer, 0, 1, &other);
    assert!(buffer.record_stream(0..PAGE + 1, &other).unwrap_err().is_out_of_range());
    drop(Executable::capture(&other, || buffer.record_stream(0..1, &other).unwrap()));
    assert_eq!(buffer.decommit_blocking(pages(0..1)).unwrap_err().kind(), ErrorKind::Unsupported);
    // SAFETY: the graph is destroyed.
    unsafe { buffer.end_graph_uses() };
    buffer.decommit_blocking(pages(0..1)).unwrap();
    drop((buffer, other));
    assert_clean(&machine);
}

struct Executable(CuGraphExec);

impl Executable {
    fn capture(stream: &CudaStream, enqueue: impl FnOnce()) -> Self {
        let driver = current_driver().expect("the software driver");
        let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
        let mode = CuCaptureMode::GLOBAL;
        // SAFETY: the stream exists.
        let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
        assert_eq!(begun, CuResult::SUCCESS);
        enqueue();
        // SAFETY: the stream exists, and the result may be written.
        let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        assert_eq!(ended, CuResult::SUCCESS, "the capture is intact");
        // SAFETY: as above.
        let code = unsafe { driver.cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
        assert_eq!(code, CuResult::SUCCESS);
        // SAFETY: the graph is not used again.
        assert_eq!(unsafe { driver.cuGraphDestroy(graph) }, CuResult::SUCCESS);
        Self(executable)
    }

    fn launch(&self, stream: &CudaStream) {
        let driver = current_driver().expect("the software driver");
        // SAFETY: both exist, and the tests say whether the memory does.
        let code = unsafe { driver.cuGraphLaunch(self.0, stream.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let driver = current_driver().expect("the software driver");
        // SAFETY: the graph is owned, and not used again.
        let _ignored = unsafe { driver.cuGraphExecDestroy(self.0) };
    }
}

#[test]
fn pages_of_a_graph_stay_and_others_move_while_it_replays() {
    let machine = lazy().enter();
    let (stream, other) = (stream(), stream());
    let mut buffer = buffer(8);
    buffer.commit(pages(0..3)).unwrap();
    fill(&mut buffer, 0, 7, &stream);
    fill(&mut buffer, 2, 7, &other);
    stream.synchronize().unwrap();
    let graph = Executable::capture(&stream, || {
        fill(&mut buffer, 0, 8, &stream);
        let error = buffer.decommit(pages(0..1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let error = buffer.decommit_blocking(pages(0..2)).unwrap_err();
        assert!(error.to_string().contains("0..4194304 is being captured"), "{error}");
        // Other pages are not concerned.
        assert_eq!(buffer.decommit(pages(1..2)).unwrap(), PAGE);
        assert_eq!(buffer.decommit_blocking(pages(2..3)).unwrap(), PAGE);
        buffer.commit(pages(1..2)).unwrap();
    });
    for round in 1..8 {
        graph.launch(&stream);
        buffer.decommit_blocking(pages(round..round + 1)).unwrap();
        if round < 7 {
            buffer.commit(pages(round + 1..round + 2)).unwrap();
            fill(&mut buffer, round + 1, 1, &other);
        }
    }
    let error = buffer.decommit_blocking(pages(0..1)).unwrap_err();
    assert!(error.to_string().contains("call `end_graph_uses`"), "{error}");
    // A write outside of the graph does not take its place.
    stream.synchronize().unwrap();
    fill(&mut buffer, 0, 9, &stream);
    assert_eq!(buffer.decommit_blocking(pages(0..1)).unwrap_err().kind(), ErrorKind::Unsupported);
    drop(graph);
    // SAFETY: the graph has run, and is destroyed.
    unsafe { buffer.end_graph_uses() };
    assert_eq!(buffer.decommit(pages(0..1)).unwrap_err().kind(), ErrorKind::NotReady);
    assert_eq!(buffer.decommit_blocking(pages(0..1)).unwrap(), PAGE);
    drop((buffer, stream, other));
    assert_clean(&machine);
}

// Work that is enqueued after the capture, with an address that was had before its end.
#[test]
fn an_open_use_that_began_in_a_capture_is_waited_for() {
    let machine = lazy().enter();
    let stream = stream();
    let mut buffer = buffer(1);
    buffer.commit(pages(0..1)).unwrap();
    let graph = Executable::capture(&stream, || launch(&machine, &mut buffer, 0, &stream));
    let kernel = Kernel::new("after", |_| ()).writes(CuDevicePtr(buffer.as_ptr().0), PAGE);
    machine.launch(stream.as_raw(), kernel).unwrap();
    drop(graph);
    // SAFETY: the graph was not launched, and is destroyed.
    unsafe { buffer.end_graph_uses() };
    assert_eq!(buffer.decommit(pages(0..1)).unwrap_err().kind(), ErrorKind::NotReady);
    buffer.decommit_blocking(pages(0..1)).unwrap();
    drop((buffer, stream));
    assert_clean(&machine);
}

#[test]
fn views_are_of_committed_ranges_only() {
    let machine = lazy().enter();
    let mut buffer = buffer(4);
    buffer.commit(pages(1..2)).unwrap();
    buffer.slice(PAGE + 1..2 * PAGE - 1).unwrap();
    buffer.slice(0..0).unwrap();
    for (range, named) in [
        (PAGE - 1..PAGE + 1, "2097151..2097153 of 8388608: the page at 0 is not committed"),
        (PAGE..2 * PAGE + 1, "the page at 4194304 is not committed"),
        (PAGE..5 * PAGE, "2097152..10485760 of 8388608"),
        (Range { start: 2, end: 1 }, "2..1 of 8388608"),
    ] {
        let error = buffer.slice_mut(range).unwrap_err();
        assert!(error.is_out_of_range() && error.to_string().contains(named), "{error}");
    }
    let error = buffer.decommit(1..PAGE).unwrap_err();
    assert!(error.to_string().contains("1..2097152 of 8388608: the range is not"), "{error}");
    drop(buffer);
    assert_clean(&machine);
}

#[test]
fn a_use_of_a_page_that_is_not_committed_is_reported() {
    let machine = Machine::builder().backtraces(true).enter();
    let stream = stream();
    let mut buffer = buffer(4);
    buffer.commit(pages(0..2)).unwrap();
    buffer.decommit(pages(1..2)).unwrap();
    for (page, kind, call) in [
        (1, ViolationKind::UseAfterFree, "cuMemUnmap frees it"),
        (2, ViolationKind::OutOfBounds, "cuMemAddressReserve allocates it"),
    ] {
        let start = CuDevicePtr(buffer.as_ptr().0 + (page * PAGE) as u64);
        let kernel = Kernel::new("stray", |_| ()).reads(start, 64);
        let refused = machine.launch(stream.as_raw(), kernel);
        assert_eq!(refused, Err(CuResult::INVALID_VALUE));
        let report = machine.violations().pop().expect("it is reported");
        assert_eq!(report.kind, kind);
        let report = report.to_string();
        assert!(report.contains(call) && report.contains("stray that reads it"), "{report}");
        assert_eq!(report.matches("access was made at").count(), 2, "{report}");
    }
    assert_eq!(machine.violations().len(), 2);
}

#[test]
fn elements_have_to_fit_into_pages() {
    let machine = lazy().enter();
    let (stream, resource) = (stream(), VirtualMemoryResource::new().unwrap());
    let error = ElasticUVector::<[u8; 3]>::reserve(1, &stream, &resource).unwrap_err();
    assert!(error.to_string().contains("do not hold whole elements `[u8; 3]`"), "{error}");
    let error = ElasticUVector::<u64>::reserve(usize::MAX / 2, &stream, &resource).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let mut vector = ElasticUVector::<u64>::reserve(1, &stream, &resource).unwrap();
    assert_eq!((vector.capacity(), vector.page_len()), (PAGE / 8, PAGE / 8));
    assert!(vector.commit(0..usize::MAX).unwrap_err().is_out_of_range());
    vector.commit(0..PAGE / 8).unwrap();
    vector.slice_mut(7..9).unwrap().fill_on(u64::MAX - 1, &stream).unwrap();
    assert_eq!(vector.slice(8..9).unwrap().to_vec_on(&stream).unwrap(), [u64::MAX - 1]);
    drop((vector, resource, stream));
    assert_clean(&machine);
}

#[test]
fn a_pool_returns_what_it_does_not_use() {
    let machine = lazy().enter(); // of 64 MiB
    let stream = stream();
    let pool = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap()).build().unwrap();
    drop(DeviceBuffer::zeroed_in(60 << 20, &stream, &pool).unwrap());
    assert!(machine.memory_in_use(0) >= 60 << 20);
    let mut buffer = buffer(20);
    buffer.commit(pages(0..20)).unwrap();
    drop((buffer, pool, stream));
    assert_clean(&machine);
}

#[test]
fn drop_waits_for_work_and_keeps_what_a_capture_uses() {
    let machine = lazy().enter();
    let stream = stream();
    let resource = VirtualMemoryResource::new().unwrap();
    let mut one = ElasticBuffer::reserve(PAGE, &stream, &resource).unwrap();
    one.commit(0..PAGE).unwrap();
    launch(&machine, &mut one, 0, &stream);
    drop(one);
    assert_eq!(machine.memory_in_use(0), 0);
    let mut two = ElasticBuffer::reserve(PAGE, &stream, &resource).unwrap();
    two.commit(0..PAGE).unwrap();
    let graph = Executable::capture(&stream, || {
        fill(&mut two, 0, 1, &stream);
        drop(two);
        drop(resource);
    });
    assert_eq!(machine.memory_in_use(0), PAGE);
    graph.launch(&stream);
    stream.synchronize().unwrap();
    machine.assert_no_violations();
}

#[test]
fn memory_is_returned_after_its_context_has_ended() {
    let machine = lazy().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let stream = stream();
    let mut buffer = ElasticBuffer::reserve(4 * PAGE, &stream, &resource).unwrap();
    buffer.commit(pages(0..2)).unwrap();
    fill(&mut buffer, 0, 1, &stream);
    // SAFETY: nothing of the context is used afterwards but by the library, which knows.
    let code = unsafe { current_driver().unwrap().cuDevicePrimaryCtxReset_v2(CuDevice(0)) };
    assert_eq!(code, CuResult::SUCCESS);
    assert!(buffer.commit(pages(2..3)).is_err());
    drop(buffer);
    assert_eq!(machine.memory_in_use(0), 0);
    assert_eq!(resource.statistics().mapped_bytes, 0);
    machine.assert_no_violations();
}

#[test]
fn callbacks_of_pools_that_a_commit_asks_may_use_the_buffer() {
    let _machine = lazy().enter();
    let buffer = Arc::new(Mutex::new(buffer(32)));
    let commit = |range| ElasticBuffer::commit_locked(&buffer, pages(range));
    commit(0..1).unwrap();
    let pool = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap()).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let callback = {
        let (buffer, seen) = (Arc::clone(&buffer), Arc::clone(&seen));
        move |event| {
            if let SegmentEvent::Removing(_) = event {
                let buffer = buffer.try_lock().map_err(|_| "it is locked")?;
                seen.lock().unwrap().extend(buffer.committed());
            }
            Ok::<(), &str>(())
        }
    };
    let _guard = pool.on_segment(callback).unwrap();
    drop(DeviceBuffer::uninit_in(24 * PAGE, &stream(), &pool).unwrap());
    commit(4..28).unwrap();
    assert_eq!(seen.lock().unwrap().first(), Some(&pages(0..1)));
    assert_eq!(commit(4..5).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(buffer.lock().unwrap().committed().eq([pages(0..1), pages(4..28)]));
}

#[test]
fn every_call_fails_once() {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Lazy);
    let failed = Checker::new().machine(machine).fail_each_call(CuResult::UNKNOWN, |machine| {
        let (resource, one, other) =
            machine.without_faults(|| (VirtualMemoryResource::new().unwrap(), stream(), stream()));
        let program = |buffer: &mut ElasticBuffer| {
            buffer.commit(pages(0..3))?;
            buffer.slice_mut(pages(0..2))?.fill_on(1, &one)?;
            let mut slice = buffer.slice_mut(pages(1..3))?;
            slice.fill_on(2, &other)?;
            let used = buffer.slice(pages(2..3))?.use_on(&one)?;
            let kernel = Kernel::new("own", |_| ()).reads(used.as_ptr(), used.bytes());
            machine.launch(one.as_raw(), kernel)?;
            match buffer.decommit(pages(0..1)) {
                Err(error) if error.kind() == ErrorKind::NotReady => {}
                other => drop(other?),
            }
            buffer.decommit_blocking(pages(1..3)).map(drop)
        };
        let Ok(mut buffer) = ElasticBuffer::reserve(8 * PAGE, &one, &resource) else {
            machine.clear_faults();
            assert_ne!(machine.failed_calls().len(), 0);
            return;
        };
        let outcome = program(&mut buffer);
        assert!(outcome.is_ok() || !machine.failed_calls().is_empty(), "{outcome:?}");
        machine.clear_faults();
        for range in buffer.committed().collect::<Vec<_>>() {
            buffer.decommit_blocking(range).expect("the fault is over");
        }
        program(&mut buffer).expect("it is usable");
        assert_eq!(resource.statistics().mapped_bytes, PAGE as u64);
        drop(buffer);
        assert_eq!(resource.statistics().mapped_bytes, 0);
    });
    assert!(failed > 30, "{failed}");
}

/// Numbers from a seed (a linear congruential generator).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// Bytes at the edges of a page that are written, so that ranges cross from one to the next.
const EDGE: usize = 64;

#[test]
fn ten_thousand_random_steps_agree_with_a_model() {
    /// A random program against a model: for each page what its edges are, if it is there.
    fn walk(machine: &Machine, seed: u64, steps: usize) {
        const PAGES: usize = 48;
        let (streams, mut random) = ([stream(), stream()], Random(seed));
        let resource = VirtualMemoryResource::new().unwrap();
        let mut buffer = ElasticBuffer::reserve(PAGES * PAGE, &streams[0], &resource).unwrap();
        let mut model: Vec<Option<Option<u8>>> = vec![None; PAGES];
        let (mut went, mut waited, mut last) = (0, 0, None);
        for step in 0..steps {
            // Often a decommit of what was used just now, so that work on it is not done.
            let is_again = last.take_if(|_| random.below(3) == 0);
            let start = is_again.unwrap_or_else(|| random.below(PAGES));
            let what = if is_again.is_some() { 3 } else { random.below(12) };
            last = (what > 5).then_some(start);
            let range = start..(start + 1 + random.below(2)).min(PAGES);
            let committed = model[range.clone()].iter().filter(|page| page.is_some()).count();
            let stream = &streams[random.below(2)];
            match what {
                0..3 => {
                    let outcome = buffer.commit(pages(range.clone()));
                    let there = model.iter().flatten().count();
                    if committed > 0 {
                        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::InvalidArgument);
                    } else if there + range.len() > 32 {
                        assert!(outcome.unwrap_err().is_out_of_memory(), "step {step}");
                    } else {
                        outcome.unwrap();
                        model[range].fill(Some(None));
                    }
                }
                3..6 => {
                    let outcome = match what {
                        3 | 4 => buffer.decommit(pages(range.clone())),
                        _ => buffer.decommit_blocking(pages(range.clone())),
                    };
                    match outcome {
                        Ok(bytes) => {
                            assert_eq!((bytes, committed), (range.len() * PAGE, range.len()));
                            model[range].fill(None);
                            went += 1;
                        }
                        Err(error) if committed < range.len() => assert!(error.is_out_of_range()),
                        Err(error) => {
                            assert!(error.kind() == ErrorKind::NotReady && what < 5, "{error}");
                            waited += 1;
                        }
                    }
                }
                6 | 7 => {
                    // From the end of a page to the beginning of the next.
                    let (first, last) = (start, (start + 1).min(PAGES - 1));
                    let edge = (first + 1) * PAGE - EDGE..last * PAGE + EDGE;
                    if first < last && model[first].is_some() && model[last].is_some() {
                        buffer.slice_mut(edge).unwrap().fill_on(9, stream).unwrap();
                        model[first] = Some(None);
                        model[last] = Some(None);
                    } else if first < last {
                        assert!(buffer.slice_mut(edge).unwrap_err().is_out_of_range());
                    }
                }
                8 | 9 if model[start].is_some() => {
                    let value = u8::try_from(step % 251).unwrap();
                    for edge in [start * PAGE, (start + 1) * PAGE - EDGE] {
                        let mut slice = buffer.slice_mut(edge..edge + EDGE).unwrap();
                        slice.fill_on(value, stream).unwrap();
                    }
                    model[start] = Some(Some(value));
                }
                _ => {
                    if let Some(Some(value)) = model[start]
                        && random.below(8) == 0
                    {
                        let edge = buffer.slice((start + 1) * PAGE - EDGE..(start + 1) * PAGE);
                        assert_eq!(edge.unwrap().to_vec_on(stream).unwrap(), [value; EDGE]);
                    } else if model[start].is_some() {
                        launch(machine, &mut buffer, start, stream);
                    }
                }
            }
            let there = model.iter().flatten().count();
            assert_eq!(machine.memory_in_use(0), there * PAGE);
            let is_there = |page: usize| model[page].is_some();
            let listed: Vec<usize> =
                buffer.committed().flat_map(|range| range.start / PAGE..range.end / PAGE).collect();
            assert!((0..PAGES).filter(|&page| is_there(page)).eq(listed));
        }
        assert!(went > steps / 20 && waited > steps / 2000, "{went} {waited}");
    }

    for (seed, schedule) in [(1, Schedule::Lazy), (2, Schedule::Seeded(2))] {
        let machine = Machine::builder().memory(64 << 20).schedule(schedule).enter();
        walk(&machine, seed, 10_000);
        assert_clean(&machine);
    }
}
