//! Building a machine.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::engine::machine::{self, Machine};
use crate::engine::state::State;
use crate::model::attributes::{self, AttributeError};
use crate::model::checks::Settings;
use crate::model::costs::Costs;
use crate::model::device::{Device, default_attributes};
use crate::model::host::HostMemory;
use crate::model::ledger::Ledger;
use crate::model::schedule::Schedule;
use crate::model::violation::Violation;

impl Machine {
    /// A machine with one device of 16 GiB. Its schedule is [`Seeded`](crate::Schedule::Seeded) by
    /// the number in the environment variable `RMM_SIM_SEED`, or by 0.
    ///
    /// # Panics
    /// Where [`MachineBuilder::build`] panics.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A builder with the defaults of [`new`](Self::new).
    pub fn builder() -> MachineBuilder {
        MachineBuilder::new()
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// A builder of a [`Machine`].
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
    has_fabric: bool,
    ledger: Option<PathBuf>,
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
            checks: Settings {
                order: true,
                initialisation: false,
                backtraces: wants_backtraces(),
                on_violation: None,
            },
            costs: Costs::default(),
            reset_ends_all: false,
            has_fabric: false,
            ledger: None,
        }
    }

    /// Sets the number of devices; 1 by default.
    pub fn devices(mut self, devices: usize) -> Self {
        self.devices = devices;
        self
    }

    /// Sets the memory of each device in bytes; 16 GiB by default. Only pages that are touched take
    /// memory of the host.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the limit of pinned and managed memory in bytes; 64 GiB by default.
    pub fn host_memory(mut self, bytes: usize) -> Self {
        self.host_memory = bytes;
        self
    }

    /// Sets when queued work runs.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Sets the driver's version as `cuDriverGetVersion` returns it, such as 12040; 13000 by
    /// default. Functions of newer versions return `NOT_SUPPORTED`.
    pub fn driver_version(mut self, version: i32) -> Self {
        self.driver_version = version;
        self
    }

    /// Sets an attribute of each device. With `PAGEABLE_MEMORY_ACCESS` at 1, devices access
    /// pageable host memory directly. With `HOST_MEMORY_POOLS_SUPPORTED` at 0, there are no pools
    /// of host memory; with `HOST_NUMA_MEMORY_POOLS_SUPPORTED` at 1, there are pools on NUMA node
    /// 0. With `MEMPOOL_SUPPORTED_HANDLE_TYPES` at 1 (a file descriptor), pools of device memory
    /// can be exported, and imported again in this process, on Linux.
    pub fn attribute(mut self, attribute: CuDeviceAttribute, value: i32) -> Self {
        self.attributes.push((attribute, value));
        self
    }

    /// Puts the devices of all processes of this system into one `NVLink` domain, so that memory is
    /// exported by fabric handles, too. Off by default: then the attribute says that there are
    /// fabric handles, and the driver refuses to make the memory, as on an H100 in no domain.
    pub fn fabric(mut self, on: bool) -> Self {
        self.has_fabric = on;
        self
    }

    /// Sets attributes of each device from text: pairs of a name (CUDA's without its prefix, as the
    /// constants of [`CuDeviceAttribute`], or a number) and a value, as in `NAME=1 88=1`. Pairs
    /// are separated by blanks or commas. The software device's `libcuda` reads the environment
    /// variable `RMM_SIM_ATTRIBUTES` with it.
    ///
    /// # Errors
    /// The first pair that is none.
    ///
    /// ```
    /// use rmm_sim::Machine;
    ///
    /// assert!(Machine::builder().attributes_from("PAGEABLE_MEMORY_ACCESS=1, 134=0").is_ok());
    /// assert!(Machine::builder().attributes_from("PAGEABLE=1").is_err());
    /// ```
    pub fn attributes_from(mut self, text: &str) -> Result<Self, AttributeError> {
        self.attributes.extend(attributes::parse(text)?);
        Ok(self)
    }

    /// Sets the name of the devices, to which a number is added; `Software device` by default.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets whether accesses are checked for order and bounds, see [`Machine::violations`], and
    /// calls that invalidate a capture are reported; they are by default. The checks add some
    /// microseconds to each call.
    pub fn checks(mut self, on: bool) -> Self {
        self.checks.order = on;
        self
    }

    /// Sets whether reads of uninitialised memory are reported; they are not by default, since
    /// copying a partly filled buffer is common and harmless.
    pub fn check_initialisation(mut self, on: bool) -> Self {
        self.checks.initialisation = on;
        self
    }

    /// Sets whether reports contain the call stacks of the two accesses. Off by default, or on if
    /// the environment variable `RMM_SIM_BACKTRACE` is set to anything but `0`: a backtrace costs
    /// some microseconds at each access. [`check`](crate::check) does not need it: it runs a
    /// program that failed once more, with backtraces.
    pub fn backtraces(mut self, on: bool) -> Self {
        self.checks.backtraces = on;
        self
    }

    /// Sets what is called with each violation as it is found. It must not call the driver.
    #[doc(hidden)]
    pub fn on_violation(mut self, listener: fn(&Violation)) -> Self {
        self.checks.on_violation = Some(listener);
        self
    }

    pub(crate) fn has_backtraces(&self) -> bool {
        self.checks.backtraces
    }

    /// Sets what calls and work cost in simulated time, see [`Machine::time`].
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// Sets whether `cuDevicePrimaryCtxReset_v2` also destroys memory pools with their allocations,
    /// and virtual memory. It does not by default: CUDA documents that memory of `cudaMallocAsync`
    /// survives `cudaDeviceReset`, and physical memory and mappings belong to a device, not to a
    /// context. With this, nothing survives a reset.
    pub fn reset_ends_all(mut self, on: bool) -> Self {
        self.reset_ends_all = on;
        self
    }

    /// Lets the devices share their memory with those of other machines, of this and of other
    /// processes, that name the same file: free memory is what none of them has taken, and what a
    /// process has taken goes back when it ends, however it ends. Exported memory is counted once,
    /// until its last handle and mapping, in whatever process, is gone.
    ///
    /// The file is made if it does not exist, and a folder beside it, whose name ends in `.d`, with
    /// the bytes of exported memory: a place in `/dev/shm` keeps them off the disk. They can be
    /// removed when no process uses them.
    pub fn shared(mut self, file: impl Into<PathBuf>) -> Self {
        self.ledger = Some(file.into());
        self
    }

    /// Builds the machine.
    ///
    /// # Panics
    /// If the system cannot reserve enough addresses: eight times the memory of each device, and
    /// twice the host memory; or if the file of [`shared`](Self::shared) cannot be made. See
    /// [`try_build`](Self::try_build).
    pub fn build(self) -> Machine {
        self.try_build().expect("the system can reserve addresses for the machine's memory")
    }

    /// Builds the machine, or returns an error if the system cannot reserve enough addresses.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if it cannot, because addresses are limited (`ulimit -v`) or used by a tool
    /// such as a memory checker; `OPERATING_SYSTEM` if the file of [`shared`](Self::shared) cannot
    /// be made.
    pub fn try_build(self) -> Result<Machine, CuResult> {
        let mut attributes = default_attributes();
        if self.driver_version < 13000 {
            // A driver does not know attributes that are newer than it.
            attributes.remove(&CuDeviceAttribute::HOST_MEMORY_POOLS_SUPPORTED);
        }
        attributes.extend(self.attributes);
        let device = |ordinal| {
            let name = format!("{} {ordinal}", self.name);
            Device::new(ordinal, name, self.memory, attributes.clone())
        };
        let mut devices = (0..self.devices).map(device).collect::<Result<Vec<_>, _>>()?;
        let host = HostMemory::new(self.host_memory)?;
        let id = machine::next_id();
        if let Some(file) = self.ledger {
            let ledger = Ledger::open(&file, id).map_err(|_| CuResult::OPERATING_SYSTEM)?;
            let ledger = Arc::new(ledger);
            for device in &mut devices {
                device.ledger = Some(Arc::clone(&ledger));
            }
        }
        let mut state = State::new(
            id,
            devices,
            host,
            self.schedule,
            self.driver_version,
            self.checks,
            self.costs,
        );
        state.reset_ends_all = self.reset_ends_all;
        state.virtual_memory.has_fabric = self.has_fabric;
        Ok(Machine::from_state(state))
    }
}

/// The default seed: the number in `RMM_SIM_SEED`, or 0.
pub(crate) fn base_seed() -> u64 {
    let seed = std::env::var("RMM_SIM_SEED").ok().and_then(|seed| seed.trim().parse().ok());
    seed.unwrap_or(0)
}

fn wants_backtraces() -> bool {
    std::env::var_os("RMM_SIM_BACKTRACE").is_some_and(|value| value != "0")
}
