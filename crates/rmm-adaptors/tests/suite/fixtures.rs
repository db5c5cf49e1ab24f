//! Fixtures: a machine, and a pool with streams on it.

use rmm_adaptors::PoolMemoryResourceBuilder;
use rmm_core::CudaStream;
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, Pool, stream};

type PoolBuilder = PoolMemoryResourceBuilder;

/// A machine that runs work only when it is waited for: unordered work is never complete by chance.
pub(crate) fn lazy_machine() -> Machine {
    Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build()
}

/// The fixture of most tests of the pool: a [`lazy_machine`] that the thread has entered, a pool
/// with the given options, and as many non-blocking streams as the caller binds.
pub(crate) fn pool<const N: usize>(
    options: impl FnOnce(PoolBuilder) -> PoolBuilder,
) -> (Machine, impl Sized, Pool, [CudaStream; N]) {
    pool_on(lazy_machine(), options)
}

/// The fixture [`pool`] on this machine.
pub(crate) fn pool_on<const N: usize>(
    machine: Machine,
    options: impl FnOnce(PoolBuilder) -> PoolBuilder,
) -> (Machine, impl Sized, Pool, [CudaStream; N]) {
    let entered = machine.enter();
    let pool = options(Pool::builder(CudaMemoryResource::new())).build().expect("a pool");
    (machine, entered, pool, std::array::from_fn(|_| stream()))
}
