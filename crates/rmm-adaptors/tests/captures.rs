//! Tests of suballocators while streams are captured into graphs, on the software device. A
//! separate binary: announcing a capture affects the whole process.

#[path = "captures/arena.rs"]
mod arena;
#[path = "captures/graph_pool.rs"]
mod graph_pool;
#[path = "captures/graph_support.rs"]
mod graph_support;
#[path = "captures/pool.rs"]
mod pool;
#[path = "captures/pool_end.rs"]
mod pool_end;
#[path = "captures/pool_order.rs"]
mod pool_order;
#[path = "captures/pool_sleep.rs"]
mod pool_sleep;
#[path = "suite/support.rs"]
mod support;
