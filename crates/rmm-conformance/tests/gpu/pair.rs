//! Two devices, for the tests that need them.

use std::ffi::c_int;
use std::io::Write;

use rmm_conformance::{CheckResult, DeviceHandle, Environment, Failure, Kernels, Place};
use rmm_core::{CudaStream, Device, DevicePtr, Error, StreamFlags, check, driver_in_context};
use rmm_sys::CuPointerAttribute;

/// The device under test, which is current at first, and another one.
pub(crate) struct Pair {
    environment: Environment,
    pub(crate) home: Device,
    pub(crate) other: Device,
}

impl Pair {
    /// The device under test, for other threads.
    pub(crate) fn handle(&self) -> &DeviceHandle {
        self.environment.handle()
    }

    /// Both devices.
    pub(crate) fn devices(&self) -> [Device; 2] {
        [self.home, self.other]
    }

    /// The kernels of the device that is current, and must be current again when they are dropped.
    pub(crate) fn kernels(&self) -> Result<Kernels, Failure> {
        Kernels::load(self.environment.handle())
    }

    /// Whether each device can use the other one's memory.
    pub(crate) fn are_peers(&self) -> Result<bool, Error> {
        Ok(self.other.can_access_peer(self.home)? && self.home.can_access_peer(self.other)?)
    }
}

/// Runs the check with two devices in every place, and panics with what is wrong. A machine with
/// one device reports an ignored test.
#[track_caller]
pub(crate) fn in_every_pair(run: impl Fn(&Pair) -> CheckResult) {
    run_in(Environment::open, |pair| {
        run(pair)?;
        Ok(None)
    });
}

/// Runs the check with two devices in every place; the software device does not check it, since it
/// asks what a driver answers to misuse. Otherwise as [`in_every_pair`].
#[track_caller]
pub(crate) fn in_every_pair_unwatched(run: impl Fn(&Pair) -> CheckResult) {
    run_in(Environment::open_unwatched, |pair| {
        run(pair)?;
        Ok(None)
    });
}

/// Runs the check with two devices that can use each other's memory, in every place. Other machines
/// report an ignored test. Otherwise as [`in_every_pair`].
#[track_caller]
pub(crate) fn in_every_pair_of_peers(run: impl Fn(&Pair) -> CheckResult) {
    run_in(Environment::open, |pair| {
        if !pair.are_peers()? {
            let (home, other) = (pair.home.ordinal(), pair.other.ordinal());
            let why = "needs two devices that can use each other's memory";
            return Ok(Some(format!("{why}; {home} and {other} cannot")));
        }
        run(pair)?;
        Ok(None)
    });
}

/// Runs in every place what may say why it cannot.
#[track_caller]
fn run_in(
    open: fn(Place) -> Result<Environment, Failure>,
    run: impl Fn(&Pair) -> Result<Option<String>, Failure>,
) {
    let ran = Place::selected().and_then(|places| {
        places.into_iter().try_for_each(|place| {
            if let Some(why) = run_at(open(place)?, &run)? {
                report_ignored(&why);
            }
            Ok(())
        })
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}

fn run_at(
    environment: Environment,
    run: impl Fn(&Pair) -> Result<Option<String>, Failure>,
) -> Result<Option<String>, Failure> {
    let Some(other) = environment.another_device()? else {
        return Ok(Some("needs two devices, and there is one".to_owned()));
    };
    let pair = Pair { home: environment.device()?, environment, other };
    if let Some(why) = run(&pair)? {
        return Ok(Some(why));
    }
    on(other, || Ok(Device::synchronize_current()?))?;
    pair.environment.verify()?;
    Ok(None)
}

/// Only a running test can find out how many devices there are, and the harness of Rust knows no
/// way for it to say that it did not run. `cargo xtask test-gpu` takes the first word behind the
/// test's name for its result, so that is said there; not by `println!`, which the harness keeps to
/// itself.
fn report_ignored(why: &str) {
    // There is nowhere to report a failed write.
    let _ignored = writeln!(std::io::stdout(), "ignored, {why}");
    let _ignored = writeln!(std::io::stderr(), "NOT RUN: {why}");
}

/// Does something with the device current.
pub(crate) fn on<R>(
    device: Device,
    run: impl FnOnce() -> Result<R, Failure>,
) -> Result<R, Failure> {
    let _current = device.make_current()?;
    run()
}

/// A stream of the device that is current, which nothing orders with any other.
pub(crate) fn stream() -> Result<CudaStream, Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// The number of the device whose memory it is, by the driver.
pub(crate) fn device_of(pointer: DevicePtr) -> Result<usize, Failure> {
    let (driver, _) = driver_in_context()?;
    let mut ordinal: c_int = -1;
    // SAFETY: the attribute is a `c_int`, which may be written to.
    let code = unsafe {
        driver.cuPointerGetAttribute(
            (&raw mut ordinal).cast(),
            CuPointerAttribute::DEVICE_ORDINAL,
            pointer,
        )
    };
    check("cuPointerGetAttribute", code)?;
    usize::try_from(ordinal).map_err(Failure::new)
}
