//! The macro that writes an adaptor from its `allocate`.

/// Defines an adaptor: a resource over an upstream that sees each allocation.
///
/// The type is a struct with one type parameter, the upstream's type, and a field of exactly that
/// type; the name is a constant. The type implements [`Debug`]; clones, if it has any, share their
/// state. The author writes `allocate`, once for both the synchronous and the stream-ordered calls.
/// It gets
///
/// - `below`: the upstream for this call, with `allocate(layout)` and `stream()` (`None` in a
///   synchronous call);
/// - `layout`, the requested layout; never of zero bytes,
///
/// and returns the block that `below.allocate(layout)` returned, or an error. `freed(&self,
/// layout)` may follow: it runs before each block is freed.
///
/// `allocate` may hold a lock while it calls `below`: nothing below asks other pools for memory
/// meanwhile. If it is the outermost adaptor of a request, and what is below is out of memory, the
/// others are asked once it has returned, and it runs again for the same request.
///
/// Freeing, properties, equality (that of the upstreams: each frees the other's memory) and
/// introspection come from the macro, so they cannot disagree with `allocate`, and no `unsafe` is
/// needed.
///
/// Code of the author's that waits for a lock or a file calls
/// [`about_to_wait`](crate::wait::about_to_wait) before it does.
///
/// ```
/// use rmm_core::{CudaStream, Error, Introspect, MemoryKind, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// /// Refuses single allocations above a limit.
/// #[derive(Clone, Debug)]
/// struct Capped<R> {
///     upstream: R,
///     limit: usize,
/// }
///
/// rmm_core::adaptor! {
///     Capped<R> over upstream, name = "capped";
///     fn allocate(&self, below, layout) {
///         if layout.size() > self.limit {
///             return Err(Error::out_of_memory("capped").with_layout(layout));
///         }
///         below.allocate(layout)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let capped = Capped { upstream: CudaMemoryResource::new(), limit: 1 << 20 };
/// let (stream, layout) = (CudaStream::new()?, std::alloc::Layout::new::<[f32; 256]>());
/// let pointer = capped.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { capped.deallocate(&stream, pointer, layout) };
/// let too_large = std::alloc::Layout::new::<[u8; 2 << 20]>();
/// assert!(capped.allocate(&stream, too_large).unwrap_err().is_out_of_memory());
/// assert_eq!(capped.try_property::<MemoryKind>(), Some(MemoryKind::Device));
/// assert_eq!(capped.describe().to_string(), "capped\n└─ cuda");
/// # Ok(())
/// # }
/// ```
///
/// A block of another layout is freed and refused, and a block of another call does not compile:
///
/// ```compile_fail
/// # #[derive(Clone, Debug)]
/// # struct Caching<R> {
/// #     upstream: R,
/// # }
/// rmm_core::adaptor! {
///     Caching<R> over upstream, name = "caching";
///     fn allocate(&self, below, layout) {
///         Ok(rmm_core::DevicePtr(4096)) // not memory of the upstream
///     }
/// }
/// ```
#[macro_export]
macro_rules! adaptor {
    (@freed) => {
        #[doc(hidden)]
        #[inline]
        fn __freed(&self, _: ::std::alloc::Layout) {}
    };
    (@freed &$this:tt, $layout:ident, $freed:block) => {
        #[doc(hidden)]
        #[inline]
        fn __freed(&$this, $layout: ::std::alloc::Layout) $freed
    };
    (
        $type:ident<$upstream:ident> over $field:ident, name = $name:expr;
        fn allocate(&$this:tt, $below:ident, $layout:ident) $allocate:block
        $(fn freed(&$freed_this:tt, $freed_layout:ident) $freed:block)?
    ) => {
        impl<$upstream: $crate::SynchronousResource> $type<$upstream> {
            #[doc(hidden)]
            #[inline]
            fn __allocate_below<'below, __Calls: $crate::adaptor_support::Calls>(
                &$this,
                $below: $crate::adaptor_support::Upstream<'below, __Calls>,
                $layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::adaptor_support::Block<'below, __Calls>, $crate::Error>
                $allocate

            $crate::adaptor!(@freed $(&$freed_this, $freed_layout, $freed)?);

            /// A constant, so that no code of the author's runs in a call.
            #[doc(hidden)]
            const __NAME: &'static str = $name;

            /// The field itself, which is of the upstream's type: inside a tuple nothing coerces,
            /// so a field that dereferences to an upstream, perhaps to another one each time, is
            /// refused.
            #[doc(hidden)]
            #[inline]
            fn __upstream(&self) -> &$upstream {
                let Self { $field: upstream, .. } = self;
                let exact = (upstream,);
                let (upstream,): (&$upstream,) = exact;
                upstream
            }
        }

        // SAFETY: `adapt` returns memory of the upstream with this layout only, and every block
        // goes back there with it: the upstream is a field, which is the same in every call, and
        // the author's code runs in functions of its own. What is provided is the upstream's.
        unsafe impl<$upstream: $crate::SynchronousResource> $crate::adaptor_support::AdaptedResource
            for $type<$upstream>
        {
            type Upstream = $upstream;

            #[inline]
            fn below(&self) -> &$upstream {
                self.__upstream()
            }

            #[inline]
            fn allocate_through<__Calls: $crate::adaptor_support::Calls>(
                &self,
                calls: &__Calls,
                layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::DevicePtr, $crate::Error> {
                $crate::adaptor_support::adapt(Self::__NAME, calls, layout, |below| {
                    self.__allocate_below(below, layout)
                })
            }

            #[inline]
            unsafe fn free_through<__Calls: $crate::adaptor_support::Calls>(
                &self,
                calls: &__Calls,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) {
                $crate::siblings::not_waited_for(|| self.__freed(layout));
                // SAFETY: the caller's contract is the same, and the memory is the upstream's.
                unsafe { $crate::adaptor_support::Calls::deallocate(calls, pointer, layout) }
            }

            fn adaptor_name(&self) -> &'static str {
                Self::__NAME
            }
        }

        $crate::__resource_of_adaptor!($type<$upstream>, {}, {});

        /// Equal if the upstreams are: then each can free the other's memory.
        impl<$upstream: $crate::SynchronousResource + PartialEq> PartialEq for $type<$upstream> {
            fn eq(&self, other: &Self) -> bool {
                self.__upstream() == other.__upstream()
            }
        }
    };
}

