//! What a pool does beyond allocation, whatever its upstream.

use std::any::Any;

use rmm_adaptors::{PoolMemoryResource, Pressure, PressureCallback, Reservation, SleepOptions};
use rmm_core::{AnyResource, Error, Introspect as _, SyncResource};
use rmm_resources::{BackingMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use crate::failure::Failure;
use crate::find;
use crate::resource::Resource;

/// A pool.
pub(crate) trait Control {
    /// # Safety
    /// As for [`PoolMemoryResource::sleep`].
    unsafe fn sleep(&self, options: SleepOptions<'_>) -> Result<u64, Error>;
    fn wake(&self) -> Result<u64, Error>;
    fn is_asleep(&self) -> bool;
    fn reserve(&self, bytes: u64) -> Result<AnyResource<()>, Error>;
    fn on_pressure(&self, callback: Box<Callback>) -> PressureCallback;
}

/// Returns whether it has freed memory.
pub(crate) type Callback = dyn Fn(&Pressure<'_>) -> bool + Send + Sync;

impl<U: SyncResource + 'static> Control for PoolMemoryResource<U> {
    unsafe fn sleep(&self, options: SleepOptions<'_>) -> Result<u64, Error> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.sleep_with(options) }
    }

    fn wake(&self) -> Result<u64, Error> {
        self.wake()
    }

    fn is_asleep(&self) -> bool {
        self.is_asleep()
    }

    fn reserve(&self, bytes: u64) -> Result<AnyResource<()>, Error> {
        self.reserve(bytes).map(AnyResource::new)
    }

    fn on_pressure(&self, callback: Box<Callback>) -> PressureCallback {
        self.on_pressure(callback)
    }
}

/// The first answer that is something, asked for each upstream of the pools that this crate and
/// specifications make.
macro_rules! first_of {
    (|$upstream:ident| $ask:expr) => {
        first_of!(@ $upstream, $ask, AnyResource BackingMemoryResource CudaMemoryResource VirtualMemoryResource)
    };
    (@ $upstream:ident, $ask:expr, $($type:ident)*) => {
        None$(.or_else(|| {
            type $upstream = $type;
            $ask
        }))*
    };
}

/// The first pool of a stack.
pub(crate) fn pool_in(resource: &Resource) -> Result<&dyn Control, Failure> {
    let any = &resource.any;
    let pool = first_of!(|U| any.find::<PoolMemoryResource<U>>().map(|pool| pool as &dyn Control));
    pool.ok_or_else(|| find::none(resource, "is a pool"))
}

/// A handle to a pool that something below a resource is.
pub(crate) fn erased(pool: &dyn Any) -> Option<AnyResource<()>> {
    first_of!(|U| pool.downcast_ref::<PoolMemoryResource<U>>().map(AnyResource::of))
}

/// A reservation.
pub(crate) trait Reserved {
    fn remaining(&self) -> u64;
    fn release(&self) -> u64;
}

impl<U: SyncResource> Reserved for Reservation<U> {
    fn remaining(&self) -> u64 {
        self.remaining()
    }

    fn release(&self) -> u64 {
        self.release()
    }
}

/// The reservation that a resource is.
pub(crate) fn reservation(resource: &Resource) -> Result<&dyn Reserved, Failure> {
    let any = &resource.any;
    let found = first_of!(|U| any.downcast_ref::<Reservation<U>>().map(|it| it as &dyn Reserved));
    found.ok_or_else(|| Failure::refused("the resource is no reservation"))
}
