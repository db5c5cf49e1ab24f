//! What most resources write alike in their implementations of the resource traits.

/// In `impl SyncResource`: the name of the resource, and what it answers to a request: a handle to
/// itself, and these properties, those after the semicolon with their values; and the field that
/// can be trimmed and described, if there is one.
macro_rules! name_and_properties {
    ($name:expr; $($property:ty),+ $(; $value:ty)? $(=> $trimmable:ident)?) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn provide<'a>(&'a self, request: &mut rmm_core::Request<'a>) {
            request.handle(self).value(|| rmm_core::siblings::MayBeWaitedFor);
            $(
                request.trimmable(&*self.$trimmable);
                request.describe(|description| self.$trimmable.describe(description));
            )?
            request.properties(self)$(.has::<$property>())+$(.has_value::<$value>())?;
        }
    };
}
pub(crate) use name_and_properties;

/// In `impl Resource`: a free in stream order synchronizes with the stream first. If that fails,
/// the memory stays allocated.
macro_rules! free_when_done {
    () => {
        unsafe fn do_deallocate(
            &self,
            stream: rmm_core::StreamRef<'_>,
            pointer: rmm_core::DevicePtr,
            layout: std::alloc::Layout,
        ) {
            if $crate::capability::is_done(stream) {
                // SAFETY: the caller's contract, and the uses that are ordered before this place on
                // the stream have completed.
                unsafe { self.do_deallocate_sync(pointer, layout) }
            }
        }
    };
}
pub(crate) use free_when_done;

/// In `impl Resource`: a clone of the handle, type-erased.
macro_rules! clone_to_any {
    () => {
        fn to_any(&self) -> Option<rmm_core::AnyResource<()>>
        where
            Self: 'static,
        {
            Some(rmm_core::AnyResource::of(self))
        }
    };
}
pub(crate) use clone_to_any;
