//! The kinds of stream in the matrix.

use rmm_core::{CudaStream, Error, StreamFlags};

macro_rules! define_streams {
    ($($name:literal: $variant:ident, $doc:literal,)*) => {
        /// A kind of stream.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum StreamChoice {
            $(#[doc = $doc] $variant,)*
        }

        impl StreamChoice {
            pub(crate) const ALL: &[(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    };
}
every_stream!(define_streams);

impl StreamChoice {
    /// A stream of this kind, for the calling thread.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open(self) -> Result<CudaStream, Error> {
        match self {
            Self::Legacy => Ok(CudaStream::legacy()),
            Self::PerThread => Ok(CudaStream::per_thread()),
            Self::NonBlocking => CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0),
        }
    }
}
