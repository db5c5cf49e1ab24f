//! Single pages at addresses that were taken before.

use rmm_core::{DevicePtr, Error, check};
use rmm_sys::Driver;

use super::{Space, Stuck};
use crate::capability::calls_for;

/// A page that did not get memory.
pub(in super::super) struct Refused {
    pub(in super::super) error: Error,
    /// Whether nothing is mapped there. If not, [`Space::unmap_page`] has to be tried.
    pub(in super::super) is_unmapped: bool,
}

impl Space {
    /// Takes addresses, without memory.
    pub(in super::super) fn reserve(&self, bytes: usize) -> Result<DevicePtr, Error> {
        self.take_addresses(&*calls_for(None)?, bytes)
    }

    /// Returns addresses of [`reserve`](Self::reserve), at which nothing is mapped.
    pub(in super::super) fn return_addresses(&self, start: DevicePtr, bytes: usize) {
        self.state().addresses.release(start.0, bytes as u64);
    }

    /// Maps new memory at a page of reserved addresses at which nothing is mapped.
    pub(in super::super) fn map_page(
        &self,
        driver: &Driver,
        page: DevicePtr,
    ) -> Result<(), Refused> {
        let mapped = self.map_memory(driver, page, self.page);
        let mut state = self.state();
        if let Err((_, false)) = &mapped {
            // The owner of the addresses tries again, and not the space.
            state.stuck.retain(|it| !matches!(it, Stuck::Mapping(start, _) if *start == page));
        }
        if !matches!(&mapped, Err((_, true))) {
            state.mapped_bytes += self.page as u64;
            state.blocks += 1;
        }
        mapped.map_err(|(error, is_unmapped)| Refused { error, is_unmapped })
    }

    /// Unmaps a page and returns its memory to the device.
    ///
    /// # Errors
    /// If the driver refuses: then it is not known whether the page is mapped.
    ///
    /// # Safety
    /// The page was mapped by [`map_page`](Self::map_page), and every use of it has completed.
    pub(in super::super) unsafe fn unmap_page(
        &self,
        driver: &Driver,
        page: DevicePtr,
    ) -> Result<(), Error> {
        self.access.forget(page);
        // SAFETY: a whole mapping, which is not in use, by the caller's contract.
        check("cuMemUnmap", unsafe { driver.cuMemUnmap(page, self.page) })?;
        let mut state = self.state();
        state.mapped_bytes -= self.page as u64;
        state.blocks -= 1;
        Ok(())
    }
}
