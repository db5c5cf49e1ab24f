//! What users call: the pool, its builder, reservations, sleep and trims.

pub(super) mod builder;
mod constructors;
mod graphs;
pub(super) mod map;
pub(super) mod pool;
pub(super) mod reservation;
pub(super) mod resource;
pub(super) mod segments;
pub(super) mod sleep;
pub(super) mod source;
pub(super) mod trim;
