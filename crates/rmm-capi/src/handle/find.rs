//! The pool and the adaptors in a stack.

use rmm_adaptors::{PoolMemoryResource, Reservation};
use rmm_core::{Introspect as _, SynchronousResource as _};

use crate::handle::failure::Failure;
use crate::handle::resource::ResourceHandle;

/// Calls `$act` with the first such adaptor of a stack, as a `Result`: over either type of
/// upstream, which this crate's have and which those of specifications have.
macro_rules! with_adaptor {
    ($resource:expr, $adaptor:ident, $does:expr, |$this:ident| $act:expr) => {{
        use rmm_core::{AnyResource, Introspect as _};
        let resource: &crate::handle::resource::ResourceHandle = $resource;
        if let Some($this) = resource.any.find::<$adaptor<AnyResource<()>>>() {
            Ok($act)
        } else if let Some($this) = resource.any.find::<$adaptor<AnyResource>>() {
            Ok($act)
        } else {
            Err(crate::handle::find::none(resource, $does))
        }
    }};
}
pub(crate) use with_adaptor;

/// The first pool of a stack, whatever its memory.
pub(crate) fn pool_in(resource: &ResourceHandle) -> Result<&PoolMemoryResource<()>, Failure> {
    resource.any.find().ok_or_else(|| none(resource, "is a pool"))
}

/// The reservation that a resource is.
pub(crate) fn reservation(resource: &ResourceHandle) -> Result<&Reservation<()>, Failure> {
    let refused = || Failure::refused("the resource is no reservation");
    resource.any.downcast_ref().ok_or_else(refused)
}

/// No resource of the stack does this.
#[cold]
pub(crate) fn none(resource: &ResourceHandle, does: &str) -> Failure {
    let name = resource.any.name();
    Failure::refused(format!("neither `{name}` nor a resource below it {does}"))
}
