//! Number formatting.

#![forbid(unsafe_code)]

/// Three digits, or all before the point.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = if size >= 99.95 { 0 } else { usize::from(size < 9.995) + 1 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let shown = [0.034, 1.0, 9.994, 9.996, 47.25, 99.96, 37_115.4].map(short);
        assert_eq!(shown, ["0.03", "1.00", "9.99", "10.0", "47.2", "100", "37115"]);
    }
}
