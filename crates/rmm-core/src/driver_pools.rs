//! The driver's memory pools that any library allocates from without naming one
//! (`cudaMallocAsync`): a device's default pool and its current one.
//!
//! What was freed in them stays with them until the host has waited for the device: the driver
//! releases it then, or when a request runs short. Before that no other request gets it, and no
//! trim releases it (seen on an H100).

use rmm_sys::{CuContext, CuMemPool, CuMemPoolAttribute, CuResult, Driver};

use crate::driver::{context_of_thread, driver_for_drop};
use crate::{
    Description, Device, PoolUsage, RelaxedCapture, TrimmableResource, synchronize_unless_captured,
};

/// The default pool and the current pool of a device. They are looked up at each call, since a
/// program may make another pool current, which creates neither a context nor a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverPools {
    device: Device,
}

impl DriverPools {
    pub(crate) const NAME: &str = "driver-pools";

    pub(crate) fn of(device: Device) -> Self {
        Self { device }
    }

    /// The driver and the pools; none if the device has none, or the process is exiting.
    fn find(self) -> Option<(&'static Driver, Vec<CuMemPool>)> {
        let driver = driver_for_drop()?;
        let (device, mut pools) = (self.device.as_raw(), [CuMemPool::NULL; 2]);
        let [default, current] = &mut pools;
        // SAFETY: `default` may be written to.
        let has_default = unsafe { driver.cuDeviceGetDefaultMemPool(default, device) };
        // SAFETY: `current` may be written to.
        let has_current = unsafe { driver.cuDeviceGetMemPool(current, device) };
        if has_default != CuResult::SUCCESS || has_current != CuResult::SUCCESS {
            return None;
        }
        let mut pools = Vec::from(pools);
        pools.dedup();
        Some((driver, pools))
    }

    /// The bytes that all pools hold. A pool of which the driver cannot say counts as empty.
    fn reserved(self) -> u64 {
        let Some((driver, pools)) = self.find() else { return 0 };
        let reserved = CuMemPoolAttribute::RESERVED_MEM_CURRENT;
        pools.into_iter().map(|pool| bytes_of(driver, pool, reserved)).sum()
    }

    /// Waits on this thread for all work of the device that this process can wait for: that of the
    /// current context, if it is the device's, and of the primary context, if there is one.
    fn wait(self) {
        let Some(driver) = driver_for_drop() else { return };
        let _relaxed = RelaxedCapture::enter();
        let current = context_of_thread(driver).unwrap_or(CuContext::NULL);
        if !current.is_null() && Device::current().is_ok_and(|device| device == self.device) {
            // After a failure nothing more is known.
            let _ignored = synchronize_unless_captured();
        }
        let (mut flags, mut is_active) = (0, 0);
        // SAFETY: both may be written to.
        let code = unsafe {
            driver.cuDevicePrimaryCtxGetState(
                self.device.as_raw(),
                &raw mut flags,
                &raw mut is_active,
            )
        };
        if code == CuResult::SUCCESS
            && is_active != 0
            && let Ok(_guard) = self.device.make_current()
            && context_of_thread(driver).is_ok_and(|primary| primary != current)
        {
            // After a failure nothing more is known.
            let _ignored = synchronize_unless_captured();
        }
    }
}

/// The bytes of a pool by an attribute; 0 if the driver cannot say.
fn bytes_of(driver: &Driver, pool: CuMemPool, attribute: CuMemPoolAttribute) -> u64 {
    let mut bytes = 0_u64;
    // SAFETY: the driver has just named the pool as one of the device's own. The default pool
    // exists for ever, and a pool that is destroyed is no longer the current one; who destroys the
    // current pool promises the driver that no thread allocates from it. The attributes are `u64`s,
    // to which the pointer points.
    let code = unsafe { driver.cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()) };
    if code == CuResult::SUCCESS { bytes } else { 0 }
}

impl TrimmableResource for DriverPools {
    fn trim_name(&self) -> &'static str {
        Self::NAME
    }

    fn usage(&self) -> PoolUsage {
        let Some((driver, pools)) = self.find() else { return PoolUsage::new(0, 0) };
        let bytes = |attribute| pools.iter().map(|&pool| bytes_of(driver, pool, attribute)).sum();
        match bytes(CuMemPoolAttribute::RESERVED_MEM_CURRENT) {
            0 => PoolUsage::new(0, 0),
            reserved => PoolUsage::new(reserved, bytes(CuMemPoolAttribute::USED_MEM_CURRENT)),
        }
    }

    fn trim_to(&self, keep: u64) -> u64 {
        let Some((driver, pools)) = self.find() else { return 0 };
        let before = self.reserved();
        let mut left = before;
        for pool in pools {
            let reserved = bytes_of(driver, pool, CuMemPoolAttribute::RESERVED_MEM_CURRENT);
            let here = keep.saturating_sub(left - reserved.min(left));
            // SAFETY: the pool exists, as in `bytes_of`. If the driver refuses, the pool keeps its
            // memory.
            let _ignored = unsafe {
                driver.cuMemPoolTrimTo(pool, usize::try_from(here).unwrap_or(usize::MAX))
            };
            left = self.reserved();
        }
        before.saturating_sub(left)
    }

    fn trim_to_blocking(&self, keep: u64) -> u64 {
        let before = self.reserved();
        // A pool with a release threshold of 0 returns memory in the wait.
        self.wait();
        self.trim_to(keep);
        before.saturating_sub(self.reserved())
    }
}

/// Describes what the default and the current pool of the current device hold, if that is
/// something. A thread without a context gets none.
pub fn describe_driver_pools(description: &mut Description) {
    let is_current = |driver| context_of_thread(driver).is_ok_and(|context| !context.is_null());
    if driver_for_drop().is_some_and(is_current)
        && let Ok(device) = Device::current()
    {
        let held = DriverPools::of(device).usage();
        if held.reserved > 0 {
            description.bytes("driver pools", held.reserved).bytes("in use there", held.live);
        }
    }
}
