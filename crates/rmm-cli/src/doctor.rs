//! `rmm doctor`: the driver, the devices and their capabilities, problems and their remedies.

use std::fmt::Write as _;

use rmm_core::{Device, Error};
use rmm_sys::{CuMemHandleType, Driver};
use serde::Serialize;

use rmm_report::format;

use crate::style::{HEADER, NOTICE, paint};
use crate::text::{hang, wrap};

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Doctor {
    /// The version of this program.
    pub rmm_version: String,
    /// The driver, if there is one.
    pub driver: Option<DriverFacts>,
    /// The devices; none without a driver.
    pub devices: Vec<DeviceFacts>,
    /// What is missing, and what to do about it.
    pub problems: Vec<String>,
}

/// A driver.
#[derive(Clone, Debug, Serialize)]
pub struct DriverFacts {
    /// The CUDA version that it supports, such as `13.0`.
    pub cuda_version: String,
    /// Optional functions that this driver lacks, with the CUDA version that introduced them.
    pub missing_functions: Vec<String>,
}

/// A device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFacts {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability, such as `9.0`.
    pub compute_capability: String,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that could be allocated.
    pub free_bytes: u64,
    /// Its capabilities.
    pub capabilities: DriverCapabilities,
}

/// What a device can do for memory management.
#[derive(Clone, Debug, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each with its own name in the JSON"
)]
pub struct DriverCapabilities {
    /// Stream-ordered memory pools (`cudaMallocAsync`).
    pub memory_pools: bool,
    /// Kinds of handle that a pool can be exported to.
    pub pool_handle_types: Vec<&'static str>,
    /// Virtual memory: reserve, map, remap.
    pub virtual_memory: bool,
    /// Managed memory.
    pub managed_memory: bool,
    /// Managed memory for host and device at the same time, and prefetching.
    pub concurrent_managed_access: bool,
    /// The device can access pageable host memory (HMM or ATS).
    pub pageable_memory_access: bool,
    /// Pools of host memory.
    pub host_memory_pools: bool,
    /// Events can be shared with other processes.
    pub ipc_events: bool,
}

impl Doctor {
    /// Examines the process's driver and its devices. No driver is a result, not an error.
    pub fn examine() -> Self {
        let mut doctor = Self {
            rmm_version: env!("CARGO_PKG_VERSION").into(),
            driver: None,
            devices: Vec::new(),
            problems: Vec::new(),
        };
        match Driver::get() {
            Ok(driver) => doctor.examine_driver(driver),
            Err(error) => doctor.problems.push(error.to_string()),
        }
        doctor
    }

    fn examine_driver(&mut self, driver: &Driver) {
        let mut version = 0;
        // SAFETY: `version` may be written to.
        if let Err(code) = unsafe { driver.cuDriverGetVersion(&raw mut version) }.result() {
            self.problems.push(format!("the driver does not report its version: {code}"));
        }
        let missing = driver
            .missing()
            .into_iter()
            .map(|symbol| format!("{} (CUDA {})", symbol.name, symbol.since));
        self.driver = Some(DriverFacts {
            cuda_version: format!("{}.{}", version / 1000, version % 1000 / 10),
            missing_functions: missing.collect(),
        });
        let count = match Device::count() {
            Ok(0) => {
                self.problems.push("the driver finds no GPU: check that one is installed and visible (CUDA_VISIBLE_DEVICES)".into());
                return;
            }
            Ok(count) => count,
            Err(error) => {
                self.problems.push(format!("the driver cannot start: {error}"));
                return;
            }
        };
        for ordinal in 0..count {
            match DeviceFacts::of(ordinal) {
                Ok(facts) => {
                    self.problems.extend(facts.problems());
                    self.devices.push(facts);
                }
                Err(error) => {
                    self.problems.push(format!("device {ordinal} cannot be used: {error}"));
                }
            }
        }
    }

