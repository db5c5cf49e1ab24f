//! Functions that the garbage collector calls, a distinct one for each class.

use std::hint::black_box;

/// Keeps the `__traverse__` of a class apart from those of other classes.
///
/// `PyO3` 0.30 gives every class a traverse function, and finds the one of its base by comparing
/// addresses along the chain of bases. The optimizer merges functions with equal code: where the
/// first and the third class of a chain have one address, and the second another, each calls the
/// other for ever. So the bases that others derive from have code of their own.
#[inline]
pub(crate) fn distinct(class: &'static str) {
    let _ignored = black_box(class);
}
