//! Options and columns of [`LoggingResourceAdaptor`](super::LoggingResourceAdaptor).

pub use rmm_adaptors::{LOG_FILE_VARIABLE, LOG_HEADER, LogColumn, LoggingResourceAdaptorBuilder};
