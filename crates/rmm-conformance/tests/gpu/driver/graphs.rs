//! Graphs: how streams join a capture, and what the graph does.

use rmm_conformance::CheckResult;
use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuDevicePtr, CuResult};

use super::raw::{Event, Memory, Stream, driver};
use super::raw_graph::{Capture, end, status};
use super::{all, answers, is_one_of, report, works};
use crate::run::{in_every_place, in_every_place_unwatched};

const GLOBAL: CuCaptureMode = CuCaptureMode::GLOBAL;
const RELAXED: CuCaptureMode = CuCaptureMode::RELAXED;

#[test]
fn captured_work_runs_at_each_launch_and_never_before() {
    in_every_place(|| {
        let (captured, memory) = (Stream::non_blocking()?, Memory::words()?);
        let capture = Capture::begin(&captured, GLOBAL)?;
        works("the work", captured.fill(&memory, 2))?;
        answers("the status", &status(&captured), &Ok(CuCaptureStatus::ACTIVE))?;
        let graph = capture.end()?;
        answers("the status after it", &status(&captured), &Ok(CuCaptureStatus::NONE))?;
        works("the wait", captured.synchronize())?;
        memory.holds(0)?;
        let executable = graph.instantiate()?;
        // What was made of it needs it no more.
        drop(graph);
        for before in [3, 4] {
            works("other work", captured.fill(&memory, before))?;
            works("the wait for it", captured.synchronize())?;
            memory.holds(before)?;
            works("the launch", executable.launch(&captured))?;
            works("the wait for the launch", captured.synchronize())?;
            memory.holds(2)?;
        }
        Ok(())
    });
}

#[test]
fn two_launches_are_in_order_with_the_work_between() {
    in_every_place(|| {
        let (captured, memory) = (Stream::non_blocking()?, Memory::words()?);
        let capture = Capture::begin(&captured, GLOBAL)?;
        works("the work", captured.fill(&memory, 2))?;
        let executable = capture.end()?.instantiate()?;
        works("the first launch", executable.launch(&captured))?;
        works("the work between", captured.fill(&memory, 7))?;
        works("the second launch", executable.launch(&captured))?;
        works("the work after", captured.fill(&memory, 9))?;
        works("the wait", captured.synchronize())?;
        memory.holds(9)
    });
}

#[test]
fn an_empty_capture_makes_a_graph_that_does_nothing() {
    in_every_place(|| {
        let captured = Stream::non_blocking()?;
        let executable = Capture::begin(&captured, GLOBAL)?.end()?.instantiate()?;
        works("the launch", executable.launch(&captured))?;
        works("the wait", captured.synchronize())
    });
}

/// Two streams, of which the second was drawn into the capture of the first, with work on both.
struct Branches {
    origin: Stream,
    branch: Stream,
    memory: Memory,
    fork: Event,
    join: Event,
}

impl Branches {
    fn new() -> Result<Self, CuResult> {
        let (origin, branch) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let (memory, fork, join) = (Memory::words()?, Event::new()?, Event::new()?);
        Ok(Self { origin, branch, memory, fork, join })
    }

    fn draw_in(&self) -> Result<Capture<'_>, rmm_conformance::Failure> {
        let capture = Capture::begin(&self.origin, GLOBAL)?;
        works("work on the origin", self.origin.fill(&self.memory, 1))?;
        works("the record on the origin", self.fork.record(&self.origin))?;
        works("the branch's wait", self.branch.wait_for(&self.fork))?;
        answers("the branch's status", &status(&self.branch), &Ok(CuCaptureStatus::ACTIVE))?;
        works("work on the branch", self.branch.fill(&self.memory, 2))?;
        works("the record on the branch", self.join.record(&self.branch))?;
        Ok(capture)
    }
}

#[test]
fn an_event_draws_another_stream_in_and_leads_back() {
    in_every_place(|| {
        let streams = Branches::new()?;
        let capture = streams.draw_in()?;
        works("the origin's wait", streams.origin.wait_for(&streams.join))?;
        let graph = capture.end()?;
        answers("the branch's status", &status(&streams.branch), &Ok(CuCaptureStatus::NONE))?;
        let executable = graph.instantiate()?;
        works("the launch", executable.launch(&streams.origin))?;
        works("the wait", streams.origin.synchronize())?;
        streams.memory.holds(2)
    });
}

#[test]
fn work_that_was_not_joined_makes_no_graph() {
    in_every_place_unwatched(|| {
        let streams = Branches::new()?;
        let ended = streams.draw_in()?.end().err();
        let none = Ok(CuCaptureStatus::NONE);
        all([
            answers("the end", &ended, &Some(CuResult::STREAM_CAPTURE_UNJOINED)),
            answers("the origin's status", &status(&streams.origin), &none),
            answers("the branch's status", &status(&streams.branch), &none),
        ])
    });
}

