//! Calls while a stream is captured: those that are allowed, and those that invalidate the capture.

use std::sync::{Mutex, PoisonError};

use rmm_conformance::{CheckResult, Environment, Failure};
use rmm_sys::{
    CuCaptureMode, CuCaptureStatus, CuDevicePtr, CuMemPoolAttribute, CuResult, MEM_ATTACH_GLOBAL,
};

use super::contexts::{push, without_context};
use super::memory::{free_pinned, managed, pinned};
use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::raw_graph::{Capture, begin, end, exchange, status};
use super::raw_pool::Pool;
use super::{all, answers, works};
use crate::run::{in_every_environment_unwatched, in_every_place_unwatched};

const GLOBAL: CuCaptureMode = CuCaptureMode::GLOBAL;
const THREAD_LOCAL: CuCaptureMode = CuCaptureMode::THREAD_LOCAL;
const RELAXED: CuCaptureMode = CuCaptureMode::RELAXED;
pub(super) const MODES: [CuCaptureMode; 3] = [GLOBAL, THREAD_LOCAL, RELAXED];

/// What a call returned, what the captured stream said of itself then, and how the capture ended.
pub(super) type Found = (CuResult, Result<CuCaptureStatus, CuResult>, CuResult);

/// The call was made and the capture goes on.
pub(super) const FINE: Found = goes_on(CuResult::SUCCESS);

/// The call returned this and the capture goes on.
const fn goes_on(code: CuResult) -> Found {
    (code, Ok(CuCaptureStatus::ACTIVE), CuResult::SUCCESS)
}

/// The call returned this and ended the capture.
const fn is_spoilt(code: CuResult) -> Found {
    (code, Ok(CuCaptureStatus::INVALIDATED), CuResult::STREAM_CAPTURE_INVALIDATED)
}

/// Makes a call while a stream is captured.
pub(super) fn during(
    stream: &Stream,
    mode: CuCaptureMode,
    call: impl FnOnce() -> CuResult,
) -> Result<Found, CuResult> {
    let capture = Capture::begin(stream, mode)?;
    let (code, status) = (call(), status(stream));
    let ended = capture.end().err().unwrap_or(CuResult::SUCCESS);
    Ok((code, status, ended))
}

/// What calls need, made while nothing is captured, and what they made, which goes when nothing is
/// any more.
struct Things {
    other: Stream,
    recorded: Event,
    fresh: Event,
    pool: Pool,
    memory: Memory,
    /// What is there to be freed, once.
    spare: Mutex<Option<CuDevicePtr>>,
    /// As above, of a pool.
    spare_of_pool: Mutex<Option<CuDevicePtr>>,
    made: Mutex<Vec<Made>>,
}

enum Made {
    Plain(CuDevicePtr),
    Pinned(usize),
}

impl Things {
    fn new() -> Result<Self, Failure> {
        let (other, recorded, fresh) = (Stream::non_blocking()?, Event::new()?, Event::new()?);
        works("the record", recorded.record(&other))?;
        let (pool, memory, made) = (Pool::that_keeps(0)?, Memory::words()?, Mutex::default());
        let spare = Mutex::new(Some(managed(64, MEM_ATTACH_GLOBAL)?));
        let spare_of_pool = Mutex::new(Some(pool.allocate(64, &other)?.pointer));
        works("the wait", other.synchronize())?;
        Ok(Self { other, recorded, fresh, pool, memory, spare, spare_of_pool, made })
    }

    fn keep(&self, made: Made) -> CuResult {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        CuResult::SUCCESS
    }
}

impl Drop for Things {
    fn drop(&mut self) {
        let _ignored = self.other.synchronize();
        for spare in [&self.spare, &self.spare_of_pool] {
            if let Some(spare) = spare.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _ignored = self.keep(Made::Plain(spare));
            }
        }
        for made in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ignored = match made {
                // SAFETY: made by one of the calls, and no work uses it.
                Made::Plain(pointer) => unsafe { driver().cuMemFree_v2(pointer) },
                // SAFETY: as above.
                Made::Pinned(address) => unsafe {
                    free_pinned(std::ptr::with_exposed_provenance_mut(address))
                },
            };
        }
    }
}

