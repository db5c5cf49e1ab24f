//! What a function fails with: its status, and what the last error says of it.

use rmm_core::{Error, ErrorKind};

use crate::status::{
    RMM_RS_ALLOCATION_FAILED, RMM_RS_CUDA_ERROR, RMM_RS_INVALID_ARGUMENT, RMM_RS_OUT_OF_MEMORY,
    RMM_RS_REFUSED,
};

/// The figures of a failure, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) cuda_code: Option<u32>,
    pub(crate) requested: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) reserved: Option<u64>,
    pub(crate) live: Option<u64>,
    pub(crate) largest_free: Option<u64>,
}

/// A failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: i32,
    pub(crate) text: String,
    pub(crate) figures: Figures,
}

impl Failure {
    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        let text = format!("invalid argument: {}", text.into());
        Self { status: RMM_RS_INVALID_ARGUMENT, text, figures: Figures::default() }
    }

    #[cold]
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self { status: RMM_RS_REFUSED, text: text.into(), figures: Figures::default() }
    }

    /// The failure of an allocation: what is not a lack of memory is
    /// [`RMM_RS_ALLOCATION_FAILED`], as RMM throws `bad_alloc` whatever the driver says.
    #[cold]
    pub(crate) fn of_allocation(error: &Error) -> Self {
        let mut failure = Self::from(error);
        if failure.status == RMM_RS_CUDA_ERROR || failure.status == RMM_RS_REFUSED {
            failure.status = RMM_RS_ALLOCATION_FAILED;
        }
        failure
    }
}

impl From<&Error> for Failure {
    #[cold]
    fn from(error: &Error) -> Self {
        let status = match error.kind() {
            ErrorKind::OutOfMemory => RMM_RS_OUT_OF_MEMORY,
            ErrorKind::InvalidArgument | ErrorKind::OutOfRange => RMM_RS_INVALID_ARGUMENT,
            ErrorKind::Unsupported | ErrorKind::NotReady => RMM_RS_REFUSED,
            _ => RMM_RS_CUDA_ERROR,
        };
        let usage = error.usage();
        let figures = Figures {
            cuda_code: error.code().map(|code| code.0),
            requested: error.requested().map(|bytes| bytes as u64),
            limit: usage.and_then(|usage| usage.limit),
            reserved: usage.map(|usage| usage.reserved),
            live: usage.map(|usage| usage.live),
            largest_free: usage.map(|usage| usage.largest_free),
        };
        Self { status, text: error.to_string(), figures }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}
