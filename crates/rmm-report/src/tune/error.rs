//! Why a trace could not be tuned.

use rmm_core::Error;

/// Why a trace could not be tuned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No request of the trace got memory.
    #[error("no request got memory when the log was recorded: there is nothing to tune")]
    NoMemory,
    /// A replay could not be made.
    #[error("{configuration}: {error}")]
    Device {
        /// The configuration that was tried.
        configuration: String,
        /// The error of the device.
        #[source]
        error: Error,
    },
}
