//! The costs of calls and work in simulated time.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::work::Work;

/// The durations, in simulated time, of driver calls on the host and of work on a device; see
/// [`Machine::time`](crate::Machine::time).
///
/// The defaults were measured on an H200 with one thread: 180 ns to record an event, 150 ns to
/// query one, 200 ns to make a stream wait, 440 ns each for a stream-ordered allocation and free,
/// 29.5 us each for a synchronous one, 870 ns to enqueue work, and 60 ns for calls that only query.
/// Calls that were not measured cost as much as similar ones. Work takes a microsecond, plus a
/// nanosecond per KiB that it moves.
///
/// ```
/// use std::time::Duration;
/// use rmm_sim::{Costs, Machine};
///
/// let costs = Costs::default().call("cuInit", Duration::from_micros(7));
/// let machine = Machine::builder().costs(costs).enter();
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

/// Nanoseconds on the host, measured on an H200 with driver 580. Calls measured as a pair cost half
/// of it each.
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
    /// All costs are zero.
    pub fn none() -> Self {
        Self { calls: BTreeMap::new(), other_calls: 0, work: 0, bytes_per_microsecond: u64::MAX }
    }

    /// Sets the cost on the host of the function `name` (the symbol, such as `"cuEventRecord"`).
    /// Launching a simulated kernel costs as much as `"cuLaunchKernel"`.
    pub fn call(mut self, name: &'static str, time: Duration) -> Self {
        self.calls.insert(name, nanoseconds(time));
        self
    }

    /// Sets the cost on the host of every other function.
    pub fn other_calls(mut self, time: Duration) -> Self {
        self.other_calls = nanoseconds(time);
        self
    }

    /// Sets the cost on the device of a copy, a fill, a host function or a kernel, in addition to
    /// the bytes that it moves. A kernel can [set its own](crate::Kernel::lasts).
    pub fn work(mut self, time: Duration) -> Self {
        self.work = nanoseconds(time);
        self
    }

    /// Sets how many bytes a copy or a fill moves per microsecond; 0 counts as 1.
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
