//! What calls and work cost in simulated time.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::work::Work;

/// What calls of the driver take on the host, and work takes on a device, in simulated time: see
/// [`Machine::time`](crate::Machine::time).
///
/// By default they are what was measured on an H200, with one thread: 180 ns to record an event,
/// 150 ns to query one, 200 ns to make a stream wait, 440 ns for each half of a stream-ordered
/// allocation and free, 29.5 us for each half of a plain one, 870 ns to put work on a stream, and
/// 60 ns for calls that only ask. What was not measured is set like its nearest kin. Work takes a
/// microsecond and, where it moves bytes, a nanosecond more for each KiB.
///
/// ```
/// use std::time::Duration;
/// use rmm_sim::{Costs, Machine};
///
/// let costs = Costs::default().call("cuInit", Duration::from_micros(7));
/// let machine = Machine::builder().costs(costs).build();
/// let _here = machine.enter();
/// // SAFETY: `cuInit` takes no pointer.
/// assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
/// assert_eq!(machine.time(), Duration::from_micros(7));
/// ```
#[must_use = "costs count for the machine that is built with them"]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    calls: BTreeMap<&'static str, u64>,
    other_calls: u64,
    work: u64,
    bytes_per_microsecond: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            calls: H200
                .iter()
                .flat_map(|&(names, cost)| names.iter().map(move |&name| (name, cost)))
                .collect(),
            other_calls: 60,
            work: 1000,
            bytes_per_microsecond: 1000 << 10,
        }
    }
}

/// Nanoseconds on the host, measured on an H200 with driver 580; halves of what was measured as a
/// pair.
const H200: &[(&[&str], u64)] = &[
    (&["cuEventRecord"], 180),
    (&["cuStreamWaitEvent"], 200),
    (&["cuEventQuery", "cuStreamQuery"], 150),
    (&["cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"], 150),
    (&["cuEventCreate", "cuEventDestroy_v2"], 112),
    (&["cuCtxRecordEvent", "cuCtxWaitEvent"], 156),
    (&["cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"], 440),
    (
        &["cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemFreeHost"],
        29_500,
    ),
    (&["cuMemsetD8_v2", "cuMemsetD32_v2", "cuMemsetD8Async", "cuMemsetD32Async"], 870),
    (&["cuMemcpy", "cuMemcpyAsync", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"], 870),
    (&["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"], 870),
    (&["cuLaunchKernel", "cuLaunchHostFunc", "cuStreamWriteValue32_v2"], 870),
];

impl Costs {
    /// Nothing takes any time.
    pub fn none() -> Self {
        Self { calls: BTreeMap::new(), other_calls: 0, work: 0, bytes_per_microsecond: u64::MAX }
    }

    /// What the function `name` (the symbol, such as `"cuEventRecord"`) takes on the host.
    /// Simulated kernels are launched at the price of `"cuLaunchKernel"`.
    pub fn call(mut self, name: &'static str, time: Duration) -> Self {
        self.calls.insert(name, nanoseconds(time));
        self
    }

    /// What every other function takes on the host.
    pub fn other_calls(mut self, time: Duration) -> Self {
        self.other_calls = nanoseconds(time);
        self
    }

    /// What a copy, a fill, a host function or a kernel takes on the device, beside what its bytes
    /// take. A kernel can [say itself](crate::Kernel::lasts) how long it takes.
    pub fn work(mut self, time: Duration) -> Self {
        self.work = nanoseconds(time);
        self
    }

    /// How many bytes a copy or a fill moves in a microsecond; 0 is taken for 1.
    pub fn bytes_per_microsecond(mut self, bytes: u64) -> Self {
        self.bytes_per_microsecond = bytes.max(1);
        self
    }

    pub(crate) fn of_call(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(self.other_calls)
    }

    pub(crate) fn of_work(&self, work: &Work) -> u64 {
        let moved = |bytes: usize| {
            let nanoseconds = bytes as u128 * 1000 / u128::from(self.bytes_per_microsecond);
            self.work.saturating_add(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
        };
        match work {
            Work::Copy { from, .. } => moved(from.bytes),
            Work::Staged { bytes, .. } => moved(bytes.len()),
            Work::Fill { to, .. } => moved(to.bytes),
            Work::Kernel(body) => body.lasts.map_or(self.work, nanoseconds),
            Work::Host { .. } => self.work,
            Work::Record { .. } | Work::Release { .. } | Work::Marker(_) => 0,
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
