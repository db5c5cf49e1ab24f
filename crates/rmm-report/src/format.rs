//! Number formatting, the same in the terminal and in the HTML report.

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 event`, `1,234 events`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// A size without its unit: MiB with one decimal, rounded to nearest.
pub fn mib(bytes: u64) -> String {
    decimal(bytes, MIB, 1)
}

/// A size with the unit that suits it, from bytes to GiB.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..MIB => format!("{} KiB", decimal(bytes, 1024, 1)),
        MIB..GIB => format!("{} MiB", decimal(bytes, MIB, 1)),
        _ => format!("{} GiB", decimal(bytes, GIB, 2)),
    }
}

/// `bytes / unit` with `places` decimals, computed in integers: a float is not exact for large
/// sizes.
fn decimal(bytes: u64, unit: u64, places: u32) -> String {
    let scale = 10_u128.pow(places);
    let scaled = (u128::from(bytes) * scale + u128::from(unit) / 2) / u128::from(unit);
    let whole = u64::try_from(scaled / scale).unwrap_or(u64::MAX);
    format!("{}.{:0width$}", thousands(whole), scaled % scale, width = places as usize)
}

/// A float with thousands separators and `places` decimals; infinity and NaN as a dash.
pub fn float(number: f64, places: usize) -> String {
    if !number.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{number:.places$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    match whole.parse() {
        Ok(whole) if fraction.is_empty() => thousands(whole),
        Ok(whole) => format!("{}.{fraction}", thousands(whole)),
        // Negative, or beyond 64 bits: shown as it is.
        Err(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let shown = [0, 999, 1_000, 12_345, 1_234_567, u64::MAX].map(thousands);
        assert_eq!(
            shown,
            ["0", "999", "1,000", "12,345", "1,234,567", "18,446,744,073,709,551,615"]
        );
    }

    #[test]
    fn sizes_round_to_nearest() {
        assert_eq!(mib(9_418_272_512), "8,982.0");
        assert_eq!(mib(MIB / 20 - 1), "0.0");
        assert_eq!(mib(MIB / 20 + 1), "0.1");
        assert_eq!(mib(u64::MAX), "17,592,186,044,416.0");
        let shown = [0, 1023, 1024, MIB - 1, MIB, GIB - 1, 9_418_272_512].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1,024.0 KiB", "1.0 MiB", "1,024.0 MiB", "8.77 GiB"]
        );
    }

    #[test]
    fn floats_keep_their_decimals() {
        assert_eq!(float(1234.56, 1), "1,234.6");
        assert_eq!(float(1234.56, 0), "1,235");
        assert_eq!(float(-3.25, 1), "-3.2");
        assert_eq!(float(f64::NAN, 1), "-");
        assert_eq!(float(1e30, 0), "1000000000000000019884624838656");
    }
}
