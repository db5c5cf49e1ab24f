//! Shapes and strides of compact row-major tensors.

use rmm_core::Error;

/// The strides of a compact row-major tensor, in elements.
pub(crate) fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut stride = 1;
    let mut strides: Vec<i64> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let own = stride;
            stride *= extent.max(1);
            own
        })
        .collect();
    strides.reverse();
    strides
}

/// The number of elements.
///
/// # Errors
/// `InvalidArgument` if an extent is negative, or the product of those that are not 0 overflows.
pub(crate) fn count(origin: &'static str, shape: &[i64]) -> Result<usize, Error> {
    let multiply = |product: Option<i64>, &extent: &i64| product?.checked_mul(extent.max(1));
    let fits = shape.iter().fold(Some(1), multiply).and_then(|all| usize::try_from(all).ok());
    match fits {
        Some(count) if shape.iter().all(|&extent| extent >= 0) => {
            Ok(if shape.contains(&0) { 0 } else { count })
        }
        _ => Err(Error::invalid_argument(origin, format!("the shape {shape:?}"))),
    }
}

/// Whether a tensor of this shape is compact and row-major. The strides of dimensions of one
/// element mean nothing, and neither do those of a tensor without elements.
pub(crate) fn is_row_major(shape: &[i64], strides: &[i64]) -> bool {
    let expected = row_major(shape);
    let mut dimensions = shape.iter().zip(strides).zip(&expected);
    shape.contains(&0)
        || dimensions.all(|((&extent, stride), expected)| extent == 1 || stride == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_products_of_the_inner_extents() {
        assert_eq!(row_major(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(row_major(&[2, 0, 4]), [4, 4, 1]);
        assert!(row_major(&[]).is_empty());
    }

    #[test]
    fn shapes_are_counted_or_refused() {
        assert_eq!(count("it", &[2, 3]).unwrap(), 6);
        assert_eq!(count("it", &[]).unwrap(), 1);
        assert_eq!(count("it", &[5, 0]).unwrap(), 0);
        for wrong in [&[-1, 2][..], &[0, -1], &[i64::MAX, 2], &[i64::MAX, 2, 0]] {
            let refused = count("it", wrong);
            // A negative extent beside a 0 is still no shape.
            assert!(refused.is_err(), "{wrong:?}: {refused:?}");
        }
    }

    #[test]
    fn extents_of_one_have_any_stride() {
        assert!(is_row_major(&[1, 3], &[77, 1]));
        assert!(is_row_major(&[3, 0], &[5, 5]));
        assert!(!is_row_major(&[3, 2], &[1, 3]));
        assert!(!is_row_major(&[3], &[2]));
        assert!(is_row_major(&[], &[]));
    }
}
