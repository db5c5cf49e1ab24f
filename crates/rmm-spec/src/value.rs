//! Values of options: sizes, numbers, switches, ranges.

use std::ops::RangeInclusive;

use rmm_adaptors::LogColumn;
use rmm_resources::Budget;

/// The bytes of a unit by its name: `KiB` to `TiB` are powers of 1,024, `kB` to `TB` powers of
/// 1,000, and none is one byte. In any case, but that of bits: `Gb`.
#[doc(hidden)]
pub fn bytes_of_unit(name: &str) -> Option<u64> {
    if name.ends_with('b') && name.starts_with(|letter: char| letter.is_ascii_uppercase()) {
        return None;
    }
    Some(match name.to_ascii_lowercase().as_str() {
        "" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// A whole number of bytes (`B` or nothing behind it), or of the [unit](bytes_of_unit) behind it.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = if unit.eq_ignore_ascii_case("b") { "" } else { unit };
    let Some(unit) = bytes_of_unit(unit) else {
        return Err("expected a size such as 24GiB, 512MB or a number of bytes".to_owned());
    };
    if digits == 0 {
        return Err("expected a size such as 24GiB".to_owned());
    }
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    bytes.ok_or_else(|| "the size is too large".to_owned())
}

/// A [`size`], or a percentage of the device's free memory (`90%`) or of the host's (`50%host`).
pub(crate) fn budget(text: &str) -> Result<Budget, String> {
    let Some((number, of)) = text.split_once('%') else { return size(text).map(Budget::bytes) };
    let expected = || "expected a percentage such as 90% or 50%host".to_owned();
    let percent: f64 = number.parse().map_err(|_| expected())?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(expected());
    }
    match of {
        "" => Ok(Budget::free_fraction(percent / 100.0)),
        "host" => Ok(Budget::host_fraction(percent / 100.0)),
        _ => Err(expected()),
    }
}

/// A [`size`] that fits a `usize`: a size or an alignment that is part of a
/// [`Layout`](std::alloc::Layout).
pub(crate) fn layout_size(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| "the size is too large".to_owned())
}

pub(crate) fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

pub(crate) fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a whole number below 2^32".to_owned())
}

pub(crate) fn is_on(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// Powers of two, the last one included: `18..22`.
pub(crate) fn powers(text: &str) -> Result<RangeInclusive<u32>, String> {
    let expected = || "expected two powers of two, such as 18..22".to_owned();
    let (first, last) = text.split_once("..").ok_or_else(expected)?;
    let power = |text: &str| text.parse::<u32>().map_err(|_| expected());
    let (first, last) = (power(first)?, power(last)?);
    if first > last || last >= u64::BITS {
        return Err(format!("{first}..{last} is not an ascending range of exponents below 64"));
    }
    Ok(first..=last)
}

/// Columns of a log beyond RMM's: `all`, or names with commas between them.
pub(crate) fn columns(text: &str) -> Result<Vec<LogColumn>, String> {
    if text == "all" {
        return Ok(LogColumn::ALL.into());
    }
    let named = text.split(',').map(|name| {
        let expected = || "expected all, or of \"tag,site,device\"".to_owned();
        LogColumn::named(name.trim()).ok_or_else(expected)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_or_decimal_units_and_do_not_overflow() {
        let good = [("0", 0), ("4096", 4096), ("7b", 7), ("1KiB", 1 << 10), ("2tib", 2 << 40)];
        let decimal = [("1GB", 1_000_000_000), ("3kb", 3_000), ("2TB", 2_000_000_000_000)];
        for (text, bytes) in good.into_iter().chain(decimal) {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        let bits = ["8Gb", "1Mb", "1Kb", "2Tib"];
        let other = ["", "GiB", "1G", "1.5GiB", "-1", "16777216TiB", "99999999999999999999"];
        for text in bits.into_iter().chain(other) {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn budgets_are_bytes_or_percentages() {
        assert_eq!(budget("1KiB"), Ok(Budget::bytes(1024)));
        assert_eq!(budget("90%"), Ok(Budget::free_fraction(0.9)));
        assert_eq!(budget("12.5%host"), Ok(Budget::host_fraction(0.125)));
        for text in ["%", "101%", "-1%", "50%disk", "x%", "nan%"] {
            assert!(budget(text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_are_named_or_all() {
        assert_eq!(columns("all"), Ok(LogColumn::ALL.into()));
        assert_eq!(columns("device, Tag"), Ok(vec![LogColumn::Device, LogColumn::Tag]));
        for text in ["", "tag,", "thread"] {
            assert!(columns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn powers_are_in_order_and_can_be_shifted_by() {
        assert_eq!(powers("18..22"), Ok(18..=22));
        for text in ["18", "22..18", "1..64", "a..b", ".."] {
            assert!(powers(text).is_err(), "{text}");
        }
    }
}
