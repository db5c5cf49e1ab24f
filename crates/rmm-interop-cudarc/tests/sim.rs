//! Programs of cudarc with containers, on the software device: every one is checked under ten
//! schedules.
#![cfg(target_os = "linux")]

#[path = "sim/common.rs"]
mod common;
#[path = "sim/costs.rs"]
mod costs;
#[path = "sim/kernels.rs"]
mod kernels;
#[path = "sim/known_bugs.rs"]
mod known_bugs;
#[path = "sim/operands.rs"]
mod operands;
#[path = "sim/order.rs"]
mod order;
#[path = "sim/owned.rs"]
mod owned;
#[path = "sim/streams.rs"]
mod streams;
#[path = "sim/unchanged.rs"]
mod unchanged;
