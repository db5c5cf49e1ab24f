//! Times of day, as logs have them, made into nanoseconds since the first event.

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;

/// Makes times of day into times since the first; a step back by more than half a day is midnight.
///
/// Threads write their rows a little out of order; a time before its predecessor's counts as that,
/// so times never decrease.
#[derive(Default)]
pub(super) struct Clock {
    /// Since the midnight before the first event.
    latest: u64,
    first: Option<u64>,
}

impl Clock {
    /// The time of the next event, in nanoseconds since the first; none if the text is no time.
    pub(super) fn next(&mut self, text: &str) -> Option<u64> {
        let of_day = nanos_of_day(text)?;
        let first = *self.first.get_or_insert(of_day);
        let midnight = self.latest - self.latest % DAY;
        let mut time = midnight.saturating_add(of_day);
        if time.saturating_add(DAY / 2) < self.latest {
            time = time.saturating_add(DAY);
        } else if time > self.latest.saturating_add(DAY - 60 * SECOND) && midnight > 0 {
            // Of the day before, written a moment late.
            time -= DAY;
        }
        self.latest = self.latest.max(time);
        Some(self.latest - first)
    }
}

/// The nanoseconds since midnight of `HH:MM:SS`, with a fraction behind a point (RMM, ours) or a
/// colon (RMM's parser).
fn nanos_of_day(text: &str) -> Option<u64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, fraction) = match rest.find(['.', ':']) {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, "0"),
    };
    let within = |text: &str, end: u64| {
        let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok())?.filter(|&number: &u64| number < end)
    };
    // A leap second is the 60th.
    let whole = (within(hours, 24)? * 60 + within(minutes, 60)?) * 60 + within(seconds, 61)?;
    Some((whole * SECOND + nanos(fraction)?).min(DAY - 1))
}

/// The digits behind the point, of which the first nine count.
fn nanos(fraction: &str) -> Option<u64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some(digits.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(texts: &[&str]) -> Vec<Option<u64>> {
        let mut clock = Clock::default();
        texts.iter().map(|text| clock.next(text)).collect()
    }

    #[test]
    fn the_forms_of_rmm_and_ours() {
        for (text, nanos) in [
            ("00:00:00.000001", Some(1000)),
            ("23:59:59:999999", Some(DAY - 1000)),
            ("01:02:03", Some(3723 * SECOND)),
            ("1:2:3.5", Some(3723 * SECOND + SECOND / 2)),
            ("00:00:00.1234567899", Some(123_456_789)),
            ("23:59:60.5", Some(DAY - 1)),
            ("24:00:00", None),
            ("00:60:00", None),
            ("00:00:61", None),
            ("00:00:+1", None),
            ("00:00:00.", None),
            ("00:00:00.1x", None),
            ("00:00", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(nanos_of_day(text), nanos, "{text:?}");
        }
    }

    #[test]
    fn times_count_from_the_first_and_go_over_midnight() {
        let second = |number: u64| Some(number * SECOND);
        assert_eq!(
            times(&["23:59:58", "23:59:59", "00:00:01", "23:59:59", "00:00:02", "13:00:00"]),
            [0, 1, 3, 3, 4, 46_802].map(second)
        );
        assert_eq!(times(&["10:00:00", "09:59:59", "10:00:01"]), [0, 0, 1].map(second));
        assert_eq!(times(&["10:00:00", "later", "10:00:02"]), [second(0), None, second(2)]);
    }

    #[test]
    fn any_number_of_midnights_is_no_panic() {
        let mut clock = Clock { latest: u64::MAX - 5, first: Some(1) };
        for text in ["23:00:00", "00:00:01", "23:00:00", "00:00:01"] {
            assert!(clock.next(text).is_some());
        }
    }
}
