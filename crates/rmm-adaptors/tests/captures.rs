//! The adaptors while streams are captured into graphs, on the software device. A program of its
//! own: to announce captures concerns all of a process.

#[path = "captures/arena.rs"]
mod arena;
#[path = "captures/graphs.rs"]
mod graphs;
#[path = "captures/pool.rs"]
mod pool;
#[path = "captures/pool_end.rs"]
mod pool_end;
#[path = "captures/pool_order.rs"]
mod pool_order;
#[path = "suite/short.rs"]
mod short;
