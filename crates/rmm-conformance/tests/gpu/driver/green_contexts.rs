//! Green contexts: what their streams say of themselves, and whether an event of the primary
//! context covers their work. The documentation leaves most of it open, so these probes report what
//! they find and only claim what a pool relies on. The software device has no green contexts.

use std::ffi::{c_int, c_uint, c_void};

use rmm_conformance::{CheckResult, DeviceHandle, Environment, Failure, ensure};
use rmm_sys::{CuContext, CuDevice, CuResult, CuStream, STREAM_NON_BLOCKING};

use super::context_events::has_context_events;
use super::gate::Gate;
use super::library::function;
use super::raw::{Event, Memory, Stream, context};
use super::{answers, is_one_of, report, works};
use crate::run::in_every_environment;

/// Larger than `CUdevResource` of any driver so far (144 bytes and, from 13.1, a pointer).
#[repr(C, align(64))]
struct Resource([u8; 1024]);

type Pointer = *mut c_void;
type GetResource = unsafe extern "C" fn(CuDevice, *mut Resource, c_uint) -> CuResult;
type Describe = unsafe extern "C" fn(*mut Pointer, *mut Resource, c_uint) -> CuResult;
type Create = unsafe extern "C" fn(*mut Pointer, Pointer, CuDevice, c_uint) -> CuResult;
type Destroy = unsafe extern "C" fn(Pointer) -> CuResult;
type ToContext = unsafe extern "C" fn(*mut CuContext, Pointer) -> CuResult;
type MakeStream = unsafe extern "C" fn(*mut CuStream, Pointer, c_uint, c_int) -> CuResult;
type StreamGreen = unsafe extern "C" fn(CuStream, *mut Pointer) -> CuResult;

/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSORS: c_uint = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which a green context is created with.
const DEFAULT_STREAM: c_uint = 1;

/// Defines the functions, which drivers have from 12.4 and 12.5 on.
macro_rules! functions {
    ($($field:ident: $type:ty = $name:literal,)*) => {
        struct Functions {
            $($field: $type,)*
        }

        impl Functions {
            fn load() -> Option<Self> {
                Some(Self {
                    // SAFETY: this is its signature, from `cuda.h`.
                    $($field: unsafe { function::<$type>($name) }?,)*
                })
            }
        }
    };
}

functions! {
    get_resource: GetResource = c"cuDeviceGetDevResource",
    describe: Describe = c"cuDevResourceGenerateDesc",
    create: Create = c"cuGreenCtxCreate",
    destroy: Destroy = c"cuGreenCtxDestroy",
    to_context: ToContext = c"cuCtxFromGreenCtx",
    make_stream: MakeStream = c"cuGreenCtxStreamCreate",
    green_of_stream: StreamGreen = c"cuStreamGetGreenCtx",
}

/// A green context with all multiprocessors of the device.
struct Green {
    functions: Functions,
    /// # Invariant
    /// Made by `new`, and not destroyed.
    raw: Pointer,
}

impl Green {
    /// `None` if the driver has no such thing.
    fn new(device: CuDevice) -> Result<Option<Self>, Failure> {
        let Some(functions) = Functions::load() else { return Ok(None) };
        let mut resource = Resource([0; 1024]);
        // SAFETY: `resource` is as long as the driver's structure at least.
        let code = unsafe { (functions.get_resource)(device, &raw mut resource, MULTIPROCESSORS) };
        works("the device's multiprocessors", code)?;
        let mut description = std::ptr::null_mut();
        // SAFETY: one resource, filled in above; `description` may be written to.
        let code = unsafe { (functions.describe)(&raw mut description, &raw mut resource, 1) };
        works("their description", code)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the description was made above, and `raw` may be written to.
        let code = unsafe { (functions.create)(&raw mut raw, description, device, DEFAULT_STREAM) };
        works("a green context", code)?;
        Ok(Some(Self { functions, raw }))
    }

