//! Memory sizes on the command line.

use std::str::FromStr;

use rmm_spec::bytes_of_unit;

/// A size of memory in bytes; not 0.
///
/// ```
/// use rmm_cli::args::MemorySize;
///
/// assert_eq!("24GiB".parse::<MemorySize>().map(MemorySize::bytes), Ok(24 << 30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize(u64);

impl MemorySize {
    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for MemorySize {
    type Err = &'static str;

    /// Takes a whole number, of bytes or of the unit behind it: `KiB`, `MiB`, `GiB` or `TiB`,
    /// powers of 1,024, or `kB`, `MB`, `GB` or `TB`, powers of 1,000, in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = bytes_of_unit(unit.trim_start())
            .ok_or("expected a size such as 24GiB, 512MB or a number of bytes")?;
        let number: u64 = number.parse().map_err(|_| {
            if digits == 0 { "expected a size such as 24GiB" } else { "the size is too large" }
        })?;
        match number.checked_mul(unit) {
            Some(0) => Err("the device needs some memory"),
            Some(bytes) => Ok(Self(bytes)),
            None => Err("the size is too large"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_or_without_a_unit() {
        let bytes = |text: &str| text.parse().map(MemorySize::bytes);
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("1KiB"), Ok(1 << 10));
        assert_eq!(bytes("512 mib"), Ok(512 << 20));
        assert_eq!(bytes("24GiB"), Ok(24 << 30));
        assert_eq!(bytes("2TiB"), Ok(2 << 40));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        for wrong in ["", "GiB", "1.5GiB", "-1", "1GX", "1 G", "0", "0MiB"] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
        for much in ["99999999999999999999", "99999999TiB"] {
            assert_eq!(bytes(much), Err("the size is too large"), "{much}");
        }
    }
}
