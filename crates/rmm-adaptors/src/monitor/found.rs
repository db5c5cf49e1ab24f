//! The pools and tags of a stack of resources.

use std::sync::Arc;

use rmm_core::{Device, Introspect as _, SynchronousResource};

use crate::adaptors::TagSource;
use crate::suballocators::PoolSource;

/// A pool, and what its figures are called.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) name: Arc<str>,
    pub(super) device: Option<usize>,
    pub(super) source: PoolSource,
}

/// The tags of an adaptor.
#[derive(Clone)]
pub(super) struct Tags {
    pub(super) name: Arc<str>,
    pub(super) device: Option<usize>,
    pub(super) source: TagSource,
}

/// What was found, each once.
#[derive(Clone, Default)]
pub(super) struct Found {
    pub(super) pools: Vec<Pool>,
    pub(super) tags: Vec<Tags>,
}

impl Found {
    /// Adds what the stack has, which may be a tree. Pools that are known keep their name; for
    /// others `device_of` says where they are.
    pub(super) fn add(
        &mut self,
        name: &str,
        resource: &(dyn SynchronousResource + 'static),
        device_of: impl Fn(&PoolSource) -> Option<usize>,
    ) {
        let (mut pools, mut tags) = (Vec::new(), Vec::new());
        visit(resource, &mut pools, &mut tags);
        let mut device = None;
        for (index, source) in pools.into_iter().enumerate() {
            if let Some(known) = self.pools.iter().find(|known| known.source.is(&source)) {
                device = device.or(known.device);
                continue;
            }
            let of_pool = device_of(&source);
            device = device.or(of_pool);
            let name =
                if index == 0 { name.into() } else { format!("{name}/{}", index + 1).into() };
            self.pools.push(Pool { name, device: of_pool, source });
        }
        for source in tags {
            if !self.tags.iter().any(|known| known.source.is(&source)) {
                self.tags.push(Tags { name: name.into(), device, source });
            }
        }
    }

    /// Forgets the topmost pool of a stack, so that it gets another name.
    pub(super) fn remove_top(&mut self, resource: &(dyn SynchronousResource + 'static)) {
        let (mut pools, mut tags) = (Vec::new(), Vec::new());
        visit(resource, &mut pools, &mut tags);
        self.pools.retain(|pool| !pools.first().is_some_and(|top| top.is(&pool.source)));
        self.tags.retain(|known| !tags.iter().any(|tags| tags.is(&known.source)));
    }

    /// Forgets what has this name.
    pub(super) fn remove(&mut self, name: &str) {
        let is_of = |label: &str| {
            label.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_number(rest))
        };
        self.pools.retain(|pool| !is_of(&pool.name));
        self.tags.retain(|tags| &*tags.name != name);
    }

    /// Forgets what no longer exists.
    pub(super) fn forget_gone(&mut self) {
        self.pools.retain(|pool| pool.source.exists());
        self.tags.retain(|tags| tags.source.exists());
    }
}

/// Whether it is what [`Found::add`] appends to a name.
fn is_number(text: &str) -> bool {
    let number = text.strip_prefix('/');
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}

/// The topmost first.
fn visit(
    branch: &(dyn SynchronousResource + 'static),
    pools: &mut Vec<PoolSource>,
    tags: &mut Vec<TagSource>,
) {
    // Pointers are seen through.
    let Some(resource) = branch.stack().next() else { return };
    if let Some(pool) = resource.try_value::<PoolSource>()
        && !pools.iter().any(|known| known.is(&pool))
    {
        pools.push(pool);
    }
    tags.extend(resource.try_value::<TagSource>());
    let upstream = resource.upstream_resource();
    for below in upstream.into_iter().chain(resource.other_upstreams()) {
        visit(below, pools, tags);
    }
}

/// The ordinal of a pool's device: asks the driver.
pub(super) fn device_of(pool: &PoolSource) -> Option<usize> {
    let _context = pool.context()?.enter().ok()?;
    Device::current().ok().map(Device::ordinal)
}