type Call = (&'static str, fn(&Things) -> CuResult);

/// Calls that act or wait beyond the stream that is captured: "potentially unsafe" ones.
const UNSAFE: [Call; 15] = [
    ("cuMemAlloc", |things| {
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to.
        let code = unsafe { driver().cuMemAlloc_v2(&raw mut pointer, 64) };
        if code.is_success() { things.keep(Made::Plain(pointer)) } else { code }
    }),
    ("cuMemFree", |things| {
        let Some(spare) = things.spare.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return CuResult::UNKNOWN;
        };
        // SAFETY: allocated for this, and no work uses it.
        let code = unsafe { driver().cuMemFree_v2(spare) };
        if !code.is_success() {
            let _ignored = things.keep(Made::Plain(spare));
        }
        code
    }),
    ("cuMemAllocManaged", |things| match managed(64, MEM_ATTACH_GLOBAL) {
        Ok(pointer) => things.keep(Made::Plain(pointer)),
        Err(code) => code,
    }),
    ("cuMemHostAlloc", |things| match pinned(64, 0) {
        Ok(pointer) => things.keep(Made::Pinned(pointer.expose_provenance())),
        Err(code) => code,
    }),
    ("cuEventQuery", |things| things.recorded.query()),
    ("cuEventQuery of one that was never recorded", |things| things.fresh.query()),
    ("cuEventSynchronize", |things| things.recorded.synchronize()),
    ("cuStreamQuery of another stream", |things| things.other.query()),
    ("cuStreamSynchronize of another stream", |things| things.other.synchronize()),
    ("cuStreamSynchronize of the legacy stream", |_| Stream::LEGACY.synchronize()),
    ("cuMemAllocFromPoolAsync on another stream", |things| {
        match things.pool.allocate(64, &things.other) {
            Ok(block) => things.keep(Made::Plain(block.pointer)),
            Err(code) => code,
        }
    }),
    ("cuMemAllocAsync on another stream", |things| {
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to, and the stream exists.
        let code = unsafe { driver().cuMemAllocAsync(&raw mut pointer, 64, things.other.raw()) };
        if code.is_success() { things.keep(Made::Plain(pointer)) } else { code }
    }),
    ("cuMemFreeAsync on another stream", |things| {
        let mut spare = things.spare_of_pool.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pointer) = *spare else { return CuResult::UNKNOWN };
        // SAFETY: allocated for this, and no work uses it.
        let code = unsafe { driver().cuMemFreeAsync(pointer, things.other.raw()) };
        if code.is_success() {
            *spare = None;
        }
        code
    }),
    ("cuMemPoolTrimTo", |things| things.pool.trim_to(0)),
    ("cuMemPoolGetAttribute", |things| {
        let threshold = things.pool.get(CuMemPoolAttribute::RELEASE_THRESHOLD);
        threshold.err().unwrap_or(CuResult::SUCCESS)
    }),
];

/// Makes each of the calls during a capture of its own, and claims what comes of it.
fn each(
    calls: &[Call],
    mode: CuCaptureMode,
    expected: Found,
    run: impl Fn(&(dyn Fn() -> CuResult + Sync)) -> CuResult,
) -> CheckResult {
    let (captured, things) = (Stream::non_blocking()?, Things::new()?);
    let claim = |(name, call): &Call| {
        let found = during(&captured, mode, || run(&|| call(&things)));
        answers(&format!("{name}, {mode:?}"), &found, &Ok(expected))
    };
    all(calls.iter().map(claim))
}

/// Makes a call on another thread, in the same context.
fn elsewhere(environment: &Environment, call: &(dyn Fn() -> CuResult + Sync)) -> CuResult {
    let Ok(context) = context() else { return CuResult::UNKNOWN };
    let code = Mutex::new(CuResult::UNKNOWN);
    let done = without_context(environment, || {
        works("entering the context", push(context))?;
        *code.lock().unwrap_or_else(PoisonError::into_inner) = call();
        Ok(())
    });
    let code = code.into_inner().unwrap_or_else(PoisonError::into_inner);
    if done.is_ok() { code } else { CuResult::UNKNOWN }
}

#[test]
fn unsafe_calls_of_the_thread_end_a_global_capture() {
    let expected = is_spoilt(CuResult::STREAM_CAPTURE_UNSUPPORTED);
    in_every_place_unwatched(|| each(&UNSAFE, GLOBAL, expected, |call| call()));
}

#[test]
fn unsafe_calls_of_the_thread_end_a_capture_of_the_thread() {
    let expected = is_spoilt(CuResult::STREAM_CAPTURE_UNSUPPORTED);
    in_every_place_unwatched(|| each(&UNSAFE, THREAD_LOCAL, expected, |call| call()));
}

#[test]
fn a_relaxed_capture_lets_unsafe_calls_be_made() {
    in_every_place_unwatched(|| each(&UNSAFE, RELAXED, FINE, |call| call()));
}

#[test]
fn unsafe_calls_of_another_thread_end_a_global_capture() {
    let expected = is_spoilt(CuResult::STREAM_CAPTURE_UNSUPPORTED);
    in_every_environment_unwatched(|environment| {
        each(&UNSAFE, GLOBAL, expected, |call| elsewhere(environment, call))
    });
}

