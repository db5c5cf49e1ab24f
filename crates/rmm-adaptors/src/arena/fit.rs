//! The first of many numbers that is large enough.

#![forbid(unsafe_code)]

/// Numbers that are compared at once.
const LANES: usize = 16;

/// The index of the first number that is at least `wanted`.
#[inline]
pub(super) fn first_fit(numbers: &[u16], wanted: u16) -> Option<usize> {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for (index, chunk) in chunks.iter().enumerate() {
        // Without a branch for each, so that the processor compares them together.
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
    fn the_first_is_found_wherever_it_is() {
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
