//! Macros that implement the resource traits by forwarding to an inner resource.

/// Implements `SynchronousResource` for a type that is a pointer to `$target`, an expression of the
/// value `$this`.
///
/// The tail adds to what `$target` provides: `of S`, the properties in the set `S`; `handle`, an
/// expression of an owned handle, if it is not that of `$target`.
macro_rules! delegate_sync {
    ([$($generics:tt)*] $type:ty, |$this:ident| $target:expr $(, of $set:ident)?) => {
        delegate_sync!(
            [$($generics)*] $type, |$this| $target $(, of $set)?, handle $target.to_any_sync()
        );
    };
    (
        [$($generics:tt)*] $type:ty, |$this:ident| $target:expr
        $(, of $set:ident)?, handle $handle:expr
    ) => {
        // SAFETY: every call goes to the one resource inside, which keeps the contract; the
        // properties in the set were checked when the value was made.
        unsafe impl<$($generics)*> $crate::SynchronousResource for $type {
            fn do_allocate_sync(
                &self,
                layout: std::alloc::Layout,
            ) -> Result<$crate::DevicePtr, $crate::Error> {
                let $this = self;
                $target.do_allocate_sync(layout)
            }

            unsafe fn do_deallocate_sync(
                &self,
                pointer: $crate::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.do_deallocate_sync(pointer, layout) }
            }

            fn name(&self) -> &'static str {
                let $this = self;
                $target.name()
            }

            fn structure(&self) -> $crate::Structure<'_>
            where
                Self: 'static,
            {
                let $this = self;
                $crate::Structure::pointer_to(&$target)
            }

            fn provide<'provided>(&'provided self, query: &mut $crate::Query<'provided>) {
                let $this = self;
                $target.provide(query);
                $(query.members_of::<$set>();)?
            }

            fn to_any_sync(&self) -> Option<$crate::AnyResource<(), $crate::Synchronous>>
            where
                Self: 'static,
            {
                let $this = self;
                $handle
            }
        }
    };
}

/// Implements `Resource` for a type by forwarding to `$target`.
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

pub(crate) use {delegate_resource, delegate_sync};
