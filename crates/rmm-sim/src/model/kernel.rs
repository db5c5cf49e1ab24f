//! Simulated kernels: closures that run in stream order and access the device memory that they
//! declare.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmm_sys::{CuDevicePtr, CuResult};

use crate::model::memory::Place;
use crate::model::operation::Operation;

type Once = dyn FnOnce(&mut KernelMemory<'_>) + Send;
type Often = dyn FnMut(&mut KernelMemory<'_>) + Send;

/// The closure of a kernel.
pub(crate) enum Run {
    Once(Box<Once>),
    Often(Arc<Mutex<Often>>),
}

impl Run {
    pub(crate) fn run(self, memory: &mut KernelMemory<'_>) {
        match self {
            Self::Once(run) => run(memory),
            Self::Often(run) => run.lock().unwrap_or_else(PoisonError::into_inner)(memory),
        }
    }
}

/// A simulated kernel: a closure, and the ranges of memory that it reads and writes.
///
/// It runs in stream order on any thread that makes a driver call, and may not call the driver
/// itself (calls return `NOT_PERMITTED`). A kernel that panics is reported as a
/// [violation](crate::Machine::violations).
#[must_use = "a kernel runs once it is launched, see `Machine::launch`"]
pub struct Kernel {
    name: &'static str,
    ranges: Vec<(CuDevicePtr, usize, Operation)>,
    lasts: Option<Duration>,
    fails: Option<CuResult>,
    run: Run,
}

impl Kernel {
    /// A kernel that runs `run` once; traces and reports show `name`.
    pub fn new(
        name: &'static str,
        run: impl FnOnce(&mut KernelMemory<'_>) + Send + 'static,
    ) -> Self {
        Self::with(name, Run::Once(Box::new(run)))
    }

    /// A kernel that may run any number of times, as required on a stream under capture.
    ///
    /// ```
    /// use rmm_sim::Kernel;
    ///
    /// let mut runs = 0;
    /// let kernel = Kernel::repeatable("count", move |_| runs += 1);
    /// assert!(format!("{kernel:?}").contains("count"));
    /// ```
    pub fn repeatable(
        name: &'static str,
        run: impl FnMut(&mut KernelMemory<'_>) + Send + 'static,
    ) -> Self {
        Self::with(name, Run::Often(Arc::new(Mutex::new(run))))
    }

    fn with(name: &'static str, run: Run) -> Self {
        Self { name, ranges: Vec::new(), lasts: None, fails: None, run }
    }

    /// Declares that it reads `bytes` bytes at `pointer`.
    pub fn reads(self, pointer: CuDevicePtr, bytes: usize) -> Self {
        self.uses(pointer, bytes, Operation::Read)
    }

    /// Declares that it writes, and may read, `bytes` bytes at `pointer`.
    pub fn writes(self, pointer: CuDevicePtr, bytes: usize) -> Self {
        self.uses(pointer, bytes, Operation::Write)
    }

    /// Declares that it updates `bytes` bytes at `pointer` atomically, such as a counter that
    /// kernels of several streams share.
    pub fn updates(self, pointer: CuDevicePtr, bytes: usize) -> Self {
        self.uses(pointer, bytes, Operation::Update)
    }

    /// Sets how long it takes in [simulated time](crate::Machine::time); by default, as long as
    /// other work.
    pub fn lasts(mut self, time: Duration) -> Self {
        self.lasts = Some(time);
        self
    }

    /// Makes it fail at its end, as a kernel that accesses an illegal address (`ILLEGAL_ADDRESS`)
    /// or traps (`LAUNCH_FAILED`). Its context is then lost: queued work never runs, and every
    /// later call in the context returns `code`, including calls that free memory and destroy
    /// streams. A reset ends the context but does not restore the device: as on an H200, the
    /// process gets no other context, and `cuDevicePrimaryCtxRetain` returns `code`.
    ///
    /// ```
    /// use rmm_sim::{Kernel, Machine};
    /// use rmm_sys::{CuContext, CuDevice, CuResult, CuStream};
    ///
    /// let machine = rmm_sim::enter();
    /// let (driver, mut context) = (rmm_sim::driver(), CuContext::NULL);
    /// // SAFETY: `context` is valid for a write.
    /// unsafe {
    ///     driver.cuInit(0).result()?;
    ///     driver.cuDevicePrimaryCtxRetain(&mut context, CuDevice(0)).result()?;
    ///     driver.cuCtxSetCurrent(context).result()?;
    /// }
    /// let kernel = Kernel::new("wild", |_| ()).fails(CuResult::ILLEGAL_ADDRESS);
    /// machine.launch(CuStream::NULL, kernel)?;
    /// // SAFETY: it takes no argument.
    /// assert_eq!(unsafe { driver.cuCtxSynchronize() }, CuResult::ILLEGAL_ADDRESS);
    /// // SAFETY: as above.
    /// assert_eq!(unsafe { driver.cuCtxSynchronize() }, CuResult::ILLEGAL_ADDRESS);
    /// # Ok::<(), CuResult>(())
    /// ```
    #[doc(alias = "sticky error")]
    pub fn fails(mut self, code: CuResult) -> Self {
        self.fails = Some(code);
        self
    }

    pub(crate) fn uses(mut self, pointer: CuDevicePtr, bytes: usize, operation: Operation) -> Self {
        self.ranges.push((pointer, bytes, operation));
        self
    }
}

impl Kernel {
    /// Converts the kernel to work; `place` looks up a range that it declares.
    ///
    /// # Errors
    /// Those of `place`.
    pub(crate) fn into_body(
        self,
        mut place: impl FnMut(&'static str, Operation, CuDevicePtr, usize) -> Result<Place, CuResult>,
    ) -> Result<KernelBody, CuResult> {
        let Self { name, ranges, lasts, fails, run } = self;
        let places = ranges
            .into_iter()
            .map(|(pointer, bytes, operation)| {
                Ok((place(name, operation, pointer, bytes)?, operation))
            })
            .collect::<Result<_, CuResult>>()?;
        Ok(KernelBody { name, places, lasts, fails, run })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("ranges", &self.ranges)
            .finish_non_exhaustive()
    }
}

/// A kernel with its ranges checked, ready to run.
pub(crate) struct KernelBody {
    pub(crate) name: &'static str,
    pub(crate) places: Vec<(Place, Operation)>,
    pub(crate) lasts: Option<Duration>,
    /// The code that its context returns after its end, if it fails.
    pub(crate) fails: Option<CuResult>,
    pub(crate) run: Run,
}

impl fmt::Debug for KernelBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelBody")
            .field("name", &self.name)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl KernelBody {
    /// The same kernel again, if it is repeatable.
    pub(crate) fn repeated(&self) -> Option<Self> {
        let Run::Often(run) = &self.run else { return None };
        let run = Run::Often(Arc::clone(run));
        let (places, lasts, fails) = (self.places.clone(), self.lasts, self.fails);
        Some(Self { name: self.name, places, lasts, fails, run })
    }
}

/// The memory of a device as a running kernel accesses it.
pub(crate) trait DeviceBytes: fmt::Debug + Send + Sync {
    /// Reads a place into `target`, which is of its length.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` if the memory was freed, or the kernel's device may not read it.
    fn load(&self, place: &Place, target: &mut [u8]) -> Result<(), CuResult>;

    /// Writes `source` to a place of its length.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` if the memory was freed, or the kernel's device may not write it.
    fn store(&mut self, place: &Place, source: &[u8]) -> Result<(), CuResult>;
}

/// The memory that a running kernel declared.
#[derive(Debug)]
pub struct KernelMemory<'a> {
    bytes: &'a mut dyn DeviceBytes,
    places: Vec<(Place, Operation)>,
}

impl<'a> KernelMemory<'a> {
    pub(crate) fn new(bytes: &'a mut dyn DeviceBytes, places: Vec<(Place, Operation)>) -> Self {
        Self { bytes, places }
    }

    /// Reads `target.len()` bytes at `pointer`.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` if the kernel declared no range that contains them, or the memory was
    /// freed since, or its device may no longer read it.
    pub fn read(&self, pointer: CuDevicePtr, target: &mut [u8]) -> Result<(), CuResult> {
        let place = self.find(pointer, target.len(), false)?;
        self.bytes.load(&place, target)
    }

    /// Writes `source` at `pointer`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and one if the range was declared as only read.
    pub fn write(&mut self, pointer: CuDevicePtr, source: &[u8]) -> Result<(), CuResult> {
        let place = self.find(pointer, source.len(), true)?;
        self.bytes.store(&place, source)
    }

    fn find(&self, pointer: CuDevicePtr, bytes: usize, write: bool) -> Result<Place, CuResult> {
        let address = usize::try_from(pointer.0).map_err(|_| CuResult::ILLEGAL_ADDRESS)?;
        let holds = |place: &Place| {
            address.checked_sub(place.address).is_some_and(|offset| {
                offset.checked_add(bytes).is_some_and(|end| end <= place.bytes)
            })
        };
        let declared = self
            .places
            .iter()
            .find(|(place, operation)| (*operation != Operation::Read || !write) && holds(place));
        let (place, _) = declared.ok_or(CuResult::ILLEGAL_ADDRESS)?;
        Ok(Place { address, bytes, allocation: place.allocation })
    }
}
