//! Reserved addresses, pages of which get memory and return it.

use std::fmt;
use std::ops::Range;

use rmm_core::siblings::{allocate_with, of_device};
use rmm_core::{Device, DevicePtr, Error, MemoryKind, StreamRef, driver_for_drop, fork};
use rmm_sys::Driver;

use super::VirtualMemoryResource;
use super::page_set::PageSet;
use crate::capability::{calls_for, calls_for_freeing};

const NAME: &str = "reserved addresses";

/// Reserved addresses of a [`VirtualMemoryResource`], any pages of which can be given memory
/// ([`commit`](Self::commit)) and have it taken away ([`decommit`](Self::decommit)) in place.
///
/// `rmm::ElasticBuffer` is made of it, and knows which work uses the pages. Each page is a block of
/// the resource: its [statistics](VirtualMemoryResource::statistics) count it, and devices have
/// access to it as to its other memory.
///
/// Ranges are in bytes from [`as_ptr`](Self::as_ptr) on, of whole pages. A commit or a decommit
/// takes driver calls for each page, whatever its size, and a commit one for access to all of
/// them: the resource's builder makes
/// [larger pages](super::VirtualMemoryResourceBuilder::page_size).
///
/// Dropping it returns the addresses if no page is committed. Otherwise both stay: work may be
/// using the pages.
///
/// ```
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let resource = VirtualMemoryResource::new()?;
/// let mut addresses = resource.reserve(1 << 30)?;
/// assert_eq!(resource.statistics().mapped_bytes, 0);
/// addresses.commit(4 << 20..8 << 20)?;
/// assert_eq!(addresses.committed().collect::<Vec<_>>(), [4 << 20..8 << 20]);
/// // SAFETY: nothing has used the pages.
/// assert_eq!(unsafe { addresses.decommit(6 << 20..8 << 20) }?, 2 << 20);
/// assert_eq!(resource.statistics().mapped_bytes, 2 << 20);
/// # // SAFETY: as above.
/// # unsafe { addresses.decommit(4 << 20..6 << 20) }?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuMemAddressReserve")]
pub struct ReservedAddresses {
    resource: VirtualMemoryResource,
    /// # Invariant
    /// These addresses were taken from the resource's space, and nothing else maps memory there.
    start: DevicePtr,
    bytes: usize,
    /// # Invariant
    /// The numbers of the pages that are mapped and that devices have access to.
    committed: PageSet,
    /// The pages that the driver refused to unmap. It is not known whether they are mapped; no work
    /// uses them. Each call tries again.
    unknown: PageSet,
}

impl VirtualMemoryResource {
    /// Reserves addresses for `bytes` bytes, rounded up to whole pages, without memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for no bytes, or more
    /// than can be addressed; or if the driver refuses.
    pub fn reserve(&self, bytes: usize) -> Result<ReservedAddresses, Error> {
        fork::check()?;
        let whole = bytes.checked_next_multiple_of(self.space.page).filter(|&whole| whole > 0);
        let bytes = whole.ok_or_else(|| {
            Error::invalid_argument(NAME, format!("{bytes} bytes cannot be reserved"))
        })?;
        let start = self.space.reserve(bytes)?;
        let (committed, unknown) = (PageSet::default(), PageSet::default());
        Ok(ReservedAddresses { resource: self.clone(), start, bytes, committed, unknown })
    }
}

impl ReservedAddresses {
    /// The first address.
    pub fn as_ptr(&self) -> DevicePtr {
        self.start
    }

    /// Bytes of addresses, a multiple of the page size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The size of a page, in bytes.
    pub fn page_size(&self) -> usize {
        self.resource.space.page
    }

    /// The resource whose memory the pages have.
    pub fn resource(&self) -> &VirtualMemoryResource {
        &self.resource
    }

    /// The device whose memory the pages have.
    #[doc(hidden)]
    pub fn device(&self) -> Device {
        self.resource.space.device()
    }

    /// The committed ranges, in bytes, in order. There is a gap between two of them.
    pub fn committed(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let page = self.page_size();
        self.committed.ranges().map(move |pages| pages.start * page..pages.end * page)
    }

    /// Fails if the device of `stream` has no access to the memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if so; whatever the
    /// driver reports.
    pub fn check_stream(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        self.resource.space.check_device(stream)
    }

    /// Fails if not all bytes of `range` are committed. It need not be of whole pages.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) that names the first page that is
    /// not.
    pub fn check_committed(&self, range: &Range<usize>) -> Result<(), Error> {
        if range.start > range.end || range.end > self.bytes {
            return Err(self.beyond(range));
        }
        let pages = range.start / self.page_size()..range.end.div_ceil(self.page_size());
        let missing = self.committed.first_missing(&pages).filter(|_| !range.is_empty());
        missing.map_or(Ok(()), |page| {
            let at = page * self.page_size();
            let message = format!("{range:?} of {}: the page at {at} is not committed", self.bytes);
            Err(Error::out_of_range(NAME, message))
        })
    }

    /// Fails if `range` cannot be decommitted.
    ///
    /// # Errors
    /// The errors of [`decommit`](Self::decommit) about the range.
    pub fn check_decommit(&self, range: &Range<usize>) -> Result<(), Error> {
        self.pages(range)?;
        self.check_committed(range)
    }

