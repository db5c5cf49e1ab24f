//! Tests of the base resources on the software device. One test program, so that the tests share
//! fixtures.

#[path = "suite/allocator.rs"]
mod allocator;
#[path = "suite/backing.rs"]
mod backing;
#[path = "suite/captures.rs"]
mod captures;
#[path = "suite/cuda_async.rs"]
mod cuda_async;
#[path = "suite/driver_pool.rs"]
mod driver_pool;
#[path = "suite/every.rs"]
mod every;
#[path = "suite/faults.rs"]
mod faults;
#[path = "suite/foreign_pools.rs"]
mod foreign_pools;
#[path = "suite/host.rs"]
mod host;
#[path = "suite/host_virtual.rs"]
mod host_virtual;
#[path = "suite/imported.rs"]
mod imported;
#[path = "suite/pinned.rs"]
mod pinned;
#[path = "suite/registered.rs"]
mod registered;
#[path = "suite/regressions.rs"]
mod regressions;
#[path = "suite/reserved.rs"]
mod reserved;
#[path = "suite/short.rs"]
mod short;
#[path = "suite/system.rs"]
mod system;
#[path = "suite/two_devices.rs"]
mod two_devices;
#[path = "suite/unsupported.rs"]
mod unsupported;
#[path = "suite/virtual_memory.rs"]
mod virtual_memory;
