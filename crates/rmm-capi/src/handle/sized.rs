//! Structures that begin with their size, so that they can grow.

use std::mem::{MaybeUninit, size_of};
use std::ptr;

use crate::handle::failure::Failure;

/// A structure whose first field is its size in bytes, as the caller's header has it.
///
/// # Safety
/// The type is `repr(C)`, its first field is a `usize`, no pointer in it crosses a multiple of that
/// field's size, all its bytes may be 0, and every value of its other fields' bytes that a C
/// program can write is a valid one.
pub(crate) unsafe trait Sized: Copy {}

/// The size that the structure's first field says.
///
/// # Safety
/// `structure` points to such a structure of the caller, whose first field can be read.
unsafe fn size_said<T: Sized>(what: &str, structure: *const T) -> Result<usize, Failure> {
    if structure.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: the first field is a `usize` that can be read. It need not be aligned.
    let size = unsafe { structure.cast::<usize>().read_unaligned() };
    // The first field aligns the structure. So a size that C gives it cuts no pointer in two.
    if size < size_of::<usize>() || !size.is_multiple_of(size_of::<usize>()) {
        return Err(Failure::invalid(format!(
            "the field `size` of {what} is {size}: set it to the structure's size in bytes"
        )));
    }
    Ok(size.min(size_of::<T>()))
}

/// Reads what the caller's structure has; the rest is 0.
///
/// # Safety
/// `structure` is null or points to a structure of as many bytes as its first field says.
pub(crate) unsafe fn read<T: Sized>(what: &str, structure: *const T) -> Result<T, Failure> {
    // SAFETY: the caller's contract.
    let size = unsafe { size_said(what, structure) }?;
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: both have at least `size` bytes, and `copy` is this function's own.
    unsafe { ptr::copy_nonoverlapping(structure.cast::<u8>(), copy.as_mut_ptr().cast(), size) };
    // SAFETY: zeros and bytes of C, which the trait says are valid.
    Ok(unsafe { copy.assume_init() })
}

/// Checks that [`write`] would succeed: for functions that change something first.
///
/// # Safety
/// As for [`write`].
pub(crate) unsafe fn check<T: Sized>(what: &str, structure: *const T) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    unsafe { size_said(what, structure) }.map(drop)
}

/// Writes the fields that the caller's structure has, but for its size.
///
/// # Safety
/// `structure` is null or points to a structure of as many bytes as its first field says, which may
/// be written to.
pub(crate) unsafe fn write<T: Sized>(
    what: &str,
    structure: *mut T,
    value: &T,
) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    let size = unsafe { size_said(what, structure) }?;
    let first = size_of::<usize>();
    // SAFETY: the value has more bytes than its first field.
    let from = unsafe { ptr::from_ref(value).cast::<u8>().add(first) };
    // SAFETY: so has the caller's structure.
    let to = unsafe { structure.cast::<u8>().add(first) };
    // SAFETY: both have at least `size` bytes in all, of which `first` were skipped; the value is
    // this library's, so they do not overlap.
    unsafe { ptr::copy_nonoverlapping(from, to, size - first) };
    Ok(())
}
