//! `rmm doctor`: the driver, the devices and their capabilities, problems and their remedies.

use std::fmt::Write as _;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use rmm_core::{Device, Error};
use rmm_sys::{CuMemHandleType, Driver};
use serde::Serialize;

use rmm_report::format;

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

    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("rmm {}\n", self.rmm_version);
        match &self.driver {
            None => text.push_str("driver: none\n"),
            Some(driver) => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "driver: CUDA {}", driver.cuda_version);
                if !driver.missing_functions.is_empty() {
                    let _ = writeln!(
                        text,
                        "functions of newer drivers: {}",
                        driver.missing_functions.join(", ")
                    );
                }
            }
        }
        if !self.devices.is_empty() {
            text.push_str(&self.device_table());
            text.push('\n');
        }
        for problem in &self.problems {
            let _ = writeln!(text, "! {problem}");
        }
        if self.devices.is_empty() {
            text.push_str(
                "No GPU can be used here. Programs get an error when they first ask for device memory; \
                 `rmm replay` and the tests use the software device.\n",
            );
        }
        text
    }

    fn device_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        let mut header = vec![String::new()];
        header.extend(self.devices.iter().map(|device| format!("device {}", device.ordinal)));
        table.set_header(header);
        let mut row = |name: &str, cell: &dyn Fn(&DeviceFacts) -> String| {
            let mut cells = vec![name.to_owned()];
            cells.extend(self.devices.iter().map(cell));
            table.add_row(cells);
        };
        let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
        row("name", &|d| d.name.clone());
        row("compute capability", &|d| d.compute_capability.clone());
        row("memory", &|d| {
            format!("{} of {} free", format::bytes(d.free_bytes), format::bytes(d.total_bytes))
        });
        row("memory pools", &|d| yes(d.capabilities.memory_pools));
        row("pools can be exported as", &|d| match d.capabilities.pool_handle_types.as_slice() {
            [] => "nothing".into(),
            kinds => kinds.join(", "),
        });
        row("virtual memory", &|d| yes(d.capabilities.virtual_memory));
        row("managed memory", &|d| yes(d.capabilities.managed_memory));
        row("concurrent managed access", &|d| yes(d.capabilities.concurrent_managed_access));
        row("pageable host memory (HMM, ATS)", &|d| yes(d.capabilities.pageable_memory_access));
        row("host memory pools", &|d| yes(d.capabilities.host_memory_pools));
        row("events shared with processes", &|d| yes(d.capabilities.ipc_events));
        table.to_string()
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