#[test]
fn unsafe_calls_of_another_thread_are_nothing_to_a_capture_of_the_thread() {
    in_every_environment_unwatched(|environment| {
        each(&UNSAFE, THREAD_LOCAL, FINE, |call| elsewhere(environment, call))
    });
}

#[test]
fn a_thread_that_asks_for_it_may_make_unsafe_calls() {
    in_every_place_unwatched(|| {
        let former = exchange(RELAXED)?;
        let made = each(&UNSAFE, GLOBAL, FINE, |call| call());
        let back = exchange(former);
        all([
            answers("the mode of a thread", &former, &GLOBAL),
            answers("the mode that it had changed to", &back, &Ok(RELAXED)),
            made,
        ])
    });
}

/// They enqueue or make something, and wait for nothing.
const SAFE: [Call; 8] = [
    ("work on another stream", |things| things.other.fill(&things.memory, 1)),
    ("a record on another stream", |things| things.recorded.record(&things.other)),
    ("making an event", |_| Event::new().err().unwrap_or(CuResult::SUCCESS)),
    ("making a stream", |_| Stream::non_blocking().err().unwrap_or(CuResult::SUCCESS)),
    ("cuMemGetInfo", |_| {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both may be written to.
        unsafe { driver().cuMemGetInfo_v2(&raw mut free, &raw mut total) }
    }),
    ("work on the legacy stream", |things| Stream::LEGACY.fill(&things.memory, 2)),
    ("a fill without a stream", fill_at_once),
    ("a copy to the host", copy_to_host),
];

/// A fill of the kind that is said to wait for the host.
fn fill_at_once(things: &Things) -> CuResult {
    // SAFETY: the memory is longer.
    unsafe { driver().cuMemsetD8_v2(things.memory.pointer, 1, 4) }
}

fn copy_to_host(things: &Things) -> CuResult {
    let mut word = [0_u8; 4];
    // SAFETY: both are so long.
    unsafe { driver().cuMemcpyDtoH_v2(word.as_mut_ptr().cast(), things.memory.pointer, 4) }
}

#[test]
fn calls_that_enqueue_or_make_something_are_nothing_to_a_capture() {
    in_every_place_unwatched(|| all(MODES.map(|mode| each(&SAFE, mode, FINE, |call| call()))));
}

#[test]
fn what_asks_or_waits_for_the_captured_stream_ends_the_capture() {
    in_every_place_unwatched(|| {
        let (captured, marked) = (Stream::non_blocking()?, Event::new()?);
        let unsupported = is_spoilt(CuResult::STREAM_CAPTURE_UNSUPPORTED);
        let of_event = is_spoilt(CuResult::CAPTURED_EVENT);
        let after_record = |call: &dyn Fn() -> CuResult| match marked.record(&captured) {
            CuResult::SUCCESS => call(),
            refused => refused,
        };
        let calls: [(&str, Found, &dyn Fn() -> CuResult); 5] = [
            ("cuStreamQuery", unsupported, &|| captured.query()),
            ("cuStreamSynchronize", unsupported, &|| captured.synchronize()),
            ("cuCtxSynchronize", unsupported, &synchronize_context),
            ("cuEventQuery of a captured event", of_event, &|| after_record(&|| marked.query())),
            ("cuEventSynchronize of a captured event", of_event, &|| {
                after_record(&|| marked.synchronize())
            }),
        ];
        let claims = calls.iter().flat_map(|(name, expected, call)| {
            MODES.map(|mode| {
                let found = during(&captured, mode, call);
                answers(&format!("{name}, {mode:?}"), &found, &Ok(*expected))
            })
        });
        all(claims)
    });
}

#[test]
fn the_id_of_the_captured_stream_is_refused_in_a_global_capture() {
    in_every_place_unwatched(|| {
        let captured = Stream::non_blocking()?;
        let ask = || captured.id().err().unwrap_or(CuResult::SUCCESS);
        let (code, ..) = during(&captured, GLOBAL, ask)?;
        answers("cuStreamGetId", &code, &CuResult::STREAM_CAPTURE_UNSUPPORTED)
    });
}

/// Tries to capture the legacy stream, and does not leave it so.
fn begin_legacy() -> CuResult {
    let code = begin(&Stream::LEGACY, RELAXED);
    if code.is_success() {
        // The capture was begun against expectation.
        let _ignored = end(&Stream::LEGACY);
    }
    code
}

