//! Macros for the parts of the resource traits that most resources implement alike.

/// In `impl SynchronousResource`: the name of the resource, a handle to itself, and what it answers
/// to a query: these properties, those after the semicolon with their values; and the field that
/// can be trimmed and described, if there is one.
macro_rules! name_and_properties {
    ($name:expr; $($property:ty),+ $(; $value:ty)? $(=> $trimmable:ident)?) => {
        fn name(&self) -> &'static str {
            $name
        }

        $(
            fn structure(&self) -> rmm_core::Structure<'_>
            where
                Self: 'static,
            {
                rmm_core::Structure::default().with_trimmable(&*self.$trimmable)
            }
        )?

        rmm_core::__by_clone!(to_any_sync);

        fn provide<'a>(&'a self, query: &mut rmm_core::Query<'a>) {
            query.value(|| rmm_core::siblings::MayBeWaitedFor);
            $(query.describe(|description| self.$trimmable.describe(description));)?
            query.properties(self)$(.has::<$property>())+$(.has_value::<$value>())?;
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
            if rmm_core::known_contexts::is_done(stream) {
                // SAFETY: the caller's contract, and the uses that are ordered before this place on
                // the stream have completed.
                unsafe { self.do_deallocate_sync(pointer, layout) }
            }
        }
    };
}
pub(crate) use free_when_done;
