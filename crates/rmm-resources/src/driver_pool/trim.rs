//! The interface through which a driver pool is trimmed without its type.

use rmm_core::{Description, PoolUsage, TrimmableResource};

use super::DriverPool;

impl DriverPool {
    /// The bytes that `trim` releases to the device: what is reserved less. 0 if the driver
    /// cannot say.
    fn bytes_given(&self, trim: impl FnOnce()) -> u64 {
        let Ok(before) = self.reserved_bytes() else { return 0 };
        trim();
        before.saturating_sub(self.reserved_bytes().unwrap_or(before))
    }

    /// Describes what it holds, as far as the driver says.
    pub(crate) fn describe(&self, description: &mut Description) {
        let PoolUsage { reserved, live, .. } = self.usage();
        description.bytes("live", live).bytes("reserved", reserved);
    }
}

/// If the driver refuses a call, nothing was returned as far as it is known.
impl TrimmableResource for DriverPool {
    fn trim_name(&self) -> &'static str {
        "driver-pool"
    }

    fn usage(&self) -> PoolUsage {
        let reserved = self.reserved_bytes().unwrap_or(0);
        PoolUsage::new(reserved, self.used_bytes().unwrap_or(reserved))
    }

    fn trim_to(&self, keep: u64) -> u64 {
        self.bytes_given(|| drop(self.trim(keep)))
    }

    fn trim_to_blocking(&self, keep: u64) -> u64 {
        self.bytes_given(|| drop(self.trim_blocking(keep)))
    }
}