    /// The result in a few words.
    pub fn verdict(&self) -> &'static str {
        match (self.devices.is_empty(), self.problems.is_empty()) {
            (true, _) => "no GPU can be used",
            (false, true) => "nothing is missing",
            (false, false) => "something is missing",
        }
    }

    /// The report as text, in lines of at most 80 columns.
    pub fn to_text(&self) -> String {
        let mut text = format!("rmm {}\n", self.rmm_version);
        match &self.driver {
            None => text.push_str("driver: none\n"),
            Some(driver) => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "driver: CUDA {}", driver.cuda_version);
                if !driver.missing_functions.is_empty() {
                    let missing = driver.missing_functions.join(", ");
                    text.push_str(&wrap(&format!("functions of newer drivers: {missing}"), 2));
                }
            }
        }
        for device in &self.devices {
            text.push_str(&device.to_text());
        }
        if !self.problems.is_empty() {
            text.push('\n');
        }
        for problem in &self.problems {
            let problem = wrap(&format!("! {problem}"), 2);
            text.push_str(&paint(NOTICE, problem.trim_end()));
            text.push('\n');
        }
        if self.devices.is_empty() {
            text.push_str(&wrap(
                "No GPU can be used here. Programs get an error when they first ask for device memory; `rmm replay`, \
                 `rmm tune` and the tests use the software device.",
                0,
            ));
        }
        text
    }
}

impl DeviceFacts {
    fn of(ordinal: usize) -> Result<Self, Error> {
        let device = Device::new(ordinal)?;
        let _current = device.make_current()?;
        let memory = Device::memory_info()?;
        let can = device.capabilities()?;
        let (major, minor) = can.compute_capability;
        let kinds = [
            (CuMemHandleType::POSIX_FILE_DESCRIPTOR, "file descriptor"),
            (CuMemHandleType::WIN32, "Windows handle"),
            (CuMemHandleType::WIN32_KMT, "Windows kernel-mode handle"),
            (CuMemHandleType::FABRIC, "fabric handle"),
        ];
        Ok(Self {
            ordinal,
            name: device.name()?,
            compute_capability: format!("{major}.{minor}"),
            total_bytes: memory.total,
            free_bytes: memory.free,
            capabilities: DriverCapabilities {
                memory_pools: can.memory_pools,
                pool_handle_types: kinds
                    .iter()
                    .filter(|(kind, _)| can.pool_handle_types.0 & kind.0 != 0)
                    .map(|&(_, name)| name)
                    .collect(),
                virtual_memory: can.virtual_memory,
                managed_memory: can.managed_memory,
                concurrent_managed_access: can.concurrent_managed_access,
                pageable_memory_access: can.pageable_memory_access,
                host_memory_pools: can.host_memory_pools,
                ipc_events: can.ipc_events,
            },
        })
    }

    /// A heading, and a line for each fact.
    fn to_text(&self) -> String {
        let can = &self.capabilities;
        let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
        let kinds = match can.pool_handle_types.as_slice() {
            [] => "nothing".to_owned(),
            kinds => kinds.join(", "),
        };
        let memory = format!(
            "{} of {} free",
            format::bytes(self.free_bytes),
            format::bytes(self.total_bytes)
        );
        let facts = [
            ("compute capability", self.compute_capability.clone()),
            ("memory", memory),
            ("memory pools", yes(can.memory_pools)),
            ("pools can be exported as", kinds),
            ("virtual memory", yes(can.virtual_memory)),
            ("managed memory", yes(can.managed_memory)),
            ("concurrent managed access", yes(can.concurrent_managed_access)),
            ("pageable host memory (HMM, ATS)", yes(can.pageable_memory_access)),
            ("host memory pools", yes(can.host_memory_pools)),
            ("events shared with processes", yes(can.ipc_events)),
        ];
        let heading = format!("device {}: {}", self.ordinal, self.name);
        let mut text = format!("\n{}\n", paint(HEADER, &heading));
        for (name, value) in facts {
            text.push_str(&hang(&format!("  {name:33}"), &value, 35));
        }
        text
    }

    /// Missing capabilities, and their consequences.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut lacks = |has: bool, what: &str| {
            if !has {
                problems.push(format!("device {} {what}", self.ordinal));
            }
        };
        lacks(
            self.capabilities.memory_pools,
            "has no memory pools: CudaAsyncMemoryResource cannot be used; use PoolMemoryResource",
        );
        lacks(self.capabilities.managed_memory, "has no managed memory");
        lacks(
            self.capabilities.pageable_memory_access,
            "cannot access pageable host memory: copy, or use pinned or managed memory (HMM needs the open kernel modules and Linux 6.1.24 or newer)",
        );
        problems
    }
}
