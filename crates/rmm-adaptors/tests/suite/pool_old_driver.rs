//! A driver that records no event behind all work of a context, as those before CUDA 12.5. An event
//! on the legacy default stream stands for the streams that block with it, and for no other.

use std::thread;
use std::time::Duration;

use rmm_core::{CudaStream, Device, DevicePtr, Resource, StreamLifetime};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Checker, Kernel, Machine, MachineBuilder, Schedule};

use crate::support::{MIB, Pool, free, layout, mib, stream, write};

const SIZE: usize = 2 * MIB;

fn old_machine() -> MachineBuilder {
    Machine::builder().memory(64 * MIB).driver_version(12040)
}

/// A pool with room for `blocks` blocks.
fn pool(blocks: u64) -> Pool {
    let builder = Pool::builder(CudaMemoryResource::new());
    builder.initial_size(mib(2 * blocks)).maximum_size(mib(2 * blocks)).build().expect("a pool")
}

fn allocate(pool: &Pool, stream: &CudaStream) -> DevicePtr {
    pool.allocate(stream, layout(SIZE)).expect("a block")
}

/// Allocates the only block, uses it, and frees it.
fn use_up(machine: &Machine, pool: &Pool, stream: &CudaStream) {
    let block = allocate(pool, stream);
    write(machine, stream, block, 1);
    free(pool, stream, block, SIZE);
}

#[test]
fn frees_of_an_ended_thread_are_in_reach_without_a_wait_for_the_device() {
    Checker::new().machine(old_machine()).run(|machine| {
        let (pool, heir) = (pool(1), stream());
        thread::scope(|scope| {
            let user = scope.spawn(|| {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                use_up(machine, &pool, &CudaStream::per_thread());
            });
            user.join().expect("it ends well");
        });
        use_up(machine, &pool, &heir);
        assert_eq!(pool.statistics().host_waits, 0);
    });
}

#[test]
fn frees_on_a_stream_of_unknown_end_wait_for_the_device() {
    Checker::new().machine(old_machine()).run(|machine| {
        let (pool, heir, owner) = (pool(1), stream(), stream());
        // SAFETY: the owner lives during all calls with it.
        let adopted = unsafe { CudaStream::adopt(owner.as_raw(), StreamLifetime::Unknown) };
        use_up(machine, &pool, &adopted.expect("it exists"));
        use_up(machine, &pool, &heir);
        assert_eq!(pool.statistics().host_waits, 1, "no event covers that stream");
    });
}

/// An event is used a second time. Its first record was behind work that its second is not behind.
#[test]
fn a_second_record_does_not_cover_what_the_first_did() {
    let machine = old_machine().schedule(Schedule::Timed).enter();
    let (pool, own) = (pool(3), CudaStream::per_thread());
    let [busy, gone, next, heir] = [(); 4].map(|()| stream());
    let keep_busy = |block| {
        let work = Kernel::new("write", |_| {}).writes(block, 8);
        let work = work.lasts(Duration::from_secs(1000));
        machine.launch(busy.as_raw(), work).expect("a launch");
    };
    // Of two streams with as much free memory, the one that came first is waited for.
    let block = allocate(&pool, &gone);
    free(&pool, &gone, block, SIZE);
    let owns = allocate(&pool, &own);
    for block in [(); 2].map(|()| allocate(&pool, &busy)) {
        keep_busy(block);
        free(&pool, &busy, block, SIZE);
    }
    // A stream waits for the busy one. An event on it is recorded for the next one, which takes the
    // block over.
    let passed = allocate(&pool, &gone);
    free(&pool, &gone, passed, SIZE);
    assert_eq!(allocate(&pool, &next), passed);
    // That event is spare now, and still waits for the busy stream.
    drop(gone);
    free(&pool, &own, owns, SIZE);
    assert_eq!(allocate(&pool, &heir), owns, "an event on the legacy stream covers it");
    let waits = pool.statistics().stream_waits;
    let block = allocate(&pool, &heir);
    write(&machine, &heir, block, 2);
    assert_eq!(pool.statistics().stream_waits, waits + 1, "the busy stream's last block");
    machine.assert_no_violations();
}
