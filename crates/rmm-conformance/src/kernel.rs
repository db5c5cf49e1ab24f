//! Kernels that fill and check memory: real ones on a GPU, simulated ones on the software device.

mod module;
mod simulated;

use rmm_core::{DevicePtr, StreamRef, driver_in_context};
use rmm_sim::{Kernel, Machine};
use rmm_sys::CuFunction;

use crate::{CheckResult, DeviceHandle, Failure};
use module::{Module, Parameters, launch};

/// The kernels of a device. Word `i` of a block that was filled with `first_value` is
/// `first_value + i`, wrapping.
#[derive(Debug)]
pub struct Kernels(Kind);

#[derive(Debug)]
enum Kind {
    Software(Machine),
    Gpu(Module),
}

impl Kernels {
    /// The kernels for the device, which is current.
    ///
    /// # Errors
    /// If the driver refuses the code.
    pub fn load(device: &DeviceHandle) -> Result<Self, Failure> {
        Ok(Self(match device {
            DeviceHandle::Software(machine) => Kind::Software(machine.clone()),
            DeviceHandle::Gpu(_) => Kind::Gpu(Module::load()?),
        }))
    }

    /// Enqueues a kernel that spins for `spin_cycles` of the device's clock and then fills `words`
    /// words. The software device does not spin: when it runs is up to its schedule.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// `pointer` names `words` 4-byte words of memory that the device can use, whose other uses,
    /// the host's too, are ordered with this place on the stream.
    pub unsafe fn fill(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        words: u32,
        first_value: u32,
        spin_cycles: u64,
    ) -> CheckResult {
        let simulated = simulated::fill(pointer, words, first_value);
        let parameters = (pointer, words, first_value, spin_cycles);
        // SAFETY: the caller's contract.
        unsafe { self.launch(stream, simulated, |module| module.fill, parameters) }
    }

    /// Enqueues a kernel that spins for `spin_cycles` of the device's clock and touches no memory,
    /// see [`fill`](Self::fill).
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn stall(&self, stream: StreamRef<'_>, spin_cycles: u64) -> CheckResult {
        let parameters = (DevicePtr::NULL, 0, 0, spin_cycles);
        // SAFETY: the kernel is for no words.
        unsafe { self.launch(stream, simulated::stall(), |module| module.fill, parameters) }
    }

    /// Enqueues a kernel that fails with `ILLEGAL_ADDRESS`, after which the context is lost: every
    /// later call in it returns that code.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Nothing in the process relies on the context from here on.
    pub unsafe fn fail(&self, stream: StreamRef<'_>) -> CheckResult {
        let parameters = (DevicePtr::NULL, 1, 0, 0);
        // SAFETY: the address null is no memory, so the device stops the kernel before it has
        // touched any; the caller does without the context.
        unsafe { self.launch(stream, simulated::fail(), |module| module.fill, parameters) }
    }

    /// Enqueues a kernel that adds `summand` to each of `words` words, wrapping.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    pub unsafe fn add(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        words: u32,
        summand: u32,
    ) -> CheckResult {
        let simulated = simulated::add(pointer, words, summand);
        let parameters = (pointer, words, summand, 0);
        // SAFETY: the caller's contract.
        unsafe { self.launch(stream, simulated, |module| module.add, parameters) }
    }

    /// Enqueues a kernel that adds to the word at `errors` the number of words that differ from
    /// what [`fill`](Self::fill) writes.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill); `errors` names one aligned word of the device's memory that
    /// only such kernels use meanwhile.
    pub unsafe fn check(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        words: u32,
        first_value: u32,
        errors: DevicePtr,
    ) -> CheckResult {
        let simulated = simulated::check(pointer, words, first_value, errors);
        let parameters = (pointer, words, first_value, errors.0);
        // SAFETY: the caller's contract.
        unsafe { self.launch(stream, simulated, |module| module.check, parameters) }
    }

    /// Enqueues one of two kernels that do the same: on the software device, and on a GPU.
    ///
    /// # Safety
    /// The memory that they touch may be used at this place on the stream.
    unsafe fn launch(
        &self,
        stream: StreamRef<'_>,
        simulated: Kernel,
        function: impl FnOnce(&Module) -> CuFunction,
        parameters: Parameters,
    ) -> CheckResult {
        driver_in_context()?;
        match &self.0 {
            Kind::Software(machine) => {
                // SAFETY: the caller's contract.
                Ok(unsafe { machine.launch_on_shared(stream.as_raw(), simulated) }?)
            }
            // SAFETY: every kernel takes these parameters; the rest is the caller's contract.
            Kind::Gpu(module) => Ok(unsafe { launch(function(module), stream, parameters) }?),
        }
    }
}
