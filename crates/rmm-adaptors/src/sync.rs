//! Synchronization: biased cells, locks and tables, and what they are built from.
//!
//! ```text
//!     biased_mutex
//!         |
//!     first_thread    biased_table      values of the first thread / cells that change owners
//!         \            /
//!            biased                     the handshake: enter and revoke
//!         /          \
//!     fence           thread_token, thread_number
//!         \          /
//!          primitives                   those of std and rmm-core, or of loom
//! ```

pub(crate) mod address_table;
pub(crate) mod biased;
pub(crate) mod biased_mutex;
pub(crate) mod biased_table;
pub(crate) mod cache_padded;
mod counter;
pub(crate) mod fence;
pub(crate) mod first_thread;
pub(crate) mod hash;
pub(crate) mod primitives;
mod thread_number;
pub(crate) mod thread_token;

pub(crate) use counter::Counter;
pub(crate) use thread_number::thread_number;
