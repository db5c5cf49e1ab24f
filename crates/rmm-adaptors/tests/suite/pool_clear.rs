//! Tests of a pool that clears blocks: no tenant sees what another has left.

use std::sync::{Arc, Mutex};

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{CudaStream, DevicePtr, Resource, SynchronousResource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Checker, Kernel, Machine, MachineBuilder, Schedule};
use rmm_sys::CuResult;

use crate::harness::order;
use crate::support::{MIB, base_seed, free, layout, mib, stream};

fn description(schedule: Schedule) -> MachineBuilder {
    Machine::builder().memory(64 << 20).schedule(schedule)
}

/// The allocations whose bytes were not all zero.
type Dirty = Arc<Mutex<Vec<usize>>>;

/// Enqueues what a tenant does with a block: looks at all of it, and leaves other bytes there.
fn look_and_leave(
    machine: &Machine,
    stream: &CudaStream,
    (block, bytes): (DevicePtr, usize),
    (number, dirty): (usize, &Dirty),
) {
    let dirty = Arc::clone(dirty);
    let kernel = Kernel::new("tenant", move |memory| {
        let mut found = vec![1; bytes];
        memory.read(block, &mut found).expect("declared memory");
        if found.iter().any(|&byte| byte != 0) {
            dirty.lock().expect("no kernel panics").push(number);
        }
        memory.write(block, &vec![0xA5; bytes]).expect("declared memory");
    });
    let kernel = kernel.reads(block, bytes).writes(block, bytes);
    machine.launch(stream.as_raw(), kernel).expect("a launch");
}

/// Tenants with a stream each, of which one after the other gets memory, also without a stream.
fn tenants_take_turns<R: Resource + SynchronousResource>(machine: &Machine, pool: &R, seed: usize) {
    let tenants = [stream(), CudaStream::new().expect("a stream"), CudaStream::legacy(), stream()];
    let sizes = [256, 1000, 5000, 70 << 10, MIB, 3 * MIB + 100];
    let dirty = Dirty::default();
    let mut live: Vec<(DevicePtr, usize, usize)> = Vec::new();
    for turn in 0..200_usize {
        let mixed = (turn + seed).wrapping_mul(2_654_435_761) >> 7;
        let (tenant, bytes) = (mixed % tenants.len(), sizes[mixed / 5 % sizes.len()]);
        let allocated = if mixed.is_multiple_of(11) {
            pool.allocate_sync(layout(bytes))
        } else {
            pool.allocate(&tenants[tenant], layout(bytes))
        };
        let block = allocated.expect("there is memory");
        look_and_leave(machine, &tenants[tenant], (block, bytes), (turn, &dirty));
        live.push((block, bytes, tenant));
        while live.len() > mixed % 7 {
            let (block, bytes, owner) = live.swap_remove(mixed % live.len());
            let on = (owner + mixed / 3 % 2) % tenants.len();
            order(&tenants[owner], &tenants[on]).expect("an order");
            free(pool, &tenants[on], block, bytes);
        }
    }
    for (block, bytes, owner) in live {
        free(pool, &tenants[owner], block, bytes);
    }
    machine.run_all();
    assert_eq!(*dirty.lock().expect("no kernel panics"), [0; 0]);
}

#[test]
fn no_tenant_sees_what_another_has_left() {
    let schedules = [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(base_seed())];
    let presets = [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];
    for (seed, schedule) in schedules.into_iter().enumerate() {
        for preset in presets {
            let machine = description(schedule).enter();
            let over_cuda = PoolMemoryResource::builder(CudaMemoryResource::new());
            let over_cuda = over_cuda.preset(preset).clear_blocks(true).maximum_size(mib(40));
            tenants_take_turns(&machine, &over_cuda.build().expect("a pool"), seed);
            let upstream = VirtualMemoryResource::new().expect("virtual memory");
            let over_virtual = PoolMemoryResource::builder(upstream).maximum_size(mib(40));
            let over_virtual = over_virtual.preset(preset).clear_blocks(true);
            tenants_take_turns(&machine, &over_virtual.build().expect("a pool"), seed);
            machine.assert_no_violations();
            assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
        }
    }
}

#[test]
fn a_block_without_a_stream_is_clear_when_it_is_there() {
    let machine = description(Schedule::Lazy).enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.clear_blocks(true).initial_size(mib(4)).build().expect("a pool");
    for _ in 0..3 {
        let block = pool.allocate_sync(layout(4096)).expect("there is memory");
        let mut bytes = [1; 4096];
        machine.read(block, &mut bytes).expect("device memory");
        assert_eq!(bytes, [0; 4096]);
        machine.write(block, &[7; 4096]).expect("device memory");
        // SAFETY: allocated above with this layout, and all uses have completed.
        unsafe { pool.deallocate_sync(block, layout(4096)) };
    }
    let stream = stream();
    for _ in 0..20 {
        let block = pool.allocate(&stream, layout(4096)).expect("there is memory");
        free(&pool, &stream, block, 4096);
    }
    assert!(pool.statistics().cached_bytes > 0, "blocks of the cache are cleared, too");
    machine.assert_no_violations();
}

#[test]
fn a_block_that_cannot_be_cleared_is_free_again() {
    Checker::new().machine(description(Schedule::Lazy)).fail_each_call(
        CuResult::UNKNOWN,
        |machine| {
            let _entered = machine.enter();
            let (pool, stream) = machine.without_faults(|| {
                let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
                let builder = builder.clear_blocks(true).maximum_size(mib(4));
                (builder.initial_size(mib(4)).build().expect("a pool"), stream())
            });
            for _ in 0..2 {
                if let Ok(block) = pool.allocate(&stream, layout(3 * MIB)) {
                    free(&pool, &stream, block, 3 * MIB);
                }
                if let Ok(block) = pool.allocate_sync(layout(3 * MIB)) {
                    // SAFETY: allocated just now with this layout, and all uses have completed.
                    unsafe { pool.deallocate_sync(block, layout(3 * MIB)) };
                }
            }
            machine.without_faults(|| {
                assert_eq!(pool.statistics().live_bytes, 0);
                let block = pool.allocate(&stream, layout(4 * MIB)).expect("all of it is free");
                free(&pool, &stream, block, 4 * MIB);
                drop((pool, stream));
            });
        },
    );
}
