//! Errors of C functions: the status, and the details of the last error.

use rmm_core::{Error, ErrorKind, Remedy};

use crate::handle::status::{
    RMM_RS_ALLOCATION_FAILED, RMM_RS_CUDA_ERROR, RMM_RS_INVALID_ARGUMENT, RMM_RS_NOT_READY,
    RMM_RS_OUT_OF_MEMORY, RMM_RS_REFUSED,
};

/// The figures of a failure, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ErrorFigures {
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
    pub(crate) figures: Box<ErrorFigures>,
    /// What would have helped, the best first.
    pub(crate) remedies: Vec<Remedy>,
}

impl Failure {
    /// A failure of which nothing else is known.
    #[cold]
    pub(crate) fn plain(status: i32, text: String) -> Self {
        Self { status, text, figures: Box::default(), remedies: Vec::new() }
    }

    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        let text = format!("invalid argument: {}", text.into());
        Self::plain(RMM_RS_INVALID_ARGUMENT, text)
    }

    #[cold]
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::plain(RMM_RS_REFUSED, text.into())
    }

    /// The failure of an allocation: what is not a lack of memory is
    /// [`RMM_RS_ALLOCATION_FAILED`], as RMM throws `bad_alloc` whatever the driver says.
    #[cold]
    pub(crate) fn of_allocation(error: &Error) -> Self {
        let mut failure = Self::from(error);
        if [RMM_RS_CUDA_ERROR, RMM_RS_REFUSED, RMM_RS_NOT_READY].contains(&failure.status) {
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
            ErrorKind::Unsupported => RMM_RS_REFUSED,
            ErrorKind::NotReady => RMM_RS_NOT_READY,
            _ => RMM_RS_CUDA_ERROR,
        };
        let usage = error.usage();
        let figures = ErrorFigures {
            cuda_code: error.code().map(|code| code.0),
            requested: error.requested().map(|bytes| bytes as u64),
            limit: usage.and_then(|usage| usage.limit),
            reserved: usage.map(|usage| usage.reserved),
            live: usage.map(|usage| usage.live),
            largest_free: usage.map(|usage| usage.largest_free),
        };
        let remedies = error.remedies().to_vec();
        Self { status, text: error.to_string(), figures: Box::new(figures), remedies }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}
