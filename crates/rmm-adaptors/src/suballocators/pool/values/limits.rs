//! Checks of the sizes and limits that a program sets.

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Error};

use super::policy::GrowthPolicy;

/// Checks that sizes are multiples of 256, a fixed step is not 0, and the initial size is within
/// the maximum.
///
/// # Errors
/// Invalid argument.
pub(crate) fn check_sizes(
    name: &'static str,
    initial: u64,
    maximum: Option<u64>,
    soft_maximum: Option<u64>,
    growth: GrowthPolicy,
) -> Result<(), Error> {
    let step = match growth {
        GrowthPolicy::FixedStep(0) => {
            return Err(Error::invalid_argument(name, "the growth step must not be 0 bytes"));
        }
        GrowthPolicy::FixedStep(step) => Some(step),
        GrowthPolicy::Geometric | GrowthPolicy::Exact => None,
    };
    let sizes = [
        ("initial", Some(initial)),
        ("maximum", maximum),
        ("soft maximum", soft_maximum),
        ("step's", step),
    ];
    for (what, size) in sizes {
        if let Some(size) = size {
            check_multiple(name, what, size)?;
        }
    }
    match maximum {
        Some(maximum) if initial > maximum => {
            let message =
                format!("the initial size, {initial}, is above the maximum size, {maximum}");
            Err(Error::invalid_argument(name, message))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// Invalid argument, if the size is no multiple of 256.
fn check_multiple(name: &'static str, what: &str, size: u64) -> Result<(), Error> {
    if size.is_multiple_of(CUDA_ALLOCATION_ALIGNMENT as u64) {
        return Ok(());
    }
    let message = format!("the {what} size, {size}, is no multiple of {CUDA_ALLOCATION_ALIGNMENT}");
    Err(Error::invalid_argument(name, message))
}

/// Rounds a maximum size down to whole pages. It has to be 0, which refuses every request, or to
/// have room for a page, or for the pages of a block if all blocks are of one size.
///
/// # Errors
/// Invalid argument.
pub(crate) fn usable_maximum(
    name: &'static str,
    maximum: u64,
    block: Option<u64>,
    page: u64,
) -> Result<u64, Error> {
    check_multiple(name, "maximum", maximum)?;
    let least = block.unwrap_or(page).checked_next_multiple_of(page).unwrap_or(u64::MAX);
    if maximum == 0 || maximum >= least {
        return Ok(maximum / page * page);
    }
    let message = format!(
        "the maximum size, {maximum}, has room for nothing: upstream allocates multiples of \
         {page} bytes, so set {least} or more"
    );
    Err(Error::invalid_argument(name, message))
}
