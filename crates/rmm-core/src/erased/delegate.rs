//! Every call of a resource whose type is forgotten goes to the one inside.

/// Implements `SyncResource` for a type by that of `$target`, an expression of the value `$this`.
///
/// The tail says what the type is and knows: `pointee`, a pointer to `$target`, or `pointee of S`,
/// one that still knows the property set `S` of it; and `handle`, what an owned handle to it is, if
/// not that of `$target`.
macro_rules! delegate_sync {
    ([$($generics:tt)*] $type:ty, |$this:ident| $target:expr, pointee $(of $set:ident)?) => {
        delegate_sync!(
            [$($generics)*] $type, |$this| $target, pointee $(of $set)?, handle $target.to_any_sync()
        );
    };
    ([$($generics:tt)*] $type:ty, |$this:ident| $target:expr, pointee $(of $set:ident)?, handle $handle:expr) => {
        // SAFETY: every call goes to the one resource inside, which keeps the contract; what else
        // is told of its memory was checked when it was taken in.
        unsafe impl<$($generics)*> $crate::SyncResource for $type {
            fn allocate_sync(
                &self,
                layout: std::alloc::Layout,
            ) -> Result<$crate::DevicePtr, $crate::Error> {
                let $this = self;
                $target.allocate_sync(layout)
            }

            unsafe fn deallocate_sync(
                &self,
                pointer: $crate::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.deallocate_sync(pointer, layout) }
            }

            fn name(&self) -> &'static str {
                let $this = self;
                $target.name()
            }

            fn properties(&self, claims: &mut $crate::Claims<'_>) {
                let $this = self;
                $target.properties(claims);
                $(claims.every_one_of::<$set>();)?
            }

            fn upstream_resource(&self) -> Option<&(dyn $crate::SyncResource + 'static)>
            where
                Self: 'static,
            {
                let $this = self;
                $target.upstream_resource()
            }

            fn other_upstreams(&self) -> Vec<&(dyn $crate::SyncResource + 'static)>
            where
                Self: 'static,
            {
                let $this = self;
                $target.other_upstreams()
            }

            fn to_any_sync(&self) -> Option<$crate::AnySyncResource<()>>
            where
                Self: 'static,
            {
                let $this = self;
                $handle
            }

            fn as_extendable(&self) -> Option<&dyn $crate::ExtendableResource> {
                let $this = self;
                $target.as_extendable()
            }

            fn pointee(&self) -> Option<&(dyn $crate::SyncResource + 'static)>
            where
                Self: 'static,
            {
                let $this = self;
                Some($target.as_dyn())
            }
        }
    };
}

/// Implements `Resource` for a type by that of `$target`.
macro_rules! delegate_resource {
    ([$($generics:tt)*] $type:ty, |$this:ident| $target:expr) => {
        delegate_resource!([$($generics)*] $type, |$this| $target, handle $target.to_any());
    };
    ([$($generics:tt)*] $type:ty, |$this:ident| $target:expr, handle $handle:expr) => {
        // SAFETY: every call goes to the one resource inside, which keeps the contract.
        unsafe impl<$($generics)*> $crate::Resource for $type {
            fn do_allocate(
                &self,
                stream: $crate::StreamRef<'_>,
                layout: std::alloc::Layout,
            ) -> Result<$crate::DevicePtr, $crate::Error> {
                let $this = self;
                $target.do_allocate(stream, layout)
            }

            unsafe fn do_deallocate(
                &self,
                stream: $crate::StreamRef<'_>,
                pointer: $crate::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.do_deallocate(stream, pointer, layout) }
            }

            fn to_any(&self) -> Option<$crate::AnyResource<()>>
            where
                Self: 'static,
            {
                let $this = self;
                $handle
            }
        }
    };
}

pub(super) use {delegate_resource, delegate_sync};
