//! How memory is to be aligned, asked of what it is for.

use std::alloc::Layout;

use crate::Error;

/// Something that says how memory is to be aligned: a number of bytes, a [`Layout`], a container to
/// make another one like, or what a program keeps its settings in. [`allocation_alignment`] asks
/// and checks.
///
/// ```
/// use rmm_core::{HasAllocationAlignment, allocation_alignment};
///
/// struct Settings {
///     page: usize,
/// }
/// impl HasAllocationAlignment for Settings {
///     fn allocation_alignment(&self) -> usize {
///         self.page
///     }
/// }
///
/// assert_eq!(allocation_alignment::<f32>(&Settings { page: 4096 })?, 4096);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cuda::allocation_alignment_t")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how memory is to be aligned",
    note = "a `usize` in bytes and a `Layout` do, and so does whatever implements `HasAllocationAlignment`"
)]
pub trait HasAllocationAlignment {
    /// The alignment in bytes, as wished for: nobody has checked it.
    fn allocation_alignment(&self) -> usize;
}

impl HasAllocationAlignment for usize {
    fn allocation_alignment(&self) -> usize {
        *self
    }
}

impl HasAllocationAlignment for Layout {
    fn allocation_alignment(&self) -> usize {
        self.align()
    }
}

/// Asks what a pointer points to.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<E: HasAllocationAlignment + ?Sized> HasAllocationAlignment for $pointer {
            fn allocation_alignment(&self) -> usize {
                (**self).allocation_alignment()
            }
        }
    )*};
}

forward!(&E, Box<E>, std::sync::Arc<E>);

/// The alignment in bytes that `environment` asks for, checked to be one that elements of type `T`
/// can lie at.
///
/// Whether a resource honours it is the resource's to say: every one honours up to
/// [`CUDA_ALLOCATION_ALIGNMENT`](crate::CUDA_ALLOCATION_ALIGNMENT).
///
/// ```
/// use rmm_core::allocation_alignment;
///
/// assert_eq!(allocation_alignment::<f64>(&512)?, 512);
/// let error = allocation_alignment::<f64>(&4).unwrap_err();
/// assert!(error.is_invalid_argument());
/// assert_eq!(error.to_string(), "invalid argument to allocation_alignment: 4 bytes are less than the 8 of `f64`");
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if it is no power of two, or
/// less than `T`'s own.
#[doc(alias = "cuda::allocation_alignment")]
pub fn allocation_alignment<T>(
    environment: &(impl HasAllocationAlignment + ?Sized),
) -> Result<usize, Error> {
    let (asked, own) = (environment.allocation_alignment(), align_of::<T>());
    let message = if !asked.is_power_of_two() {
        format!("{asked} bytes are no power of two")
    } else if asked < own {
        format!("{asked} bytes are less than the {own} of `{}`", std::any::type_name::<T>())
    } else {
        return Ok(asked);
    };
    Err(Error::invalid_argument("allocation_alignment", message))
}
