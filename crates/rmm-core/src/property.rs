//! What memory can do, as types.

use std::fmt::Debug;

/// A property that a resource's memory may have: a marker type. Users may add their own.
pub trait Property: Debug + Copy + Send + Sync + 'static {
    /// The property's name, for messages.
    const NAME: &'static str;
}

/// Work on the device may read and write the memory.
#[doc(alias = "cuda::mr::device_accessible")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceAccessible;

/// The host may read and write the memory.
#[doc(alias = "cuda::mr::host_accessible")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostAccessible;

impl Property for DeviceAccessible {
    const NAME: &'static str = "device-accessible";
}

impl Property for HostAccessible {
    const NAME: &'static str = "host-accessible";
}

/// A type whose memory has the property `P`.
///
/// # Safety
/// All memory that the type hands out has the property for as long as it is allocated: code that relies on it touches the
/// memory without asking again.
#[doc(alias = "cuda::has_property")]
#[diagnostic::on_unimplemented(
    message = "the memory of `{Self}` is not known to have the property `{P}`",
    note = "a resource claims what its memory can do by implementing `HasProperty`"
)]
pub unsafe trait HasProperty<P: Property> {}

/// Forwards every property through pointers to a resource.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // SAFETY: it is the same resource, and so the same memory.
        unsafe impl<P: Property, R: HasProperty<P> + ?Sized> HasProperty<P> for $pointer {}
    )*};
}

forward!(&R, Box<R>, std::sync::Arc<R>);
