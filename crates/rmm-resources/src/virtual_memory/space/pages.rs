//! Single pages at addresses that were taken before.

use rmm_core::{DevicePtr, Error, check};
use rmm_sys::Driver;

use super::Space;
use crate::capability::calls_for;

impl Space {
    /// Takes addresses, without memory.
    pub(in super::super) fn reserve(&self, bytes: usize) -> Result<DevicePtr, Error> {
        self.take_addresses(&*calls_for(None)?, bytes)
    }

    /// Returns addresses of [`reserve`](Self::reserve), at which nothing is mapped.
    pub(in super::super) fn return_addresses(&self, start: DevicePtr, bytes: usize) {
        self.state().addresses.release(start.0, bytes as u64);
    }

    /// Maps new memory at a page of reserved addresses at which nothing is mapped. No device has
    /// access to it before [`give_access`](Self::give_access).
    ///
    /// # Errors
    /// If there is too little memory, or the driver refuses: then nothing is mapped.
    pub(in super::super) fn map_page(&self, driver: &Driver, page: DevicePtr) -> Result<(), Error> {
        self.map_new(driver, page, self.page)?;
        let mut state = self.state();
        state.mapped_bytes += self.page as u64;
        state.blocks += 1;
        Ok(())
    }

    /// Gives devices access to adjacent pages.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Each page was mapped by [`map_page`](Self::map_page), and stays so until
    /// [`unmap_page`](Self::unmap_page).
    pub(in super::super) unsafe fn give_access(
        &self,
        driver: &Driver,
        start: DevicePtr,
        pages: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract; `unmap_page` forgets a page.
        unsafe { self.access.give(driver, start, self.page, pages) }
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