    /// Gives memory to `range`, of which no page has any. All of it or nothing is committed.
    ///
    /// If memory is short, the pools of this library on the device are asked to return what they do
    /// not use.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a range that is
    /// empty, is not of whole pages, or contains a page that is committed;
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) for one that ends beyond the
    /// addresses; [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is not
    /// enough; or if the driver refuses.
    pub fn commit(&mut self, range: Range<usize>) -> Result<(), Error> {
        let device = self.device();
        let bytes = range.len() as u64;
        let others = || of_device(device, MemoryKind::Device);
        allocate_with(None, bytes, || self.commit_alone(range.clone()), others)
    }

    /// [Commits](Self::commit) without asking pools to return memory.
    ///
    /// # Errors
    /// Those of `commit`.
    #[doc(hidden)]
    pub fn commit_alone(&mut self, range: Range<usize>) -> Result<(), Error> {
        fork::check()?;
        let pages = self.pages(&range)?;
        if let Some(page) = self.committed.first_in(&pages) {
            let at = page * self.page_size();
            let what = format!("{range:?} of {}: the page at {at} is committed", self.bytes);
            return Err(Error::invalid_argument(NAME, what));
        }
        self.map(pages.clone())?;
        self.committed.insert(pages);
        Ok(())
    }

    /// Takes the memory of `range` away and returns it to the device. Returns the bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a range that is
    /// empty or not of whole pages; [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) for
    /// one of which not all is committed. If the driver refuses to unmap a page, none of the range
    /// is committed any more, and what was not unmapped is tried again by later calls.
    ///
    /// # Safety
    /// Every use of the range has completed, and there is none before it is committed again. Nor
    /// does a graph use it that is launched before.
    pub unsafe fn decommit(&mut self, range: Range<usize>) -> Result<usize, Error> {
        fork::check()?;
        self.check_decommit(&range)?;
        let pages = self.pages(&range)?;
        // An address identifies its device, so that no context has to be current.
        let calls = calls_for(None).or_else(|error| calls_for_freeing().ok_or(error))?;
        self.resource.space.retry_stuck(&calls);
        self.retry_unknown(&calls);
        self.committed.remove(pages.clone());
        self.unknown.insert(pages.clone());
        // SAFETY: the pages were committed, and are not used, by the caller's contract.
        unsafe { self.unmap(&calls, pages) }?;
        Ok(range.len())
    }

    /// The numbers of the pages of a range.
    fn pages(&self, range: &Range<usize>) -> Result<Range<usize>, Error> {
        let page = self.page_size();
        if range.end > self.bytes {
            return Err(self.beyond(range));
        }
        let wrong = if range.is_empty() {
            "the range is empty".into()
        } else if !range.start.is_multiple_of(page) || !range.end.is_multiple_of(page) {
            format!("the range is not of whole pages of {page} bytes")
        } else {
            return Ok(range.start / page..range.end / page);
        };
        Err(Error::invalid_argument(NAME, format!("{range:?} of {}: {wrong}", self.bytes)))
    }

    fn beyond(&self, range: &Range<usize>) -> Error {
        Error::out_of_range(NAME, format!("{range:?} of {}", self.bytes))
    }

    fn address_of(&self, page: usize) -> DevicePtr {
        DevicePtr(self.start.0 + (page * self.page_size()) as u64)
    }

    /// Maps pages that are not committed, all of them or none.
    fn map(&mut self, pages: Range<usize>) -> Result<(), Error> {
        let calls = calls_for(None)?;
        self.retry_unknown(&calls);
        if let Some(page) = self.unknown.first_in(&pages) {
            let at = page * self.page_size();
            let what = format!("the driver has refused to unmap the page at {at}");
            return Err(Error::not_ready(NAME, what));
        }
        let (mut mapped, mut outcome) = (pages.start, Ok(()));
        while mapped < pages.end && outcome.is_ok() {
            outcome = self.resource.space.map_page(&calls, self.address_of(mapped));
            mapped += usize::from(outcome.is_ok());
        }
        let given = outcome.and_then(|()| {
            let start = self.address_of(pages.start);
            // SAFETY: all of them were mapped just now.
            unsafe { self.resource.space.give_access(&calls, start, pages.len()) }
        });
        let Err(error) = given else { return Ok(()) };
        if mapped > pages.start {
            self.unknown.insert(pages.start..mapped);
        }
        // SAFETY: mapped here, and not returned to anyone who might use them.
        let _ignored = unsafe { self.unmap(&calls, pages.start..mapped) };
        let page = self.page_size();
        let range = pages.start * page..pages.end * page;
        Err(error.with_message(format!("to commit {range:?} of {}", self.bytes)))
    }

    /// Unmaps pages, which are among the unknown ones until then. An error does not keep it from
    /// going on with the next page.
    ///
    /// # Safety
    /// They were mapped here, and every use of them has completed.
    unsafe fn unmap(&mut self, driver: &Driver, pages: Range<usize>) -> Result<(), Error> {
        let mut outcome = Ok(());
        for page in pages {
            // SAFETY: the caller's contract.
            match unsafe { self.resource.space.unmap_page(driver, self.address_of(page)) } {
                Ok(()) => self.unknown.remove(page..page + 1),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Unmaps what the driver refused to unmap before.
    fn retry_unknown(&mut self, driver: &Driver) {
        let unknown: Vec<Range<usize>> = self.unknown.ranges().collect();
        for pages in unknown {
            // SAFETY: only pages whose uses have completed are unknown.
            let _ignored = unsafe { self.unmap(driver, pages) };
        }
    }
}

impl Drop for ReservedAddresses {
    fn drop(&mut self) {
        // At the end of the process, and in the child of a fork, there is nothing to return.
        if driver_for_drop().is_none() {
            return;
        }
        if !self.unknown.is_empty()
            && let Some(calls) = calls_for_freeing()
        {
            self.retry_unknown(&calls);
        }
        if self.committed.is_empty() && self.unknown.is_empty() {
            self.resource.space.return_addresses(self.start, self.bytes);
        }
    }
}

impl fmt::Debug for ReservedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservedAddresses")
            .field("pointer", &self.start)
            .field("bytes", &self.bytes)
            .field("page_size", &self.page_size())
            .field("committed", &self.committed().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
