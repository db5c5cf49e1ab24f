//! What an export consists of.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rmm_core::Error;

use super::NAME;

/// A handle of the driver's to physical memory, for another process. The memory lives at least as
/// long. It is closed when dropped.
pub struct ShareableHandle(pub(super) HandleKind);

pub(super) enum HandleKind {
    Descriptor(OwnedFd),
    Fabric([u8; 64]),
}

impl ShareableHandle {
    /// A handle of 64 bytes that was received from a process, perhaps of another machine.
    pub fn from_fabric_bytes(bytes: [u8; 64]) -> Self {
        Self(HandleKind::Fabric(bytes))
    }

    /// The file descriptor, unless it is a fabric handle. Send it as `SCM_RIGHTS`.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            HandleKind::Descriptor(file) => Some(file.as_fd()),
            HandleKind::Fabric(_) => None,
        }
    }

    /// The bytes of a fabric handle. They are valid on all machines of the `NVLink` domain, and
    /// have nothing to close.
    pub fn fabric_bytes(&self) -> Option<[u8; 64]> {
        match self.0 {
            HandleKind::Descriptor(_) => None,
            HandleKind::Fabric(bytes) => Some(bytes),
        }
    }

    /// Takes the file descriptor out, unless it is a fabric handle.
    pub fn into_descriptor(self) -> Option<OwnedFd> {
        match self.0 {
            HandleKind::Descriptor(file) => Some(file),
            HandleKind::Fabric(_) => None,
        }
    }
}

impl From<OwnedFd> for ShareableHandle {
    fn from(descriptor: OwnedFd) -> Self {
        Self(HandleKind::Descriptor(descriptor))
    }
}

impl fmt::Debug for ShareableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandleKind::Descriptor(file) => f.debug_tuple("ShareableHandle").field(file).finish(),
            HandleKind::Fabric(_) => f.write_str("ShareableHandle(fabric)"),
        }
    }
}

/// A piece of an export: a handle, and which part of its memory is meant. The pieces of an export
/// are contiguous in the order in which it returned them.
#[derive(Debug)]
pub struct Piece {
    /// The physical memory.
    pub handle: ShareableHandle,
    /// The part of it, and its place in the export.
    pub range: PieceRange,
}

/// The place of a piece in its handle's memory and in its export: numbers, to be sent beside the
/// handle. All sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceRange {
    /// A number that the pieces of one export share.
    pub export: u64,
    /// Which piece of the export it is, from 0 on.
    pub index: u64,
    /// How many pieces the export has.
    pub count: u64,
    /// The size of the handle's memory, which can be mapped only as a whole.
    pub handle_bytes: u64,
    /// Where the piece begins in the handle's memory.
    pub offset: u64,
    /// The size of the piece.
    pub bytes: u64,
}

impl PieceRange {
    /// The numbers in the order of the fields, little-endian.
    pub fn to_bytes(self) -> [u8; 48] {
        let mut bytes = [0; 48];
        let Self { export, index, count, handle_bytes, offset, bytes: len } = self;
        let words = [export, index, count, handle_bytes, offset, len];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The numbers of [`to_bytes`](Self::to_bytes). What they say is checked when the piece is
    /// mapped.
    pub fn from_bytes(bytes: &[u8; 48]) -> Self {
        let mut words = [0; 6];
        let (chunks, _) = bytes.as_chunks::<8>();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        let [export, index, count, handle_bytes, offset, bytes] = words;
        Self { export, index, count, handle_bytes, offset, bytes }
    }
}

/// The sizes of the handles, if the pieces are those of one export in its order.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument), naming the piece.
pub(super) fn check(pieces: &[Piece]) -> Result<Vec<usize>, Error> {
    let Some(first) = pieces.first() else {
        return Err(Error::invalid_argument(NAME, "there are no pieces to import"));
    };
    let (export, count) = (first.range.export, pieces.len() as u64);
    let mut sizes = Vec::with_capacity(pieces.len());
    for (position, piece) in (0..count).zip(pieces) {
        let PieceRange { index, handle_bytes, offset, bytes, .. } = piece.range;
        let wrong = |what: String| {
            let message = format!("piece {position} of {count}: {what}");
            Error::invalid_argument(NAME, message)
        };
        if piece.range.export != export {
            return Err(wrong("it is of another export than the first".into()));
        }
        if piece.range.count != count {
            return Err(wrong(format!("its export has {} pieces", piece.range.count)));
        }
        if index != position {
            return Err(wrong(format!(
                "it is number {index} of the export: pass each once, in order"
            )));
        }
        let end = offset.checked_add(bytes).filter(|&end| bytes > 0 && end <= handle_bytes);
        let Some(end) = end else {
            let range = format!("{bytes} bytes from {offset} on");
            return Err(wrong(format!("{range} are no part of a handle of {handle_bytes} bytes")));
        };
        let is_joined =
            (position == 0 || offset == 0) && (position + 1 == count || end == handle_bytes);
        if !is_joined {
            return Err(wrong("it is not contiguous with its neighbours".into()));
        }
        let bytes = usize::try_from(handle_bytes);
        sizes.push(bytes.map_err(|_| wrong("it is larger than the address space".into()))?);
    }
    Ok(sizes)
}
