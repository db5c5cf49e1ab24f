//! Tests of the concepts on the software device. One test program, so that the tests share
//! fixtures.

#[path = "suite/announced_streams.rs"]
mod announced_streams;
#[path = "suite/capabilities.rs"]
mod capabilities;
#[path = "suite/captures.rs"]
mod captures;
#[path = "suite/devices.rs"]
mod devices;
#[path = "suite/errors.rs"]
mod errors;
#[path = "suite/events.rs"]
mod events;
#[path = "suite/foreign_streams.rs"]
mod foreign_streams;
#[path = "suite/lost_context.rs"]
mod lost_context;
#[path = "suite/prefetch.rs"]
mod prefetch;
#[path = "suite/raw_handles.rs"]
mod raw_handles;
#[path = "suite/registry.rs"]
mod registry;
#[path = "suite/sizes.rs"]
mod sizes;
#[path = "suite/stream_pool.rs"]
mod stream_pool;
#[path = "suite/streams.rs"]
mod streams;
#[path = "suite/timed_events.rs"]
mod timed_events;
#[path = "suite/world.rs"]
mod world;
