//! The bytes of exported physical memory: a file that several processes map.
//!
//! The file holds the bytes, then a page that says what they are, so that a descriptor of anything
//! else is refused. Without a ledger it is an anonymous file of the exporter, which keeps it open
//! to export it again. With one it has a name in the folder of the
//! [`ledger`](crate::model::ledger).

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use rmm_sys::CuResult;

/// The first word of the page that describes the bytes.
const MAGIC: u64 = u64::from_ne_bytes(*b"rmm-sim\x01");
/// Bytes of the file beside those of the memory.
const TRAILER: u64 = 4096;

/// Where the bytes of exported or imported memory are.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    pub(crate) identity: Identity,
    pub(crate) place: Place,
}

/// Where the file is found again.
#[derive(Debug)]
pub(crate) enum Place {
    /// An anonymous file.
    Open(File),
    /// A file of the ledger.
    Named(PathBuf),
}

impl SharedBytes {
    /// The bytes of a file that is mapped, with the file's path if it has one.
    pub(crate) fn new((file, path): (File, Option<PathBuf>)) -> Result<Self, CuResult> {
        let identity = identity_of(&file)?.0;
        Ok(Self { identity, place: path.map_or(Place::Open(file), Place::Named) })
    }
}

impl SharedBytes {
    /// The file, if this process keeps it open.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.place {
            Place::Open(file) => Some(file),
            Place::Named(_) => None,
        }
    }
}

/// What identifies a file among all of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(u64, u64);

/// What a file's last page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    /// Its device, or [`HOST`](crate::model::virtual_memory::HOST).
    pub(crate) home: usize,
    pub(crate) bytes: usize,
    pub(crate) has_rdma: bool,
}

impl Contents {
    /// Makes a file one of these contents, all of them zero.
    pub(crate) fn write(self, file: &File) -> Result<(), CuResult> {
        let words = [MAGIC, self.home as u64, self.bytes as u64, u64::from(self.has_rdma)];
        let mut page = Vec::new();
        for word in words {
            page.extend(word.to_ne_bytes());
        }
        let bytes = self.bytes as u64;
        file.set_len(bytes + TRAILER).map_err(|_| CuResult::OPERATING_SYSTEM)?;
        file.write_all_at(&page, bytes).map_err(|_| CuResult::OPERATING_SYSTEM)
    }

    /// The contents of a file that the program passed.
    ///
    /// # Errors
    /// `INVALID_VALUE` for any other file.
    pub(crate) fn read(file: &File) -> Result<(Self, Identity), CuResult> {
        let invalid = |_| CuResult::INVALID_VALUE;
        let (identity, len) = identity_of(file)?;
        let bytes = len.checked_sub(TRAILER).ok_or(CuResult::INVALID_VALUE)?;
        let mut page = [0; 32];
        file.read_exact_at(&mut page, bytes).map_err(invalid)?;
        let (words, _) = page.as_chunks::<8>();
        let &[magic, device, len, rdma] = words else { return Err(CuResult::INVALID_VALUE) };
        if u64::from_ne_bytes(magic) != MAGIC || u64::from_ne_bytes(len) != bytes {
            return Err(CuResult::INVALID_VALUE);
        }
        let number = |word| usize::try_from(u64::from_ne_bytes(word));
        let contents = Self {
            home: number(device).map_err(|_| CuResult::INVALID_VALUE)?,
            bytes: number(len).map_err(|_| CuResult::INVALID_VALUE)?,
            has_rdma: u64::from_ne_bytes(rdma) != 0,
        };
        Ok((contents, identity))
    }
}

/// What identifies a file, and its length.
fn identity_of(file: &File) -> Result<(Identity, u64), CuResult> {
    let metadata = file.metadata().map_err(|_| CuResult::INVALID_VALUE)?;
    Ok((Identity(metadata.dev(), metadata.ino()), metadata.len()))
}

/// An anonymous file.
///
/// # Errors
/// `NOT_SUPPORTED` where there are none, `OPERATING_SYSTEM` if the system refuses.
pub(crate) fn anonymous() -> Result<File, CuResult> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the text is a C string literal, which outlives the call.
        let descriptor = unsafe { libc::memfd_create(c"rmm-sim".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(CuResult::OPERATING_SYSTEM);
        }
        // SAFETY: it was just created, and is not owned elsewhere.
        Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(descriptor) })
    }
    #[cfg(not(target_os = "linux"))]
    Err(CuResult::NOT_SUPPORTED)
}
