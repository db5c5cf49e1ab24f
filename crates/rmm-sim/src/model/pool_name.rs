//! Names of exported pools and of their allocations, as other processes receive them.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

/// The prefix of all names.
const MAGIC: [u8; 8] = *b"rmm-sim\0";
/// The length of a name in bytes.
pub(crate) const NAME: usize = 64;

/// The name of an exported pool (in the file of its shareable handle), or of an allocation of it
/// (in `CUmemPoolPtrExportData`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) machine: u32,
    pub(crate) pool: u64,
    /// The allocation's id and address; 0 for the pool itself.
    pub(crate) allocation: (u64, usize),
}

impl Name {
    pub(crate) fn to_bytes(self) -> [u8; NAME] {
        let words = [
            u64::from_ne_bytes(MAGIC),
            u64::from(std::process::id()),
            u64::from(self.machine),
            self.pool,
            self.allocation.0,
            self.allocation.1 as u64,
            0,
            0,
        ];
        let mut bytes = [0; NAME];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// # Errors
    /// `INVALID_VALUE` for bytes that are no name of this process.
    pub(crate) fn from_bytes(bytes: &[u8; NAME]) -> Result<Self, CuResult> {
        let (words, _) = bytes.as_chunks::<8>();
        let mut numbers = [0; NAME / 8];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u64::from_ne_bytes(*word);
        }
        let [magic, process, machine, pool, id, start, 0, 0] = numbers else {
            return Err(CuResult::INVALID_VALUE);
        };
        if magic != u64::from_ne_bytes(MAGIC) || process != u64::from(std::process::id()) {
            return Err(CuResult::INVALID_VALUE);
        }
        let invalid = |_| CuResult::INVALID_VALUE;
        let machine = u32::try_from(machine).map_err(invalid)?;
        let start = usize::try_from(start).map_err(invalid)?;
        Ok(Self { machine, pool, allocation: (id, start) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_altered_ones_are_invalid() {
        let name = Name { machine: 3, pool: 70, allocation: (9, 0x7000) };
        let bytes = name.to_bytes();
        assert_eq!(Name::from_bytes(&bytes), Ok(name));
        assert_eq!(Name::from_bytes(&[0; NAME]), Err(CuResult::INVALID_VALUE));
        for at in [0, 8, 63] {
            let mut altered = bytes;
            altered[at] ^= 1;
            assert_eq!(Name::from_bytes(&altered), Err(CuResult::INVALID_VALUE), "byte {at}");
        }
    }
}
