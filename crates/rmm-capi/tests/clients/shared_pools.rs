//! Random programs in which a client shares a pool with others, on the default streams, and on
//! streams that block with the legacy one.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr;

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{AnyResource, CudaStream, DevicePtr, Resource as _};
use rmm_resources::CudaMemoryResource;
use rmm_rs::ResourceHandle;

use super::fixtures::*;

const LEGACY: usize = 0;

/// Those that block with the legacy default stream.
const BLOCKING: [usize; 3] = [1, 2, 3];

fn streams() -> [Stream; 5] {
    let per_thread = Stream(CudaStream::per_thread());
    [Stream::legacy(), Stream::blocking(), Stream::blocking(), per_thread, Stream::new()]
}

/// Whether the next work of one of the streams comes after that of the other by itself.
fn are_ordered(first: usize, second: usize) -> bool {
    let is_pair = |one, other| one == LEGACY && BLOCKING.contains(&other);
    first == second || is_pair(first, second) || is_pair(second, first)
}

struct Held {
    block: *mut c_void,
    bytes: usize,
    is_of_client: bool,
    own: usize,
    last: usize,
}

struct Program<'p> {
    pool: &'p PoolMemoryResource,
    client: Client,
    streams: [Stream; 5],
    held: Vec<Held>,
}

impl Program<'_> {
    fn allocate(&mut self, numbers: &mut Numbers) {
        let own = [0, 0, 0, 0, 1, 2, 3, 4][numbers.below(8)];
        let bytes = [512, 5000, 64 << 10, MIB, MIB + 1, 3 * MIB][numbers.below(6)];
        let is_of_client = numbers.below(2) == 0;
        let block = if is_of_client {
            self.client.try_allocate(&self.streams[own], bytes).ok()
        } else {
            let pointer = self.pool.allocate(&self.streams[own].0, layout(bytes)).ok();
            pointer.map(|it| ptr::without_provenance_mut(usize::try_from(it.0).expect("64 bits")))
        };
        let Some(block) = block else { return };
        // Others may leave the first use to a stream that blocks with the legacy one.
        let is_others = own == LEGACY && !is_of_client && numbers.below(2) == 0;
        let last = if is_others { BLOCKING[numbers.below(3)] } else { own };
        self.streams[last].fill(block, bytes);
        self.held.push(Held { block, bytes, is_of_client, own, last });
    }

    fn use_one(&mut self, numbers: &mut Numbers) {
        let (index, other) = (numbers.below(self.held.len()), numbers.below(5));
        let Held { block, is_of_client, own, ref mut last, .. } = self.held[index];
        if !are_ordered(*last, other) || numbers.below(2) == 0 {
            self.streams[other].wait_for(&self.streams[*last]);
        }
        self.streams[other].fill(block, 1 + numbers.below(512));
        *last = other;
        if is_of_client {
            record(block, &self.streams[other]);
        } else if !are_ordered(own, other) || own != LEGACY {
            self.streams[own].wait_for(&self.streams[other]);
            *last = own;
        }
    }

    fn free(&mut self, index: usize) {
        let Held { block, bytes, is_of_client, own, .. } = self.held.swap_remove(index);
        if is_of_client {
            return free(block);
        }
        let pointer = DevicePtr::new(block.addr() as u64);
        // SAFETY: allocated by the pool with this layout; its uses come before in the order of the
        // stream, once that has work.
        unsafe { self.pool.deallocate(&self.streams[own].0, pointer, layout(bytes)) };
    }

    fn run(&mut self, seed: u64) {
        let mut numbers = Numbers::new(seed);
        for _ in 0..300 {
            match numbers.below(12) {
                5..7 if !self.held.is_empty() => self.use_one(&mut numbers),
                7..11 if !self.held.is_empty() => self.free(numbers.below(self.held.len())),
                11 => match numbers.below(12) {
                    0 => self.client.settle(),
                    1 => self.client.poll(),
                    2 => MACHINE.run_all(),
                    3 => drop(self.pool.trim(0)),
                    _ => {}
                },
                _ => self.allocate(&mut numbers),
            }
        }
        while !self.held.is_empty() {
            self.free(0);
        }
        self.client.settle();
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a layout")
}

#[test]
fn each_use_of_shared_memory_comes_after_the_one_before() {
    use PoolPreset::{Compact, Deterministic, LowLatency, Throughput};
    let _test = Test::begin();
    let before = MACHINE.violations().len();
    for seed in 0..32 {
        let preset = [Throughput, Compact, Deterministic, LowLatency][seed % 4];
        // The smallest ones are full now and then.
        let maximum = [8 << 20, 24 << 20, 1 << 30][seed % 3];
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
        let pool = builder.preset(preset).maximum_size(maximum).build().expect("a pool");
        let resource = Pool(ResourceHandle::handle_of(AnyResource::of(&pool)));
        let client = Client::new(0, resource.0);
        Program { pool: &pool, client, streams: streams(), held: Vec::new() }.run(seed as u64);
        let violations = MACHINE.violations();
        assert!(violations.len() == before, "seed {seed}, {preset:?}: {}", violations[before]);
    }
}