#[test]
fn the_legacy_stream_is_closed_while_a_blocking_stream_is_captured() {
    in_every_place_unwatched(|| {
        let (captured, things) = (Stream::blocking()?, Things::new()?);
        let implicit = is_spoilt(CuResult::STREAM_CAPTURE_IMPLICIT);
        let calls: [Call; 7] = [
            ("work", |things| Stream::LEGACY.fill(&things.memory, 1)),
            ("a fill", fill_at_once),
            ("a copy to the host", copy_to_host),
            ("a record", |things| things.recorded.record(&Stream::LEGACY)),
            ("a query", |_| Stream::LEGACY.query()),
            ("a wait", |_| Stream::LEGACY.synchronize()),
            ("a capture", |_| begin_legacy()),
        ];
        let mut claims: Vec<CheckResult> = Vec::new();
        for (name, call) in calls {
            let found = during(&captured, RELAXED, || call(&things));
            claims.push(answers(&format!("{name} on the legacy stream"), &found, &Ok(implicit)));
        }
        let ask = || status(&Stream::LEGACY).err().unwrap_or(CuResult::SUCCESS);
        let asked = during(&captured, GLOBAL, ask);
        let expected = goes_on(CuResult::STREAM_CAPTURE_IMPLICIT);
        claims.push(answers("asking whether it is captured", &asked, &Ok(expected)));
        let blocking = Stream::blocking()?;
        let found = during(&captured, GLOBAL, || blocking.fill(&things.memory, 1));
        claims.push(answers("work on another blocking stream", &found, &Ok(FINE)));
        claims.push(works("the wait at the end", synchronize_context()));
        all(claims)
    });
}

#[test]
fn the_legacy_stream_is_not_captured() {
    in_every_place_unwatched(|| {
        let refused = CuResult::STREAM_CAPTURE_UNSUPPORTED;
        answers("beginning it", &begin_legacy(), &refused)?;
        let found = during(&Stream::non_blocking()?, GLOBAL, begin_legacy);
        answers("beginning it beside another", &found, &Ok(goes_on(refused)))
    });
}

#[test]
fn a_spoilt_capture_takes_no_more_work() {
    in_every_place_unwatched(|| {
        let (captured, memory, mark) = (Stream::non_blocking()?, Memory::words()?, Event::new()?);
        let capture = Capture::begin(&captured, RELAXED)?;
        let spoilt = synchronize_context();
        let (work, record) = (captured.fill(&memory, 1), mark.record(&captured));
        let ended = capture.end().err();
        let invalidated = CuResult::STREAM_CAPTURE_INVALIDATED;
        all([
            answers("the wait", &spoilt, &CuResult::STREAM_CAPTURE_UNSUPPORTED),
            answers("work", &work, &invalidated),
            answers("a record", &record, &invalidated),
            answers("the end", &ended, &Some(invalidated)),
            answers("the status after it", &status(&captured), &Ok(CuCaptureStatus::NONE)),
            works("work after it", captured.fill(&memory, 2)),
            works("the wait at the end", captured.synchronize()),
            memory.holds(2),
        ])
    });
}

#[test]
fn a_capture_is_begun_once() {
    in_every_place_unwatched(|| {
        let captured = Stream::non_blocking()?;
        let again = during(&captured, GLOBAL, || begin(&captured, GLOBAL));
        all([
            answers("ending none", &end(&captured).err(), &Some(CuResult::ILLEGAL_STATE)),
            answers("beginning it again", &again, &Ok(goes_on(CuResult::ILLEGAL_STATE))),
        ])
    });
}

#[test]
fn a_capture_is_ended_by_its_thread_unless_it_is_relaxed() {
    in_every_environment_unwatched(|environment| {
        let captured = Stream::non_blocking()?;
        let wrong = CuResult::STREAM_CAPTURE_WRONG_THREAD;
        let claims = [(GLOBAL, wrong), (THREAD_LOCAL, wrong), (RELAXED, CuResult::SUCCESS)];
        all(claims.into_iter().flat_map(|(mode, expected)| {
            let capture = Capture::begin(&captured, mode);
            let finish = || end(&captured).err().unwrap_or(CuResult::SUCCESS);
            let code = elsewhere(environment, &finish);
            let left = status(&captured);
            drop(capture);
            [
                answers(&format!("ending it elsewhere, {mode:?}"), &code, &expected),
                answers(&format!("the status then, {mode:?}"), &left, &Ok(CuCaptureStatus::NONE)),
            ]
        }))
    });
}

#[test]
fn a_capture_ends_with_its_stream() {
    in_every_place_unwatched(|| {
        let captured = Stream::non_blocking()?;
        works("the beginning", begin(&captured, GLOBAL))?;
        works("the end of the stream", captured.destroy())?;
        works("a call that captures forbid", synchronize_context())?;
        works("an allocation", Memory::new(64).err().unwrap_or(CuResult::SUCCESS))
    });
}
