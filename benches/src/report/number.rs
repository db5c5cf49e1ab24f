//! Numbers as people read them.

#![forbid(unsafe_code)]

/// Three digits, or all before the point.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = if size >= 99.95 { 0 } else { usize::from(size < 9.995) + 1 };
    format!("{value:.digits$}")
}

/// A tick of an axis: no more digits than it has.
pub(super) fn tick(value: f64) -> String {
    if value >= 1000.0 && value % 1000.0 == 0.0 {
        format!("{},000", value / 1000.0)
    } else {
        format!("{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let shown = [0.034, 1.0, 9.994, 9.996, 47.25, 99.96, 37_115.4].map(short);
        assert_eq!(shown, ["0.03", "1.00", "9.99", "10.0", "47.2", "100", "37115"]);
    }

    #[test]
    fn a_tick_has_its_own_digits() {
        assert_eq!([0.5, 1.0, 200.0, 10_000.0].map(tick), ["0.5", "1", "200", "10,000"]);
    }
}
