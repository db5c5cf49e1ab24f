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
/// No call bypasses the hooks: [`try_allocate_now`](crate::Resource::try_allocate_now) returns
/// `None`, and [`try_deallocate_now`](crate::Resource::try_deallocate_now) `false` if there is a
/// `freed`. An adaptor that never waits says what it does there, after the other hooks and in this
/// order: `allocate_now(&self, below, layout)`, which returns what `below.allocate_now(layout)`
/// returned, or `None`; and `freed_now(&self, layout)`, which runs in place of `freed`, after the
/// block was freed.
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
/// With the hooks of calls that do not wait:
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// # use rmm_core::{CudaStream, Resource};
/// # use rmm_resources::CudaMemoryResource;
///
/// #[derive(Debug)]
/// struct Live<R> {
///     upstream: R,
///     blocks: AtomicUsize,
/// }
///
/// rmm_core::adaptor! {
///     Live<R> over upstream, name = "live";
///     fn allocate(&self, below, layout) {
///         below.allocate(layout).inspect(|_| { self.blocks.fetch_add(1, Ordering::Relaxed); })
///     }
///     fn freed(&self, _layout) { self.blocks.fetch_sub(1, Ordering::Relaxed); }
///     fn allocate_now(&self, below, layout) {
///         below.allocate_now(layout).inspect(|_| { self.blocks.fetch_add(1, Ordering::Relaxed); })
///     }
///     fn freed_now(&self, _layout) { self.blocks.fetch_sub(1, Ordering::Relaxed); }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// # let stream = CudaStream::new()?;
/// let live = Live { upstream: CudaMemoryResource::new(), blocks: AtomicUsize::new(0) };
/// let layout = std::alloc::Layout::new::<[f32; 256]>();
/// assert_eq!(live.try_allocate_now(&stream, layout), None); // `cudaMalloc` is a driver call
/// assert_eq!(live.blocks.load(Ordering::Relaxed), 0);
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
    (@allocate_now) => {
        #[doc(hidden)]
        #[inline]
        fn __allocate_now_below<'below, __Calls: $crate::adaptor_support::CallsNow>(
            &self,
            _: $crate::adaptor_support::Upstream<'below, __Calls>,
            _: ::std::alloc::Layout,
        ) -> ::std::option::Option<$crate::adaptor_support::Block<'below, __Calls>> {
            ::std::option::Option::None
        }
    };
    (@allocate_now &$this:tt, $below:ident, $layout:ident, $allocate:block) => {
        #[doc(hidden)]
        #[inline]
        fn __allocate_now_below<'below, __Calls: $crate::adaptor_support::CallsNow>(
            &$this,
            $below: $crate::adaptor_support::Upstream<'below, __Calls>,
            $layout: ::std::alloc::Layout,
        ) -> ::std::option::Option<$crate::adaptor_support::Block<'below, __Calls>>
            $allocate
    };
    (@freed_now $passes:literal) => {
        /// Whether a free that does not wait goes to the upstream.
        #[doc(hidden)]
        const __FREES_NOW: bool = $passes;

        #[doc(hidden)]
        #[inline]
        fn __freed_now(&self, _: ::std::alloc::Layout) {}
    };
    (@freed_now []) => {
        $crate::adaptor!(@freed_now true);
    };
    (@freed_now [$freed:ident]) => {
        $crate::adaptor!(@freed_now false);
    };
    (@freed_now [$($freed:ident)?] &$this:tt, $layout:ident, $freed_now:block) => {
        /// Whether a free that does not wait goes to the upstream.
        #[doc(hidden)]
        const __FREES_NOW: bool = true;

        #[doc(hidden)]
        #[inline]
        fn __freed_now(&$this, $layout: ::std::alloc::Layout) $freed_now
    };
    (
        $type:ident<$upstream:ident> over $field:ident, name = $name:expr;
        fn allocate(&$this:tt, $below:ident, $layout:ident) $allocate:block
        $(fn freed(&$freed_this:tt, $freed_layout:ident) $freed:block)?
        $(
            fn allocate_now(&$now_this:tt, $now_below:ident, $now_layout:ident)
            $allocate_now:block
        )?
        $(fn freed_now(&$freed_now_this:tt, $freed_now_layout:ident) $freed_now:block)?
    ) => {
        impl<$upstream: $crate::SyncResource> $type<$upstream> {
            #[doc(hidden)]
            #[inline]
            fn __allocate_below<'below, __Calls: $crate::adaptor_support::Calls>(
                &$this,
                $below: $crate::adaptor_support::Upstream<'below, __Calls>,
                $layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::adaptor_support::Block<'below, __Calls>, $crate::Error>
                $allocate

            $crate::adaptor!(@freed $(&$freed_this, $freed_layout, $freed)?);

            $crate::adaptor!(@allocate_now $(&$now_this, $now_below, $now_layout, $allocate_now)?);

            $crate::adaptor!(
                @freed_now [$($freed_layout)?] $(&$freed_now_this, $freed_now_layout, $freed_now)?
            );

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
        unsafe impl<$upstream: $crate::SyncResource> $crate::SyncResource for $type<$upstream> {
            fn do_allocate_sync(
                &self,
                layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::DevicePtr, $crate::Error> {
                $crate::adaptor_support::adapt_sync(Self::__NAME, self.__upstream(), layout, |below| {
                    self.__allocate_below(below, layout)
                })
            }

            unsafe fn do_deallocate_sync(
                &self,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) {
                if !$crate::fork::is_child() {
                    $crate::siblings::not_waited_for(|| self.__freed(layout));
                    // SAFETY: the caller's contract is the same, and the memory is the upstream's.
                    unsafe {
                        $crate::SyncResource::do_deallocate_sync(self.__upstream(), pointer, layout)
                    }
                }
            }

            fn name(&self) -> &'static str {
                Self::__NAME
            }

            fn provide<'a>(&'a self, request: &mut $crate::Request<'a>) {
                request.upstream(self.__upstream()).properties_from(self.__upstream());
                request.value(|| $crate::siblings::MayBeWaitedFor);
            }
        }

        // SAFETY: `adapt` and `adapt_now` return memory of the upstream with this layout only, on
        // the same stream, and every block goes back there with it.
        unsafe impl<$upstream: $crate::Resource> $crate::Resource for $type<$upstream> {
            #[inline]
            fn do_allocate(
                &self,
                stream: $crate::StreamRef<'_>,
                layout: ::std::alloc::Layout,
            ) -> ::std::result::Result<$crate::DevicePtr, $crate::Error> {
                $crate::adaptor_support::adapt(Self::__NAME, self.__upstream(), stream, layout, |below| {
                    self.__allocate_below(below, layout)
                })
            }

            #[inline]
            unsafe fn do_deallocate(
                &self,
                stream: $crate::StreamRef<'_>,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) {
                if !$crate::fork::is_child() {
                    $crate::siblings::not_waited_for(|| self.__freed(layout));
                    // SAFETY: the caller's contract is the same, and the memory is the upstream's.
                    unsafe {
                        $crate::Resource::do_deallocate(self.__upstream(), stream, pointer, layout)
                    }
                }
            }

            #[inline]
            fn do_try_allocate_now(
                &self,
                stream: $crate::StreamRef<'_>,
                layout: ::std::alloc::Layout,
            ) -> ::std::option::Option<$crate::DevicePtr> {
                $crate::adaptor_support::adapt_now(self.__upstream(), stream, layout, |below| {
                    self.__allocate_now_below(below, layout)
                })
            }

            #[inline]
            unsafe fn do_try_deallocate_now(
                &self,
                stream: $crate::StreamRef<'_>,
                pointer: $crate::DevicePtr,
                layout: ::std::alloc::Layout,
            ) -> bool {
                let upstream = self.__upstream();
                let is_freed = Self::__FREES_NOW
                    // SAFETY: the caller's contract is the same, and the memory is the upstream's.
                    && unsafe {
                        $crate::Resource::do_try_deallocate_now(upstream, stream, pointer, layout)
                    };
                if is_freed {
                    self.__freed_now(layout);
                }
                is_freed
            }
        }

        /// Equal if the upstreams are: then each can free the other's memory.
        impl<$upstream: $crate::SyncResource + PartialEq> PartialEq for $type<$upstream> {
            fn eq(&self, other: &Self) -> bool {
                self.__upstream() == other.__upstream()
            }
        }

        // SAFETY: the memory is the upstream's.
        unsafe impl<__P: $crate::Property, $upstream: $crate::HasProperty<__P>>
            $crate::HasProperty<__P> for $type<$upstream>
        {
        }

        impl<__P, $upstream> $crate::HasPropertyValue<__P> for $type<$upstream>
        where
            __P: $crate::PropertyWithValue,
            $upstream: $crate::HasPropertyValue<__P> + $crate::SyncResource,
        {
            fn property_value(&self) -> __P::Value {
                $crate::HasPropertyValue::<__P>::property_value(self.__upstream())
            }
        }

        // SAFETY: the memory is the upstream's.
        unsafe impl<$upstream: $crate::HasMemoryKind> $crate::HasMemoryKind for $type<$upstream> {
            const KIND: $crate::MemoryKind = $upstream::KIND;
            const CAPS: $crate::MemoryCaps = $upstream::CAPS;
        }
    };
}