#[test]
fn a_capture_ends_on_the_stream_that_it_began_on() {
    in_every_place_unwatched(|| {
        let streams = Branches::new()?;
        let capture = streams.draw_in()?;
        let wrong = end(&streams.branch).err();
        let ended = capture.end().err();
        all([
            answers("the end on the branch", &wrong, &Some(CuResult::STREAM_CAPTURE_UNMATCHED)),
            answers("the end", &ended, &Some(CuResult::STREAM_CAPTURE_INVALIDATED)),
        ])
    });
}

#[test]
fn captured_events_stand_for_nothing_when_the_capture_is_over() {
    in_every_place_unwatched(|| {
        let streams = Branches::new()?;
        let capture = streams.draw_in()?;
        let joined = streams.origin.wait_for(&streams.join);
        let ended = capture.end().err();
        let (query, wait) = (streams.join.query(), streams.origin.wait_for(&streams.join));
        let refused = CuResult::INVALID_VALUE;
        all([
            works("the join", joined),
            answers("the end", &ended, &None),
            answers("the query of one", &query, &refused),
            answers("a stream's wait for one", &wait, &refused),
            works("a record anew", streams.join.record(&streams.origin)),
            works("the wait for it", streams.join.synchronize()),
        ])
    });
}

#[test]
fn two_captures_are_kept_apart() {
    in_every_place_unwatched(|| {
        let (first, second, mark) =
            (Stream::non_blocking()?, Stream::non_blocking()?, Event::new()?);
        let captures = (Capture::begin(&first, RELAXED)?, Capture::begin(&second, RELAXED)?);
        let recorded = mark.record(&first);
        let wait = second.wait_for(&mark);
        let ends = [captures.0.end().err(), captures.1.end().err()];
        all([
            works("the record", recorded),
            answers("the wait", &wait, &CuResult::STREAM_CAPTURE_MERGE),
            answers("the ends", &ends, &[Some(CuResult::STREAM_CAPTURE_INVALIDATED); 2]),
        ])
    });
}

#[test]
fn a_captured_stream_does_not_wait_for_work_outside() {
    in_every_place_unwatched(|| {
        let (captured, other, mark) =
            (Stream::non_blocking()?, Stream::non_blocking()?, Event::new()?);
        works("the record", mark.record(&other))?;
        let capture = Capture::begin(&captured, GLOBAL)?;
        let wait = captured.wait_for(&mark);
        let left = status(&captured);
        let ended = capture.end().err();
        all([
            answers("the wait", &wait, &CuResult::STREAM_CAPTURE_ISOLATION),
            answers("the status then", &left, &Ok(CuCaptureStatus::INVALIDATED)),
            answers("the end", &ended, &Some(CuResult::STREAM_CAPTURE_INVALIDATED)),
            works("the wait at the end", other.synchronize()),
        ])
    });
}

#[test]
fn the_legacy_stream_does_not_wait_for_captured_work() {
    in_every_place_unwatched(|| {
        let (captured, mark) = (Stream::non_blocking()?, Event::new()?);
        let capture = Capture::begin(&captured, RELAXED)?;
        let recorded = mark.record(&captured);
        let wait = Stream::LEGACY.wait_for(&mark);
        let ended = capture.end().err();
        all([
            works("the record", recorded),
            answers("the wait", &wait, &CuResult::STREAM_CAPTURE_IMPLICIT),
            answers("the end", &ended, &Some(CuResult::STREAM_CAPTURE_INVALIDATED)),
        ])
    });
}

#[test]
fn a_wait_for_an_event_that_was_never_recorded_is_nothing_to_a_capture() {
    in_every_place_unwatched(|| {
        let (captured, fresh) = (Stream::non_blocking()?, Event::new()?);
        let capture = Capture::begin(&captured, GLOBAL)?;
        let wait = captured.wait_for(&fresh);
        let ended = capture.end().err();
        all([works("the wait", wait), answers("the end", &ended, &None)])
    });
}

/// The driver makes nodes of the graph of it; the software device has none, and says so without
/// spoiling the capture.
#[test]
fn memory_of_pools_is_part_of_the_graph_or_refused() {
    in_every_place_unwatched(|| {
        let captured = Stream::non_blocking()?;
        let capture = Capture::begin(&captured, GLOBAL)?;
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to, and the stream exists.
        let given = unsafe { driver().cuMemAllocAsync(&raw mut pointer, 1 << 20, captured.raw()) };
        let taken: CheckResult = if given.is_success() {
            // SAFETY: the graph's own memory, allocated above.
            works("the free", unsafe { driver().cuMemFreeAsync(pointer, captured.raw()) })
        } else {
            Ok(())
        };
        let left = status(&captured);
        let ended = capture.end().err();
        report("memory of a pool in a capture", &given);
        all([
            is_one_of("the code", &given, &[CuResult::SUCCESS, CuResult::NOT_SUPPORTED]),
            taken,
            answers("the status then", &left, &Ok(CuCaptureStatus::ACTIVE)),
            answers("the end", &ended, &None),
        ])
    });
}