    fn stream(&self) -> Result<Stream, Failure> {
        let mut raw = CuStream::NULL;
        // SAFETY: the green context exists, and `raw` may be written to.
        let code =
            unsafe { (self.functions.make_stream)(&raw mut raw, self.raw, STREAM_NON_BLOCKING, 0) };
        works("a stream of the green context", code)?;
        // SAFETY: made above.
        Ok(unsafe { Stream::owning(raw) })
    }

    fn context(&self) -> Result<CuContext, Failure> {
        let mut context = CuContext::NULL;
        // SAFETY: the green context exists, and `context` may be written to.
        works("its context", unsafe { (self.functions.to_context)(&raw mut context, self.raw) })?;
        Ok(context)
    }

    /// The green context that a stream says to be of.
    fn of(&self, stream: &Stream) -> Result<Pointer, CuResult> {
        let mut green = std::ptr::null_mut();
        // SAFETY: the stream exists, and `green` may be written to.
        let code = unsafe { (self.functions.green_of_stream)(stream.raw(), &raw mut green) };
        code.result().map(|()| green)
    }
}

impl Drop for Green {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and probes drop its streams before. A failure means that the
        // driver is gone.
        let _ignored = unsafe { (self.functions.destroy)(self.raw) };
    }
}

/// Runs in every environment with a green context.
#[track_caller]
fn with_green_context(probe: impl Fn(&Environment, &Green) -> CheckResult) {
    in_every_environment(|environment| {
        let DeviceHandle::Gpu(device) = environment.handle() else { return Ok(()) };
        if let Some(green) = Green::new(device.as_raw())? {
            probe(environment, &green)
        } else {
            report("green contexts", &"the driver has none");
            Ok(())
        }
    });
}

#[test]
fn a_green_stream_reports_what_it_is() {
    with_green_context(|_, green| {
        let (home, stream, plain) = (context()?, green.stream()?, Stream::non_blocking()?);
        let its = green.context()?;
        let found = stream.context();
        report(
            "the contexts of a green stream, the green context, the primary",
            &(found, its, home),
        );
        is_one_of("the context of a green stream", &found, &[Ok(home), Ok(its)])?;
        report("the green contexts of both streams", &(green.of(&stream), green.of(&plain)));
        let (one, other) = (stream.id()?, plain.id()?);
        ensure(one != other, || format!("both streams have the id {one}"))?;
        answers("the context of a stream of the primary", &plain.context(), &Ok(home))
    });
}

#[test]
fn green_streams_and_events_of_the_primary_context() {
    with_green_context(|environment, green| {
        let (stream, later, event) = (green.stream()?, Stream::non_blocking()?, Event::new()?);
        let memory = Memory::words()?;
        let its = green.context()?;
        let gate = Gate::closed(environment)?;
        report("an event of the primary context on a green stream", &event.record(&stream));
        gate.stops(&stream)?;
        works("the work of the green stream", stream.fill(&memory, 1))?;
        if has_context_events()? {
            let all = Event::new()?;
            works("the record of the primary context", all.record_all_of(context()?))?;
            // Success here means that the event leaves the green stream's work out.
            report("an event of all of the primary context while it works", &all.query());
            report(
                "an event of all of the green context's",
                &(all.record_all_of(its), all.query()),
            );
        }
        report("a wait of another stream", &later.query());
        gate.open()?;
        works("the wait for the green stream", stream.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn green_streams_and_the_legacy_stream() {
    with_green_context(|environment, green| {
        let (stream, memory, event) = (green.stream()?, Memory::words()?, Event::new()?);
        let gate = Gate::closed(environment)?;
        gate.stops(&stream)?;
        works("the work of the green stream", stream.fill(&memory, 1))?;
        works("the record on the legacy stream", event.record(&Stream::LEGACY))?;
        // A green stream is non-blocking by its flags.
        report("an event on the legacy stream while it works", &event.query());
        gate.open()?;
        works("the wait for the green stream", stream.synchronize())?;
        works("the wait for the event", event.synchronize())?;
        memory.holds(1)
    });
}
