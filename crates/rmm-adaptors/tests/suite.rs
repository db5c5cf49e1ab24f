//! Tests of suballocators and adaptors on the software device, in one binary, so that they share
//! helper modules.

#[path = "suite/adaptors.rs"]
mod adaptors;
#[path = "suite/all_suballocators.rs"]
mod all_suballocators;
#[path = "suite/arena.rs"]
mod arena;
#[path = "suite/avoidable_failures.rs"]
mod avoidable_failures;
#[path = "suite/avoidable_siblings.rs"]
mod avoidable_siblings;
#[path = "suite/below_a_pool.rs"]
mod below_a_pool;
#[path = "suite/binning.rs"]
mod binning;
#[path = "suite/callbacks.rs"]
mod callbacks;
#[path = "suite/created_context.rs"]
mod created_context;
#[path = "suite/default_pool.rs"]
mod default_pool;
#[path = "suite/default_streams.rs"]
mod default_streams;
#[path = "suite/driver_calls.rs"]
mod driver_calls;
#[path = "suite/driver_pools.rs"]
mod driver_pools;
#[path = "suite/faults.rs"]
mod faults;
#[path = "suite/first_wait.rs"]
mod first_wait;
#[path = "suite/fixed_size.rs"]
mod fixed_size;
#[path = "suite/fixtures.rs"]
mod fixtures;
#[path = "suite/fragmentation.rs"]
mod fragmentation;
#[path = "suite/full_device.rs"]
mod full_device;
#[path = "suite/harness.rs"]
mod harness;
#[path = "suite/limits.rs"]
mod limits;
#[path = "suite/logging.rs"]
mod logging;
#[path = "suite/lost_context.rs"]
mod lost_context;
#[path = "suite/oom_reason.rs"]
mod oom_reason;
#[path = "suite/own_process.rs"]
mod own_process;
#[path = "suite/page_sizes.rs"]
mod page_sizes;
#[path = "suite/pool.rs"]
mod pool;
#[path = "suite/pool_batches.rs"]
mod pool_batches;
#[path = "suite/pool_budget.rs"]
mod pool_budget;
#[path = "suite/pool_caches.rs"]
mod pool_caches;
#[path = "suite/pool_clear.rs"]
mod pool_clear;
#[path = "suite/pool_devices.rs"]
mod pool_devices;
#[path = "suite/pool_effort.rs"]
mod pool_effort;
#[path = "suite/pool_end.rs"]
mod pool_end;
#[path = "suite/pool_events.rs"]
mod pool_events;
#[path = "suite/pool_faults.rs"]
mod pool_faults;
#[path = "suite/pool_legacy.rs"]
mod pool_legacy;
#[path = "suite/pool_many_blocks.rs"]
mod pool_many_blocks;
#[path = "suite/pool_many_streams.rs"]
mod pool_many_streams;
#[path = "suite/pool_old_driver.rs"]
mod pool_old_driver;
#[path = "suite/pool_order.rs"]
mod pool_order;
#[path = "suite/pool_reclaim.rs"]
mod pool_reclaim;
#[path = "suite/pool_sleep.rs"]
mod pool_sleep;
#[path = "suite/pool_sleep_threads.rs"]
mod pool_sleep_threads;
#[path = "suite/pool_spans.rs"]
mod pool_spans;
#[path = "suite/pool_statistics.rs"]
mod pool_statistics;
#[path = "suite/pool_streams.rs"]
mod pool_streams;
#[path = "suite/pool_upstream.rs"]
mod pool_upstream;
#[path = "suite/pool_virtual.rs"]
mod pool_virtual;
#[path = "suite/pool_waits.rs"]
mod pool_waits;
#[path = "suite/pool_wake.rs"]
mod pool_wake;
#[path = "suite/pressure.rs"]
mod pressure;
#[path = "suite/programs.rs"]
mod programs;
#[path = "suite/recorder.rs"]
mod recorder;
#[path = "suite/release.rs"]
mod release;
#[path = "suite/reservation.rs"]
mod reservation;
#[path = "suite/segments.rs"]
mod segments;
#[path = "suite/shared_adaptors.rs"]
mod shared_adaptors;
#[path = "suite/sibling_groups.rs"]
mod sibling_groups;
#[path = "suite/siblings.rs"]
mod siblings;
#[path = "suite/siblings_unused.rs"]
mod siblings_unused;
#[path = "suite/soak.rs"]
mod soak;
#[path = "suite/suballocators.rs"]
mod suballocators;
#[path = "suite/support.rs"]
mod support;
#[path = "suite/tag_kernels.rs"]
mod tag_kernels;
#[path = "suite/trim.rs"]
mod trim;
#[path = "suite/watchdog.rs"]
mod watchdog;
#[path = "suite/wrong_frees.rs"]
mod wrong_frees;
