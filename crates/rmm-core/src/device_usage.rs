//! The holders of the memory of a full device, for errors.

use std::fmt;

use crate::{MemoryInfo, PoolUsage, format_bytes};

/// Who holds the memory of a device that could not serve a request, as far as this process can
/// know: [`Error::device_usage`](crate::Error::device_usage).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::Machine::builder().memory(8 << 20).enter();
/// let cache = PoolMemoryResource::builder(CudaMemoryResource::new()).name("cache").build()?;
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let layout = Layout::from_size_align(6 << 20, 256)?;
/// let block = cache.allocate_sync(layout)?;
/// let error = pool.allocate_sync(layout).unwrap_err();
/// let device = error.device_usage().expect("the device has refused");
/// assert_eq!((device.memory.free, device.elsewhere), (2 << 20, 0));
/// assert_eq!((device.pools[0].0, device.pools[0].1.live), ("cache", 6 << 20));
/// let text = "of the device's 8.0 MiB, 2.0 MiB are free, cache holds 6.0 MiB (6.0 MiB live)";
/// assert!(error.to_string().contains(text), "{error}");
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { cache.deallocate_sync(block, layout) };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceUsage {
    /// The device's free and total bytes.
    pub memory: MemoryInfo,
    /// The other suballocators of this process that hold some, by name, the largest first. Those
    /// over another one count there. `driver-pools` are the driver's default and current pools,
    /// from which other libraries allocate.
    pub pools: Vec<(&'static str, PoolUsage)>,
    /// Bytes that neither these nor the resource which failed hold: those of other processes, of
    /// contexts and their kernels, and what this process has allocated without a suballocator.
    pub elsewhere: u64,
}

impl DeviceUsage {
    /// The usage of a device on which the resource that failed holds `own` bytes.
    pub(crate) fn new(
        memory: MemoryInfo,
        own: u64,
        mut pools: Vec<(&'static str, PoolUsage)>,
    ) -> Self {
        pools.retain(|(_, usage)| usage.reserved > 0);
        pools.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.reserved));
        let known = pools.iter().fold(own, |sum, (_, usage)| sum.saturating_add(usage.reserved));
        let elsewhere = memory.total.saturating_sub(memory.free).saturating_sub(known);
        Self { memory, pools, elsewhere }
    }
}

/// Upper bound on the holders that a message names.
const NAMED: usize = 4;

impl fmt::Display for DeviceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, pools, elsewhere } = self;
        let [total, free] = [memory.total, memory.free].map(format_bytes);
        write!(f, "of the device's {total}, {free} are free")?;
        for (name, PoolUsage { reserved, live, .. }) in pools.iter().take(NAMED) {
            write!(f, ", {name} holds {} ({} live)", format_bytes(*reserved), format_bytes(*live))?;
        }
        if let Some(more) = pools.get(NAMED..).filter(|more| !more.is_empty()) {
            let bytes = more.iter().map(|(_, usage)| usage.reserved).sum();
            write!(f, ", {} more pools hold {}", more.len(), format_bytes(bytes))?;
        }
        if *elsewhere > 0 {
            let bytes = format_bytes(*elsewhere);
            write!(f, ", {bytes} are held by other processes, by contexts, or without a pool")?;
        }
        f.write_str(": free some of it, or request less")
    }
}
