//! Devices for the replays of `rmm tune`.

use rmm_core::{CudaStream, DevicePtr, Error};
use rmm_report::replay::{Attempt, ReplayOptions, Work, attempt};
use rmm_report::trace::Trace;
use rmm_report::tune::{Laboratory, Pace};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_spec::ResourceSpec;

use crate::device::{AnyDevice, OpenDevice};

/// Pinned and managed memory of the software devices, which no resource of ours takes.
const HOST_MEMORY: usize = 1 << 30;

/// Software devices, one for each replay, with exactly as much memory as is asked about.
#[derive(Debug)]
pub struct SoftwareLaboratory {
    options: ReplayOptions,
    threads: usize,
}

impl SoftwareLaboratory {
    /// Makes the software device the driver of this process.
    ///
    /// # Errors
    /// If this process uses another driver already.
    pub fn new(options: ReplayOptions) -> Result<Self, String> {
        rmm_sim::install().map_err(|error| error.to_string())?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self { options, threads })
    }
}

/// Orders of the work in which an answer is proven.
const PROOFS: [Pace; 8] = [
    Pace::Mixed(1),
    Pace::Mixed(2),
    Pace::Mixed(3),
    Pace::Mixed(4),
    Pace::Mixed(5),
    Pace::Mixed(6),
    Pace::Mixed(7),
    Pace::Mixed(8),
];

impl Laboratory for SoftwareLaboratory {
    fn attempt(
        &self,
        trace: &Trace,
        resource: &ResourceSpec,
        memory: u64,
        pace: Pace,
    ) -> Result<Attempt, Error> {
        let schedule = match pace {
            Pace::AtOnce | Pace::OfGpu => Schedule::Eager,
            Pace::WhenWaitedFor => Schedule::Lazy,
            Pace::Mixed(seed) => Schedule::Seeded(seed),
        };
        let machine = usize::try_from(memory).ok().and_then(|bytes| {
            let machine = Machine::builder().memory(bytes).host_memory(HOST_MEMORY).checks(false);
            machine.schedule(schedule).try_build().ok()
        });
        let Some(machine) = machine else {
            // A larger one will not do either.
            let mut attempt = Attempt::default();
            attempt.failure =
                Some(format!("this system has no room for a device of {memory} bytes"));
            return Ok(attempt);
        };
        let device = OpenDevice::on_machine(&machine);
        let last_uses = LastUses(machine.clone());
        let work: Option<&dyn Work> = match pace {
            // Without work there is nothing to wait for.
            Pace::AtOnce | Pace::OfGpu => None,
            Pace::WhenWaitedFor | Pace::Mixed(_) => Some(&last_uses),
        };
        attempt(&device.handle(), trace, self.options, work, || resource.build())
    }

    fn paces(&self) -> &[Pace] {
        &[Pace::AtOnce, Pace::WhenWaitedFor]
    }

    fn proofs(&self) -> &[Pace] {
        &PROOFS
    }

    fn threads(&self) -> usize {
        self.threads
    }
}

/// A kernel on each block before it is freed. It accesses nothing: when it is done is all that
/// matters.
#[derive(Debug)]
struct LastUses(Machine);

impl Work for LastUses {
    fn enqueue(
        &self,
        name: &'static str,
        stream: &CudaStream,
        _block: DevicePtr,
        _bytes: usize,
    ) -> Result<(), Error> {
        if name == FIRST_USE {
            return Ok(());
        }
        let launched = self.0.launch(stream.as_raw(), Kernel::new(name, |_| ()));
        launched.map_err(|code| Error::driver("kernel launch", code))
    }
}

/// What a replay calls the work on a block that was just allocated.
const FIRST_USE: &str = "first use";

/// A GPU. Its memory cannot be chosen: a configuration has to say how much it takes.
#[derive(Debug)]
pub struct GpuLaboratory {
    device: AnyDevice,
    options: ReplayOptions,
}

impl GpuLaboratory {
    /// A laboratory on an open GPU.
    pub fn new(device: &OpenDevice, options: ReplayOptions) -> Self {
        Self { device: device.handle(), options }
    }
}

impl Laboratory for GpuLaboratory {
    fn attempt(
        &self,
        trace: &Trace,
        resource: &ResourceSpec,
        _memory: u64,
        _pace: Pace,
    ) -> Result<Attempt, Error> {
        let _current = self.device.make_current()?;
        attempt(&self.device, trace, self.options, None, || resource.build())
    }

    fn paces(&self) -> &[Pace] {
        &[Pace::OfGpu]
    }

    fn proofs(&self) -> &[Pace] {
        &[]
    }

    fn threads(&self) -> usize {
        1
    }
}
