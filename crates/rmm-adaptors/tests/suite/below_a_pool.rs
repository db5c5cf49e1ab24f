//! Resources of tests as upstreams of pools.

/// Makes a resource that has synchronous calls only one that a pool can be over. Its values equal
/// themselves alone.
macro_rules! below_a_pool {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                std::ptr::eq(self, other)
            }
        }

        // SAFETY: its memory is that of a device.
        unsafe impl<$($generics)*> rmm_core::HasProperty<rmm_core::DeviceAccessible> for $type {}

        // SAFETY: memory that every stream may use may be used by one; it is freed after the work
        // of the stream, and not at all if that cannot be waited for.
        unsafe impl<$($generics)*> rmm_core::Resource for $type {
            fn do_allocate(
                &self,
                _: rmm_core::StreamRef<'_>,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                self.do_allocate_sync(layout)
            }

            unsafe fn do_deallocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                if stream.synchronize().is_ok() {
                    // SAFETY: the caller's contract; all uses have completed.
                    unsafe { self.do_deallocate_sync(pointer, layout) };
                }
            }
        }
    };
}
pub(crate) use below_a_pool;
