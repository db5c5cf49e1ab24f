//! The resource traits for resources over a driver pool.

/// Implements the resource traits and equality for a type with a field `pool: Arc<DriverPool>` and
/// a constant `NAME`; with the properties of its memory.
macro_rules! pool_resource {
    ($resource:ty; $($property:ty),+ $(; $value:ty)?) => {
        impl $resource {
            /// The driver pool: its statistics and attributes.
            pub fn pool(&self) -> &$crate::DriverPool {
                &self.pool
            }

            /// The driver's handle of the pool.
            #[doc(alias = "pool_handle")]
            pub fn as_raw(&self) -> rmm_sys::CuMemPool {
                self.pool.as_raw()
            }
        }

        impl PartialEq for $resource {
            /// Whether they allocate from the same driver pool.
            fn eq(&self, other: &Self) -> bool {
                self.pool == other.pool
            }
        }

        impl Eq for $resource {}

        // SAFETY: the driver's blocks are disjoint until they are freed, and aligned to at least
        // 256 bytes; larger alignments are refused, and the stream is synchronized before a call
        // returns.
        unsafe impl rmm_core::SynchronousResource for $resource {
            fn do_allocate_sync(
                &self,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                self.pool.allocate_sync(Self::NAME, layout)
            }

            unsafe fn do_deallocate_sync(
                &self,
                pointer: rmm_core::DevicePtr,
                _layout: std::alloc::Layout,
            ) {
                // SAFETY: the caller's contract.
                unsafe { self.pool.deallocate_sync(pointer) }
            }

            $crate::traits::name_and_properties!(Self::NAME; $($property),+ $(; $value)? => pool);
        }

        // SAFETY: the driver keeps the contract of stream order for its own pools.
        unsafe impl rmm_core::Resource for $resource {
            fn do_allocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                self.pool.allocate(Self::NAME, stream, layout)
            }

            unsafe fn do_deallocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                pointer: rmm_core::DevicePtr,
                _layout: std::alloc::Layout,
            ) {
                // SAFETY: the caller's contract.
                unsafe { self.pool.deallocate(stream, pointer) }
            }

            rmm_core::__by_clone!(to_any);
        }
    };
}
pub(crate) use pool_resource;
