//! The parts of a simulated machine: memory, streams, events, graphs, clocks, and what the checks
//! record. None of them knows the whole machine ([`State`](crate::engine::state::State)).

pub(crate) mod attributes;
pub(crate) mod call_site;
pub(crate) mod captures;
pub(crate) mod checks;
pub(crate) mod context;
pub(crate) mod costs;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod fault;
pub(crate) mod free_ranges;
pub(crate) mod graph;
pub(crate) mod handle;
pub(crate) mod host;
pub(crate) mod kernel;
pub(crate) mod kernels;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod memory_names;
pub(crate) mod operation;
pub(crate) mod piece;
pub(crate) mod pool;
pub(crate) mod pool_name;
pub(crate) mod prefetch;
pub(crate) mod schedule;
pub(crate) mod shadow;
pub(crate) mod signature;
pub(crate) mod sim_time;
pub(crate) mod streams;
pub(crate) mod suballocations;
pub(crate) mod suspended;
pub(crate) mod trace;
pub(crate) mod vector_clock;
pub(crate) mod violation;
pub(crate) mod virtual_memory;
pub(crate) mod work;
