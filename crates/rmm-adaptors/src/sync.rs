//! What threads share, and what that is built from.

pub(crate) mod alone;
pub(crate) mod fence;
pub(crate) mod patience;
pub(crate) mod primitives;
mod tally;
mod thread_number;

pub(crate) use tally::Tally;
pub(crate) use thread_number::thread_number;
