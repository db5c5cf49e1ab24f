//! Counted handles, structures with a size, texts, statuses, the last error, and the guard that
//! every function passes.

pub(crate) mod callback;
pub(crate) mod failure;
pub(crate) mod find;
pub(crate) mod guard;
pub mod library;
pub mod resource;
pub(crate) mod sized;
pub mod status;
pub(crate) mod text;
pub(crate) mod watched;
