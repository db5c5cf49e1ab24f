//! The interface for tests: entering a machine, launching kernels, checking programs, and what a
//! machine reports of a run.

pub(crate) mod attribute;
pub(crate) mod background;
pub(crate) mod bytes;
pub(crate) mod checker;
pub(crate) mod contexts;
pub(crate) mod entry;
pub(crate) mod explore;
pub(crate) mod fail_each;
pub(crate) mod inject;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod launch;
pub(crate) mod register;
pub(crate) mod registration;
