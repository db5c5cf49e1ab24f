//! First-fit search in an array of sizes, with SIMD instructions.

#![forbid(unsafe_code)]

/// Sizes that are compared together.
const LANES: usize = 16;

/// The index of the first size that is at least `wanted`.
#[inline]
pub(super) fn first_fit(numbers: &[u16], wanted: u16) -> Option<usize> {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for (index, chunk) in chunks.iter().enumerate() {
        // One maximum instead of a branch for each, so that the compiler vectorizes the comparison.
        if chunk.iter().copied().fold(0, u16::max) >= wanted {
            return Some(index * LANES + position(chunk, wanted)?);
        }
    }
    Some(chunks.len() * LANES + position(rest, wanted)?)
}

fn position(numbers: &[u16], wanted: u16) -> Option<usize> {
    numbers.iter().position(|&number| number >= wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fit_is_found_at_any_index() {
        for length in 0..70 {
            for first in 0..length {
                let numbers: Vec<u16> =
                    (0..length).map(|index| if index < first { 6 } else { 7 }).collect();
                assert_eq!(first_fit(&numbers, 7), Some(first));
            }
            assert_eq!(first_fit(&vec![6; length], 7), None);
        }
    }
}
