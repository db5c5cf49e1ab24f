//! What suballocators and adaptors both use: call sites, sets of properties as types, spans of
//! `tracing`, and the table of tracked blocks.

pub(crate) mod site;
pub(crate) mod trace;
pub(crate) mod tracked;
pub(crate) mod with_properties;
