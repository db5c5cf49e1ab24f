//! Functions that make a resource, or use one: allocation, statistics, trims, sleep, callbacks.

pub mod access;
pub mod adaptors;
pub mod allocate;
pub mod base;
pub mod callbacks;
pub mod driver_pools;
pub mod effort;
pub mod elastic;
pub mod failure_callback;
pub mod graphs;
pub mod logging;
pub mod pool;
pub mod pool_walk;
pub mod pressure;
pub mod registry;
pub mod remedies;
pub mod reservation;
pub mod segments;
pub mod sharing;
pub mod sleep;
pub mod spec;
pub mod statistics;
pub mod suballocators;
pub mod tracking;
pub mod trim;
pub mod upstream;
