//! The signature of a function in machine code: how many values there are, and how big each is.

use std::mem::{align_of, size_of};

/// Size and alignment of one value, in bytes.
pub(crate) type Layout = (usize, usize);

/// A function pointer type.
pub(crate) trait Signature: Copy {
    /// The layouts of the arguments in order, and then that of the result.
    const LAYOUTS: &'static [Layout];
}

macro_rules! signatures {
    ($([$($argument:ident)*])*) => {$(
        impl<$($argument,)* R> Signature for unsafe extern "C" fn($($argument),*) -> R {
            const LAYOUTS: &'static [Layout] =
                &[$((size_of::<$argument>(), align_of::<$argument>()),)* (size_of::<R>(), align_of::<R>())];
        }

        // The oracle's functions wrap the driver's, with the same arguments but Rust's own calling
        // convention.
        impl<$($argument,)* R> Signature for unsafe fn($($argument),*) -> R {
            const LAYOUTS: &'static [Layout] =
                &[$((size_of::<$argument>(), align_of::<$argument>()),)* (size_of::<R>(), align_of::<R>())];
        }
    )*};
}

signatures! {
    []
    [A]
    [A B]
    [A B C]
    [A B C D]
    [A B C D E]
    [A B C D E F]
    [A B C D E F G]
    [A B C D E F G H]
    [A B C D E F G H I]
    [A B C D E F G H I J]
    [A B C D E F G H I J K]
}

/// The layouts of the type of `_function`, which saves its caller from writing that type.
pub(crate) const fn layouts_of<F: Signature>(_function: F) -> &'static [Layout] {
    F::LAYOUTS
}

/// Whether two functions are called alike.
pub(crate) const fn agree(ours: &[Layout], theirs: &[Layout]) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    let mut index = 0;
    while index < ours.len() {
        if ours[index].0 != theirs[index].0 || ours[index].1 != theirs[index].1 {
            return false;
        }
        index += 1;
    }
    true
}

// The comparison itself can distinguish functions.
const _: () = {
    type Narrow = unsafe extern "C" fn(u32, u64) -> u32;
    type Wide = unsafe fn(u64, u64) -> u32;
    type Short = unsafe fn(u32) -> u32;
    type Same = unsafe fn(i32, *mut u8) -> i32;
    assert!(agree(Narrow::LAYOUTS, Same::LAYOUTS));
    assert!(!agree(Narrow::LAYOUTS, Wide::LAYOUTS));
    assert!(!agree(Narrow::LAYOUTS, Short::LAYOUTS));
};
