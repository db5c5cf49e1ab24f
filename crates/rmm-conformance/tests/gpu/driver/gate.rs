//! A gate that streams of the context under test wait at, closed by a stream of another context:
//! all that the context under test then has to do is what waits there.

use rmm_conformance::{CheckResult, Environment, Failure};
use rmm_sys::CuContext;

use super::library::OtherContext;
use super::raw::{Event, Stream};
use super::stall::Stall;
use super::works;

/// A gate that is closed until it is opened or dropped. The other context goes last.
pub(super) struct Gate {
    stall: Stall,
    event: Event,
    busy: Stream,
    other: OtherContext,
}

impl Gate {
    /// Closes a gate. Memory that probes need is made before.
    pub(super) fn closed(environment: &Environment) -> Result<Self, Failure> {
        let other = OtherContext::new(environment)?;
        let (stall, event, busy) = other.within(|| {
            let (event, busy) = (Event::new()?, Stream::non_blocking()?);
            let stall = Stall::on(environment.handle(), &busy)?;
            works("the record on the busy stream", event.record(&busy))?;
            Ok((stall, event, busy))
        })?;
        Ok(Self { stall, event, busy, other })
    }

    /// Makes a stream wait at the gate.
    pub(super) fn stops(&self, stream: &Stream) -> CheckResult {
        works("the wait at the gate", stream.wait_for(&self.event))
    }

    /// The context whose stream keeps it closed.
    pub(super) fn other_context(&self) -> CuContext {
        self.other.raw
    }

    /// Opens it, and waits for what closed it.
    pub(super) fn open(self) -> CheckResult {
        let Self { stall, event, busy, other } = self;
        stall.release()?;
        works("the wait for what closed the gate", busy.synchronize())?;
        drop((event, busy));
        drop(other);
        Ok(())
    }
}
