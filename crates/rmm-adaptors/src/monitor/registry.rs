//! What is known, and how it is read.

use std::sync::{Mutex, MutexGuard};

use rmm_core::{SynchronousResource, fork, per_device, process_is_exiting};

use super::found::{Found, device_of};
use super::{CURRENT, PoolMap, PoolReading, Reading, TagReading};

struct Registry {
    registered: Found,
    /// What the current resources of devices had at the last reading, beside what is registered.
    current: Found,
}

/// Taken with no lock of a resource held. The driver may be called in it, and resources are asked
/// for their structure; figures are read after it is released.
///
/// By the generation of the process: the child of a `fork` begins with none, whose lock no thread
/// of the parent can have held.
static REGISTRIES: [Mutex<Registry>; 16] = [const {
    Mutex::new(Registry {
        registered: Found { pools: Vec::new(), tags: Vec::new() },
        current: Found { pools: Vec::new(), tags: Vec::new() },
    })
}; 16];

fn lock() -> MutexGuard<'static, Registry> {
    fork::watch_forks();
    let generation = fork::generation() % REGISTRIES.len() as u64;
    fork::lock(&REGISTRIES[usize::try_from(generation).unwrap_or_default()])
}

/// Has the pools and tags of a stack read under this name, as long as they exist. A name that is
/// taken goes to this stack. The topmost pool gets the name; one below it that is registered
/// already keeps its own.
///
/// The resource may be a pool, an adaptor over one, or a type-erased handle. It is not kept alive.
pub fn register(name: &str, resource: &(impl SynchronousResource + 'static)) {
    let registered = &mut lock().registered;
    registered.forget_gone();
    registered.remove(name);
    registered.remove_top(resource);
    registered.add(name, resource, device_of);
}

/// No longer reads what was registered under this name, unless it is that of a current resource.
pub fn unregister(name: &str) {
    lock().registered.remove(name);
}

/// Reads all pools and tags that are known and still exist.
///
/// It calls the driver once for each pool of a current resource, and otherwise not. It takes the
/// lock of each pool for a few microseconds; requests that thread caches serve go on meanwhile.
pub fn read() -> Reading {
    let known = known();
    let pools = known.pools.iter().filter_map(|pool| {
        Some(PoolReading {
            pool: pool.name.clone(),
            device: pool.device,
            resource: pool.source.name()?,
            statistics: pool.source.statistics()?,
        })
    });
    let tags = known.tags.iter().filter_map(|tags| Some((tags, tags.source.read()?)));
    let tags = tags.flat_map(|(tags, usages)| {
        usages.into_iter().map(|usage| TagReading {
            pool: tags.name.clone(),
            device: tags.device,
            usage,
        })
    });
    Reading { pools: pools.collect(), tags: tags.collect() }
}

/// The blocks of all pools that are known and still exist. Takes time in the number of blocks;
/// requests of other threads go on in between. It empties the caches of threads, as
/// [`blocks`](crate::PoolMemoryResource::blocks) does.
pub fn maps() -> Vec<PoolMap> {
    let known = known();
    let maps = known.pools.iter().filter_map(|pool| {
        Some(PoolMap {
            pool: pool.name.clone(),
            device: pool.device,
            statistics: pool.source.statistics()?,
            blocks: pool.source.blocks()?,
        })
    });
    maps.collect()
}

/// What is registered, then what current resources have beside it.
fn known() -> Found {
    // Dropped after the lock is released: they may be the last handles to what was replaced.
    let resources = if process_is_exiting() { Vec::new() } else { per_device::all() };
    let mut registry = lock();
    registry.registered.forget_gone();
    let before = std::mem::take(&mut registry.current);
    let mut known = registry.registered.clone();
    let (pools, tags) = (known.pools.len(), known.tags.len());
    for resource in &resources {
        known.add(CURRENT, resource, |source| {
            // The driver is asked once for each pool.
            let is_known = before.pools.iter().find(|known| known.source.is(source));
            is_known.map_or_else(|| device_of(source), |known| known.device)
        });
    }
    registry.current.pools = known.pools[pools..].to_vec();
    registry.current.tags = known.tags[tags..].to_vec();
    drop(registry);
    drop(resources);
    known
}
