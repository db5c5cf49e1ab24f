//! The state of a machine, protected by one lock.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rmm_sys::{CuResult, SYMBOLS};

use crate::model::captures::Captures;
use crate::model::checks::{Checks, Settings};
use crate::model::context::Context;
use crate::model::costs::Costs;
use crate::model::device::Device;
use crate::model::event::Event;
use crate::model::fault::Faults;
use crate::model::handle::Slots;
use crate::model::host::HostMemory;
use crate::model::kernels::Kernels;
use crate::model::memory::Allocations;
use crate::model::pool::{Medium, Pool};
use crate::model::prefetch::Prefetches;
use crate::model::schedule::{Choices, Schedule};
use crate::model::sim_time::SimTime;
use crate::model::streams::{StreamKind, Streams};
use crate::model::trace::TraceEntry;
use crate::model::vector_clock::VectorClock;
use crate::model::virtual_memory::VirtualMemory;

#[derive(Debug)]
pub(crate) struct State {
    /// The machine's number, which its handles contain.
    pub(crate) machine: u32,
    pub(crate) driver_version: i32,
    pub(crate) schedule: Schedule,
    pub(crate) choices: Choices,
    /// The functions that a driver of this version lacks.
    pub(crate) missing_functions: BTreeSet<&'static str>,
    /// Whether the driver has shut down.
    pub(crate) dead: bool,
    /// How many threads run work in the background.
    pub(crate) background: usize,

    pub(crate) devices: Vec<Device>,
    /// The primary contexts of the devices, then those that programs created.
    pub(crate) contexts: Vec<Context>,
    pub(crate) host: HostMemory,
    pub(crate) allocations: Allocations,
    pub(crate) prefetches: Prefetches,
    pub(crate) virtual_memory: VirtualMemory,
    pub(crate) pools: BTreeMap<u64, Pool>,
    pub(crate) pool_slots: Slots,
    /// The default pool of pinned memory of the host.
    pub(crate) host_pool: u64,

    pub(crate) streams: Streams,
    pub(crate) stream_slots: Slots,
    pub(crate) events: HashMap<u64, Event>,
    pub(crate) event_slots: Slots,
    pub(crate) captures: Captures,
    pub(crate) kernels: Kernels,
    /// The last key of an event, pool or context.
    pub(crate) last_key: u64,
    /// Whether a reset also ends pools and virtual memory, which belong to no context.
    pub(crate) reset_ends_all: bool,
    pub(crate) sim_time: SimTime,

    /// The stack of current contexts of each thread by number.
    pub(crate) context_stacks: HashMap<u64, Vec<usize>>,
    /// The per-thread default streams, by thread and context.
    pub(crate) thread_streams: HashMap<(u64, usize), u64>,

    pub(crate) faults: Faults,
    pub(crate) calls: BTreeMap<&'static str, u64>,
    pub(crate) trace: Vec<TraceEntry>,
    pub(crate) tracing: bool,
    pub(crate) checks: Checks,
}

impl State {
    pub(crate) fn new(
        machine: u32,
        devices: Vec<Device>,
        host: HostMemory,
        schedule: Schedule,
        driver_version: i32,
        checks: Settings,
        costs: Costs,
    ) -> Self {
        let mut state = Self {
            machine,
            driver_version,
            schedule,
            choices: Choices::of(schedule),
            missing_functions: missing_functions(driver_version),
            dead: false,
            background: 0,
            devices,
            contexts: Vec::new(),
            host,
            allocations: Allocations::default(),
            prefetches: Prefetches::default(),
            virtual_memory: VirtualMemory::default(),
            pools: BTreeMap::new(),
            pool_slots: Slots::default(),
            host_pool: 0,
            streams: Streams::new(checks.order),
            stream_slots: Slots::default(),
            events: HashMap::new(),
            event_slots: Slots::default(),
            captures: Captures::default(),
            kernels: Kernels::default(),
            last_key: 0,
            reset_ends_all: false,
            sim_time: SimTime::new(costs),
            context_stacks: HashMap::new(),
            thread_streams: HashMap::new(),
            faults: Faults::default(),
            calls: BTreeMap::new(),
            trace: Vec::new(),
            tracing: false,
            checks: Checks::new(checks),
        };
        for device in 0..state.devices.len() {
            state.add_context(device);
            let [pool, managed] = [Medium::Device, Medium::Managed]
                .map(|medium| state.insert_default_pool(device, medium));
            let device = &mut state.devices[device];
            device.managed_pool = managed;
            (device.default_pool, device.current_pool) = (pool, pool);
        }
        state.host_pool = state.insert_default_pool(0, Medium::Host);
        state
    }

    /// Adds a context that does not exist yet; returns its index.
    pub(crate) fn add_context(&mut self, device: usize) -> usize {
        let context = self.contexts.len();
        let legacy_stream = self.streams.create((context, device), StreamKind::Legacy, 0);
        let barrier = VectorClock::default();
        self.contexts.push(Context { device, id: None, flags: 0, legacy_stream, barrier });
        context
    }

    fn insert_default_pool(&mut self, device: usize, medium: Medium) -> u64 {
        let key = self.next_key();
        self.pools.insert(key, Pool::new(device, medium, 0, true));
        self.pool_slots.insert(key);
        key
    }

    /// A new key; keys are never reused.
    pub(crate) fn next_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    /// The device of an ordinal.
    ///
    /// # Errors
    /// `INVALID_DEVICE` if there is none.
    pub(crate) fn device(&self, ordinal: i32) -> Result<usize, CuResult> {
        usize::try_from(ordinal)
            .ok()
            .filter(|&device| device < self.devices.len())
            .ok_or(CuResult::INVALID_DEVICE)
    }
}

/// The optional functions that a driver of that version (1000 times the major number and 10 times
/// the minor) lacks.
fn missing_functions(version: i32) -> BTreeSet<&'static str> {
    let number = |since: &str| {
        let (major, minor) = since.split_once('.')?;
        Some(major.parse::<i32>().ok()? * 1000 + minor.parse::<i32>().ok()? * 10)
    };
    let newer = |since| number(since).is_some_and(|since| since > version);
    let optional = SYMBOLS.iter().filter(|(_, required, _)| !required);
    optional.filter(|(_, _, since)| newer(since)).map(|&(name, _, _)| name).collect()
}
