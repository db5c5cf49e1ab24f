//! Leaks: the objects that were not released.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::engine::state::State;
use crate::model::origins::Key;
use crate::model::trace::{Leak, LeakKind};

/// An object that was not released, its description, and its bytes.
type Unreleased = (Key, String, usize);

impl State {
    /// All objects that were not released, except those of lost contexts, which cannot be released.
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        let leak = |(key, what, bytes): Unreleased| Leak {
            kind: key.0,
            what,
            bytes,
            made_at: self.checks.origins.of(key),
        };
        self.unreleased().into_iter().map(leak).collect()
    }

    /// Records that the current call made an object.
    pub(crate) fn note_origin(&mut self, kind: LeakKind, key: u64) {
        let Some(site) = self.checks.call_site() else { return };
        if self.checks.origins.is_full() {
            let keys: HashSet<Key> = self.unreleased().into_iter().map(|(key, ..)| key).collect();
            self.checks.origins.retain(|key| keys.contains(key));
        }
        self.checks.origins.insert((kind, key), site);
    }

    fn unreleased(&self) -> Vec<Unreleased> {
        let leak = |kind: LeakKind, key: u64, what, bytes| ((kind, key), what, bytes);
        let works = |device: usize| self.devices[device].failed.is_none();
        let mut leaks = Vec::new();
        let allocations = self.allocations.iter().filter(|allocation| works(allocation.device));
        leaks.extend(allocations.map(|allocation| {
            let place = self.describe(allocation.start);
            let what = format!("{} bytes at {place} ({:?})", allocation.bytes, allocation.kind);
            leak(LeakKind::Allocation, allocation.start as u64, what, allocation.bytes)
        }));
        let streams = self
            .stream_slots
            .keys()
            .filter(|&id| self.streams.get(id).is_none_or(|stream| works(stream.device)));
        leaks.extend(streams.map(|id| leak(LeakKind::Stream, id, format!("stream {id}"), 0)));
        let events = self
            .event_slots
            .keys()
            .filter(|key| self.events.get(key).is_none_or(|event| works(event.device)));
        leaks.extend(events.map(|key| leak(LeakKind::Event, key, format!("event {key}"), 0)));
        let created = self.contexts.iter().enumerate().skip(self.devices.len());
        let held = created.filter(|(_, context)| context.id.is_some() && works(context.device));
        leaks.extend(held.map(|(index, context)| {
            let what = format!("a context of device {}", context.device);
            leak(LeakKind::Context, index as u64, what, 0)
        }));
        let own = |key: &u64| self.pools.get(key).is_some_and(|pool| !pool.is_default);
        leaks.extend(
            self.pool_slots
                .keys()
                .filter(own)
                .map(|key| leak(LeakKind::Pool, key, format!("pool {key}"), 0)),
        );
        let virtual_memory = &self.virtual_memory;
        leaks.extend(virtual_memory.reservations().map(|range| {
            let what = format!("{} addresses from {} on", range.len(), self.describe(range.start));
            leak(LeakKind::AddressRange, range.start as u64, what, range.len())
        }));
        let held = virtual_memory.physical.iter().filter(|(_, physical)| physical.references > 0);
        leaks.extend(held.map(|(&key, physical)| {
            let references = physical.references;
            let what = format!("{references} references to physical memory {key}");
            leak(LeakKind::PhysicalMemory, key, what, physical.bytes)
        }));
        leaks.extend(virtual_memory.mappings().map(|(start, mapped)| {
            let place = self.describe(start);
            let what = format!("mapping of physical memory {} at {place}", mapped.physical);
            leak(LeakKind::Mapping, start as u64, what, mapped.bytes)
        }));
        let graphs = &self.captures.graphs;
        let keys = graphs.slots.keys().chain(graphs.executable_slots.keys());
        leaks.extend(keys.map(|key| leak(LeakKind::Graph, key, format!("graph {key}"), 0)));
        leaks
    }
}
