//! The memory of a machine as its running kernels access it.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::kernel::DeviceBytes;
use crate::model::memory::Place;
use crate::model::operation::Operation;

/// The memory of a machine, as accessed by a kernel on one of its devices.
#[derive(Debug)]
pub(crate) struct MachineBytes {
    machine: Machine,
    device: usize,
    kernel: &'static str,
}

impl MachineBytes {
    pub(crate) fn new(session: &Session<'_>, device: usize, kernel: &'static str) -> Self {
        Self { machine: session.machine.clone(), device, kernel }
    }

    /// # Errors
    /// `ILLEGAL_ADDRESS` if the memory was freed, or the device lacks the access right.
    fn check(
        &self,
        state: &mut State,
        place: &Place,
        operation: Operation,
    ) -> Result<(), CuResult> {
        if state.is_usable(place, operation, self.device, self.kernel)
            && state.may_reach(place, operation, self.device, self.kernel)
        {
            Ok(())
        } else {
            Err(CuResult::ILLEGAL_ADDRESS)
        }
    }
}

impl DeviceBytes for MachineBytes {
    fn load(&self, place: &Place, target: &mut [u8]) -> Result<(), CuResult> {
        let mut state = self.machine.lock();
        self.check(&mut state, place, Operation::Read)?;
        state.load(place, target);
        Ok(())
    }

    fn store(&mut self, place: &Place, source: &[u8]) -> Result<(), CuResult> {
        let mut state = self.machine.lock();
        self.check(&mut state, place, Operation::Write)?;
        state.store(place, source);
        Ok(())
    }
}