/// Implements the resource traits for what is
/// [`AdaptedResource`](crate::adaptor_support::AdaptedResource): for [`adaptor!`](crate::adaptor)
/// and the adaptors of this library.
#[doc(hidden)]
#[macro_export]
macro_rules! __resource_of_adaptor {
    ($type:ident<$upstream:ident>, { $($to_any_sync:tt)* }, { $($to_any:tt)* }) => {
        // SAFETY: the adaptor keeps the contract, by its own.
        unsafe impl<$upstream: $crate::SynchronousResource> $crate::SynchronousResource for $type<$upstream> {
            fn do_allocate_sync(
                &self,
                layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::DevicePtr, $crate::Error> {
                use $crate::adaptor_support::{AdaptedResource, SyncCalls};
                $crate::fork::check()?;
                let calls = SyncCalls(AdaptedResource::below(self));
                AdaptedResource::allocate_through(self, &calls, layout)
            }

            unsafe fn do_deallocate_sync(
                &self,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) {
                use $crate::adaptor_support::{AdaptedResource, SyncCalls};
                if !$crate::fork::is_child() {
                    let calls = SyncCalls(AdaptedResource::below(self));
                    // SAFETY: the caller's contract is the same.
                    unsafe { AdaptedResource::free_through(self, &calls, pointer, layout) }
                }
            }

            fn name(&self) -> &'static str {
                $crate::adaptor_support::AdaptedResource::adaptor_name(self)
            }

            fn structure(&self) -> $crate::Structure<'_>
            where
                Self: 'static,
            {
                $crate::Structure::over($crate::adaptor_support::AdaptedResource::below(self))
            }

            $($to_any_sync)*

            fn provide<'a>(&'a self, query: &mut $crate::Query<'a>) {
                query.properties_from($crate::adaptor_support::AdaptedResource::below(self));
                query.value(|| $crate::siblings::MayBeWaitedFor);
                $crate::adaptor_support::AdaptedResource::provide_more(self, query);
            }
        }

        // SAFETY: the adaptor keeps the contract, by its own.
        unsafe impl<$upstream: $crate::Resource> $crate::Resource for $type<$upstream> {
            #[inline]
            fn do_allocate(
                &self,
                stream: $crate::StreamRef<'_>,
                layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::DevicePtr, $crate::Error> {
                use $crate::adaptor_support::{AdaptedResource, StreamCalls};
                $crate::fork::check()?;
                let calls = StreamCalls(AdaptedResource::below(self), stream);
                AdaptedResource::allocate_through(self, &calls, layout)
            }

            #[inline]
            unsafe fn do_deallocate(
                &self,
                stream: $crate::StreamRef<'_>,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) {
                use $crate::adaptor_support::{AdaptedResource, StreamCalls};
                if !$crate::fork::is_child() {
                    let calls = StreamCalls(AdaptedResource::below(self), stream);
                    // SAFETY: the caller's contract is the same.
                    unsafe { AdaptedResource::free_through(self, &calls, pointer, layout) }
                }
            }

            $($to_any)*
        }

        // The memory is the upstream's.
        $crate::__properties_of!([$upstream: $crate::SynchronousResource] $type<$upstream>, |this| {
            $crate::adaptor_support::AdaptedResource::below(this)
        });
    };
}
