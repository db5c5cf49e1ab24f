//! Weak references to streams.

use std::fmt;
use std::sync::{Arc, Weak};

use super::{CudaStream, Inner};

/// A reference that does not keep the stream: for registries of streams, which would otherwise keep
/// every stream that they have ever seen.
///
/// [`Default`] is a reference to no stream.
///
/// ```
/// use rmm_core::{CudaStream, WeakStream};
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let weak = stream.downgrade();
/// assert_eq!(weak.upgrade(), Some(stream.clone()));
/// drop(stream);
/// assert_eq!(weak.upgrade(), None);
/// assert_eq!(WeakStream::default().upgrade(), None);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct WeakStream {
    inner: Weak<Inner>,
}

impl WeakStream {
    /// The stream; `None` from the moment on at which its last [`CudaStream`] is dropped, before
    /// its [watchers](CudaStream::watch) are called.
    pub fn upgrade(&self) -> Option<CudaStream> {
        self.inner.upgrade().map(|inner| CudaStream { inner })
    }
}

impl CudaStream {
    /// A reference that does not keep the stream, see [`WeakStream`].
    pub fn downgrade(&self) -> WeakStream {
        WeakStream { inner: Arc::downgrade(&self.inner) }
    }

    /// Whether there was no other handle to the stream when it was counted.
    pub(in crate::stream) fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }
}

impl fmt::Debug for WeakStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without an upgrade, which might become the last reference and destroy the stream here.
        let is_alive = self.inner.strong_count() > 0;
        f.debug_struct("WeakStream").field("is_alive", &is_alive).finish()
    }
}
