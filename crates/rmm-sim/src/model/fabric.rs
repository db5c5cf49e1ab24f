//! Fabric handles: 64 bytes that name exported memory to every process of the machine, which the
//! software device takes for one `NVLink` domain. They hold until the exporter releases the memory.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;

use rmm_sys::CuResult;

const MAGIC: u64 = u64::from_ne_bytes(*b"rmm-fab\x01");

/// The bytes that name a file which this process keeps open.
pub(crate) fn name_of(file: &File) -> [u8; 64] {
    let words = [MAGIC, u64::from(std::process::id()), u64::from(file.as_raw_fd().cast_unsigned())];
    let mut bytes = [0; 64];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
    bytes
}

/// The file that the bytes name.
///
/// # Errors
/// `INVALID_VALUE` if there is none.
pub(crate) fn open(bytes: &[u8; 64]) -> Result<File, CuResult> {
    let (words, _) = bytes.as_chunks::<8>();
    let &[magic, process, file, ..] = words else { return Err(CuResult::INVALID_VALUE) };
    if u64::from_ne_bytes(magic) != MAGIC {
        return Err(CuResult::INVALID_VALUE);
    }
    let [process, file] = [process, file].map(u64::from_ne_bytes);
    let path = format!("/proc/{process}/fd/{file}");
    OpenOptions::new().read(true).write(true).open(path).map_err(|_| CuResult::INVALID_VALUE)
}
