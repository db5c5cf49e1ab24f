//! The places where objects that were not released yet were made.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::model::call_site::CallSite;
use crate::model::trace::LeakKind;

/// An object: its kind, and the number or address by which the machine knows it.
pub(crate) type Key = (LeakKind, u64);

/// Entries that are kept without a look at whether their objects still exist.
const FEW: usize = 1024;

/// The call sites of objects. Those of released ones are removed now and then.
#[derive(Debug)]
pub(crate) struct Origins {
    sites: HashMap<Key, CallSite>,
    limit: usize,
}

impl Default for Origins {
    fn default() -> Self {
        Self { sites: HashMap::new(), limit: FEW }
    }
}

impl Origins {
    pub(crate) fn is_full(&self) -> bool {
        self.sites.len() >= self.limit
    }

    /// Forgets all objects but those that still exist.
    pub(crate) fn retain(&mut self, exists: impl Fn(&Key) -> bool) {
        self.sites.retain(|key, _| exists(key));
        self.limit = FEW.max(2 * self.sites.len());
    }

    pub(crate) fn insert(&mut self, key: Key, site: CallSite) {
        self.sites.insert(key, site);
    }

    pub(crate) fn of(&self, key: Key) -> Option<CallSite> {
        self.sites.get(&key).cloned()
    }
}
