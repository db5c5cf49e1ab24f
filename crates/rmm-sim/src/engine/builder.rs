//! Describing a machine.
#![forbid(unsafe_code)]

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::engine::machine::{self, Machine};
use crate::engine::state::State;
use crate::model::checks::Settings;
use crate::model::costs::Costs;
use crate::model::device::{Device, default_attributes};
use crate::model::host::HostMemory;
use crate::model::schedule::Schedule;

impl Machine {
    /// A machine with one device of 16 GiB. Its schedule is [`Seeded`](crate::Schedule::Seeded) by
    /// the number in the environment variable `RMM_SIM_SEED`, or by 0.
    ///
    /// # Panics
    /// As [`MachineBuilder::build`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// The description of a machine, to be changed and built.
    pub fn builder() -> MachineBuilder {
        MachineBuilder::new()
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// A description of a [`Machine`] to be built.
#[must_use = "a machine exists once it is built"]
#[derive(Clone, Debug)]
pub struct MachineBuilder {
    devices: usize,
    memory: usize,
    host_memory: usize,
    schedule: Schedule,
    driver_version: i32,
    attributes: Vec<(CuDeviceAttribute, i32)>,
    name: String,
    checks: Settings,
    costs: Costs,
    reset_ends_all: bool,
}

impl MachineBuilder {
    pub(crate) fn new() -> Self {
        Self {
            devices: 1,
            memory: 16 << 30,
            host_memory: 64 << 30,
            schedule: Schedule::Seeded(base_seed()),
            driver_version: 13000,
            attributes: Vec::new(),
            name: String::from("Software device"),
            checks: Settings { order: true, initialisation: false, backtraces: wants_backtraces() },
            costs: Costs::default(),
            reset_ends_all: false,
        }
    }

    /// How many devices it has; 1 by default.
    pub fn devices(mut self, devices: usize) -> Self {
        self.devices = devices;
        self
    }

    /// The bytes of memory of each device; 16 GiB by default. Only what is touched costs memory of
    /// the host.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// The bytes of pinned and managed memory that it hands out at most; 64 GiB by default.
    pub fn host_memory(mut self, bytes: usize) -> Self {
        self.host_memory = bytes;
        self
    }

    /// When queued work runs.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// The driver's version as `cuDriverGetVersion` tells it, such as 12040; 13000 by default.
    /// Functions of newer versions return `NOT_SUPPORTED`.
    pub fn driver_version(mut self, version: i32) -> Self {
        self.driver_version = version;
        self
    }

    /// The value of an attribute of each device. With `PAGEABLE_MEMORY_ACCESS` at 1, devices use
    /// ordinary memory of the host as it is; with `HOST_MEMORY_POOLS_SUPPORTED` at 0, there are no
    /// pools of host memory, and with `HOST_NUMA_MEMORY_POOLS_SUPPORTED` at 1 there are some on
    /// NUMA node 0. With `MEMPOOL_SUPPORTED_HANDLE_TYPES` at 1 (a file descriptor), pools of device
    /// memory are exported, and imported again in this process, on Linux.
    pub fn attribute(mut self, attribute: CuDeviceAttribute, value: i32) -> Self {
        self.attributes.push((attribute, value));
        self
    }

    /// The devices' name, without the number that follows it; `Software device` by default.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Whether every use of memory is checked to be ordered after what came before it and to lie in
    /// what was allocated, see [`Machine::violations`], and calls that end a capture are told; it
    /// is by default. Calls then take some microseconds more.
    pub fn checks(mut self, on: bool) -> Self {
        self.checks.order = on;
        self
    }

    /// Whether reads of memory that nobody has written since it was allocated are reported; they
    /// are not by default, since copying a buffer that is partly filled is common and harmless.
    pub fn check_initialisation(mut self, on: bool) -> Self {
        self.checks.initialisation = on;
        self
    }

    /// Whether reports tell where in the program the two accesses were asked for. Off by default,
    /// or on if the environment variable `RMM_SIM_BACKTRACE` is set to anything but `0`: taking a
    /// backtrace costs some microseconds at each access. [`check`](crate::check) needs neither: it
    /// runs a program that is wrong once more, with backtraces.
    pub fn backtraces(mut self, on: bool) -> Self {
        self.checks.backtraces = on;
        self
    }

    pub(crate) fn has_backtraces(&self) -> bool {
        self.checks.backtraces
    }

    /// What calls and work take in simulated time, see [`Machine::time`].
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// Whether `cuDevicePrimaryCtxReset_v2` ends memory pools, what was allocated from them, and
    /// virtual memory, too. It does not by default: CUDA documents of `cudaDeviceReset` that memory
    /// of `cudaMallocAsync` stays, and physical memory and mappings are of a device and not of a
    /// context. With this, what a program keeps after a reset is gone.
    pub fn reset_ends_all(mut self, on: bool) -> Self {
        self.reset_ends_all = on;
        self
    }

    /// Builds the machine.
    ///
    /// # Panics
    /// If the system refuses to reserve addresses: per device eight times its memory, and twice the
    /// host memory. See [`try_build`](Self::try_build).
    pub fn build(self) -> Machine {
        self.try_build().expect("the system has addresses for the machine's memory")
    }

    /// Builds the machine, if the system has addresses enough.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if it refuses to reserve them, because their number is limited (`ulimit -v`)
    /// or another program, such as a memory checker, needs them.
    pub fn try_build(self) -> Result<Machine, CuResult> {
        let mut attributes = default_attributes();
        if self.driver_version < 13000 {
            // An attribute that is newer than the driver, which therefore refuses to be asked for
            // it.
            attributes.remove(&CuDeviceAttribute::HOST_MEMORY_POOLS_SUPPORTED);
        }
        attributes.extend(self.attributes);
        let device = |ordinal| {
            let name = format!("{} {ordinal}", self.name);
            Device::new(ordinal, name, self.memory, attributes.clone())
        };
        let devices = (0..self.devices).map(device).collect::<Result<_, _>>()?;
        let host = HostMemory::new(self.host_memory)?;
        let mut state = State::new(
            machine::next_id(),
            devices,
            host,
            self.schedule,
            self.driver_version,
            self.checks,
            self.costs,
        );
        state.reset_ends_all = self.reset_ends_all;
        Ok(Machine::from_state(state))
    }
}

/// The seed where nobody says another: the number in `RMM_SIM_SEED`, or 0.
pub(crate) fn base_seed() -> u64 {
    let seed = std::env::var("RMM_SIM_SEED").ok().and_then(|seed| seed.trim().parse().ok());
    seed.unwrap_or(0)
}

fn wants_backtraces() -> bool {
    std::env::var_os("RMM_SIM_BACKTRACE").is_some_and(|value| value != "0")
}
