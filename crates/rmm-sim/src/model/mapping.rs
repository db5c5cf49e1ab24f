//! Memory mappings of the host process. Only this file maps memory and copies through raw
//! addresses.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use rmm_sys::CuResult;

/// The granularity at which host memory is mapped and protected: a multiple of every page size in
/// use.
pub(crate) const PAGE: usize = 64 << 10;

/// A private anonymous mapping, unmapped when dropped. Pages take memory only once they are
/// touched.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// # Invariant
    /// `base..base + len` is a mapping made by [`Mapping::new`] and owned by this value alone.
    base: usize,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes, which the host may access if `accessible`.
    pub(crate) fn new(len: usize, accessible: bool) -> Result<Self, CuResult> {
        let access = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address that the system chooses does not affect
        // existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            Err(CuResult::OUT_OF_MEMORY)
        } else {
            Ok(Self { base: base.expose_provenance(), len })
        }
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The offset of `address` in the mapping, if it lies inside.
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base).filter(|&offset| offset < self.len)
    }

    /// Returns the pages of a range to the system; they read as zero afterwards. The range consists
    /// of whole pages.
    pub(crate) fn discard(&self, offset: usize, len: usize) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "the range lies in the mapping"
        );
        // SAFETY: the range is part of a mapping that this value owns, and is only ever read
        // through raw copies.
        let _ = unsafe { libc::madvise(self.pointer(offset), len, libc::MADV_DONTNEED) };
    }

    /// Makes a range of whole pages accessible to the host, or inaccessible.
    pub(crate) fn protect(
        &self,
        offset: usize,
        len: usize,
        accessible: bool,
    ) -> Result<(), CuResult> {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "the range lies in the mapping"
        );
        let access = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        // SAFETY: the range is part of a mapping that this value owns.
        let status = unsafe { libc::mprotect(self.pointer(offset), len, access) };
        if status == 0 { Ok(()) } else { Err(CuResult::OUT_OF_MEMORY) }
    }

    /// Replaces a range of whole pages by the first bytes of a file, which other processes may map
    /// too. A child that is forked does not have it.
    pub(crate) fn share(&self, offset: usize, len: usize, file: &File) -> Result<(), CuResult> {
        self.replace(offset, len, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd())?;
        #[cfg(target_os = "linux")]
        {
            // SAFETY: the range is part of a mapping that this value owns.
            let status = unsafe { libc::madvise(self.pointer(offset), len, libc::MADV_DONTFORK) };
            if status != 0 {
                return Err(CuResult::OPERATING_SYSTEM);
            }
        }
        Ok(())
    }

    /// Ends [`share`](Self::share): the range reads as zero afterwards, and is of this process
    /// alone.
    pub(crate) fn unshare(&self, offset: usize, len: usize) -> Result<(), CuResult> {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.replace(offset, len, private | libc::MAP_FIXED, -1)
    }

    /// Writes a range to the start of a file, without the pages that are zero.
    pub(crate) fn save(&self, offset: usize, len: usize, file: &File) -> Result<(), CuResult> {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "the range lies in the mapping"
        );
        let mut page = vec![0; PAGE];
        for at in (0..len).step_by(PAGE) {
            let piece = &mut page[..PAGE.min(len - at)];
            // SAFETY: the range is part of a mapping that this value owns, and accessible: only
            // ranges of a device's bytes are saved. Nothing writes to it meanwhile, since copies
            // lock the machine, as the caller does.
            unsafe { load(self.base + offset + at, piece) };
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, at as u64).map_err(|_| CuResult::OPERATING_SYSTEM)?;
            }
        }
        Ok(())
    }

    fn replace(
        &self,
        offset: usize,
        len: usize,
        flags: c_int,
        file: c_int,
    ) -> Result<(), CuResult> {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "the range lies in the mapping"
        );
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is part of a mapping that this value owns, and is only ever read
        // through raw copies, none of which is running: they lock the machine, as the caller does.
        let base = unsafe { libc::mmap(self.pointer(offset), len, access, flags, file, 0) };
        if base == libc::MAP_FAILED { Err(CuResult::OPERATING_SYSTEM) } else { Ok(()) }
    }

    /// Leaks the mapping, because the program may still use it.
    pub(crate) fn keep(&mut self) {
        self.len = 0;
    }

    fn pointer(&self, offset: usize) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.base + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: by the invariant this value alone owns the mapping, and nothing uses it after the
        // value is dropped.
        let _ = unsafe { libc::munmap(self.pointer(0), self.len) };
    }
}

/// Copies `len` bytes between host addresses, which may overlap.
///
/// # Safety
/// Both ranges are mapped, `from` readable and `to` writable, and no Rust reference to either is in
/// use.
pub(crate) unsafe fn copy(from: usize, to: usize, len: usize) {
    let from: *const u8 = std::ptr::with_exposed_provenance(from);
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller promises both ranges; `copy` allows overlap, and bytes have no alignment.
    unsafe { std::ptr::copy(from, to, len) };
}

/// Copies `bytes` to a host address.
///
/// # Safety
/// The range at `to` is mapped and writable, and no Rust reference to it is in use.
pub(crate) unsafe fn store(bytes: &[u8], to: usize) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller promises the range at `to`; `bytes` is a live slice.
    unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
}

/// Copies from a host address into `bytes`.
///
/// # Safety
/// The range at `from` is mapped and readable, and nothing writes to it meanwhile.
pub(crate) unsafe fn load(from: usize, bytes: &mut [u8]) {
    let from: *const u8 = std::ptr::with_exposed_provenance(from);
    // SAFETY: the caller promises the range at `from`; `bytes` is a live, exclusive slice.
    unsafe { std::ptr::copy(from, bytes.as_mut_ptr(), bytes.len()) };
}

/// Sets `len` bytes at a host address to `value`.
///
/// # Safety
/// As for [`store`].
pub(crate) unsafe fn fill(to: usize, value: u8, len: usize) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller promises that the range is mapped and writable, without references in use.
    unsafe { std::ptr::write_bytes(to, value, len) };
}
