//! The adaptors on the software device. One program, so that what the tests share is written once.

#[path = "suite/adaptors.rs"]
mod adaptors;
#[path = "suite/arena.rs"]
mod arena;
#[path = "suite/arena_order.rs"]
mod arena_order;
#[path = "suite/arena_threads.rs"]
mod arena_threads;
#[path = "suite/binning.rs"]
mod binning;
#[path = "suite/every.rs"]
mod every;
#[path = "suite/faults.rs"]
mod faults;
#[path = "suite/fixed_size.rs"]
mod fixed_size;
#[path = "suite/kinds.rs"]
mod kinds;
#[path = "suite/logging.rs"]
mod logging;
#[path = "suite/lost_context.rs"]
mod lost_context;
#[path = "suite/pool.rs"]
mod pool;
#[path = "suite/pool_batches.rs"]
mod pool_batches;
#[path = "suite/pool_caches.rs"]
mod pool_caches;
#[path = "suite/pool_devices.rs"]
mod pool_devices;
#[path = "suite/pool_end.rs"]
mod pool_end;
#[path = "suite/pool_events.rs"]
mod pool_events;
#[path = "suite/pool_faults.rs"]
mod pool_faults;
#[path = "suite/pool_many_blocks.rs"]
mod pool_many_blocks;
#[path = "suite/pool_order.rs"]
mod pool_order;
#[path = "suite/pool_streams.rs"]
mod pool_streams;
#[path = "suite/pool_threads.rs"]
mod pool_threads;
#[path = "suite/pool_upstream.rs"]
mod pool_upstream;
#[path = "suite/pool_virtual.rs"]
mod pool_virtual;
#[path = "suite/pool_waits.rs"]
mod pool_waits;
#[path = "suite/program.rs"]
mod program;
#[path = "suite/refusals.rs"]
mod refusals;
#[path = "suite/release.rs"]
mod release;
#[path = "suite/short.rs"]
mod short;
#[path = "suite/shortage.rs"]
mod shortage;
#[path = "suite/soak.rs"]
mod soak;
#[path = "suite/tags.rs"]
mod tags;
#[path = "suite/world.rs"]
mod world;
