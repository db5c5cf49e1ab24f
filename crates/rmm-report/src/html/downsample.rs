//! Downsampling of a timeline that keeps its peaks.

use crate::results::Sample;

/// The most points that are drawn. More would be less than a pixel apart.
pub(super) const MAX_POINTS: usize = 2000;

/// At most [`MAX_POINTS`] of the samples, in order: the first, the last, and of each of equally
/// long stretches the one with the most live and the one with the most reserved bytes. Shorter
/// timelines are kept as they are.
pub(super) fn downsample(samples: &[Sample]) -> Vec<Sample> {
    if samples.len() <= MAX_POINTS {
        return samples.to_vec();
    }
    let [first, inner @ .., last] = samples else { return samples.to_vec() };
    let stretches = (MAX_POINTS - 2) / 2;
    let mut kept = vec![*first];
    for stretch in inner.chunks(inner.len().div_ceil(stretches)) {
        let live = highest(stretch, |sample| sample.live_bytes);
        let reserved = highest(stretch, |sample| sample.reserved_bytes);
        kept.extend(stretch.get(live.min(reserved)));
        if live != reserved {
            kept.extend(stretch.get(live.max(reserved)));
        }
    }
    kept.push(*last);
    kept
}

/// The index of the first sample for which `height` is greatest.
fn highest(samples: &[Sample], height: impl Fn(&Sample) -> u64) -> usize {
    let mut best = (0, 0);
    for (i, sample) in samples.iter().enumerate() {
        if height(sample) > best.1 {
            best = (i, height(sample));
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(heights: Vec<(u32, u32)>) -> Vec<Sample> {
        let sample = |(event, (live, reserved)): (u64, (u32, u32))| Sample {
            event,
            live_bytes: live.into(),
            reserved_bytes: reserved.into(),
        };
        (0..).zip(heights).map(sample).collect()
    }

    #[test]
    fn a_short_timeline_is_kept() {
        let all = samples(vec![(1, 2); MAX_POINTS]);
        assert_eq!(downsample(&all), all);
        assert_eq!(downsample(&[]), []);
    }

    proptest! {
        #[test]
        fn peaks_ends_and_order_are_kept(heights in prop::collection::vec((0..9_u32, 0..9_u32), 0..9000),
                                         spike in (any::<prop::sample::Index>(), any::<prop::sample::Index>())) {
            let mut all = samples(heights);
            if !all.is_empty() {
                spike.0.get_mut(&mut all).live_bytes = 100;
                spike.1.get_mut(&mut all).reserved_bytes = 100;
            }
            let kept = downsample(&all);
            prop_assert!(kept.len() <= MAX_POINTS);
            prop_assert!(kept.is_sorted_by(|a, b| a.event < b.event));
            prop_assert_eq!(kept.first(), all.first());
            prop_assert_eq!(kept.last(), all.last());
            for height in [|sample: &Sample| sample.live_bytes, |sample: &Sample| sample.reserved_bytes] {
                prop_assert_eq!(kept.iter().map(height).max(), all.iter().map(height).max());
            }
        }
    }
}
