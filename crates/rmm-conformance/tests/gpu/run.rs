//! Running a check in every cell, or in every place.

use std::io::Write;
use std::sync::Once;

use rmm_conformance::{Cell, Environment, Failure, Outcome, Place, ResourceChoice};
use rmm_core::driver_in_context;

/// Defines a test for each check of the suite, over pools of at most `$capacity` bytes and the
/// resources without a limit.
macro_rules! conformance {
    ($capacity:expr; $($check:ident),* $(,)?) => {$(
        #[test]
        fn $check() {
            use rmm_adaptors::{
                ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
            };
            use rmm_conformance::{ResourceChoice, suite};
            use rmm_resources::{
                CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource,
                CudaAsyncPinnedMemoryResource, CudaAsyncViewMemoryResource, CudaMemoryResource,
                ManagedMemoryResource, PinnedHostMemoryResource, SamHeadroomMemoryResource,
                SystemMemoryResource, VirtualMemoryResource,
            };

            crate::run::in_every_cell(|cell| match cell.resource {
                ResourceChoice::Pool => {
                    let pool = || {
                        let upstream = CudaMemoryResource::new();
                        PoolMemoryResource::builder(upstream).maximum_size($capacity).build()
                    };
                    cell.run(Some($capacity), pool, |subject| suite::$check(subject))
                }
                ResourceChoice::Binning => {
                    let blocks = |bytes| {
                        let upstream = CudaMemoryResource::new();
                        FixedSizeMemoryResource::builder(upstream)
                            .block_size(bytes)
                            .blocks(64)
                            .build()
                    };
                    let binning = || {
                        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
                        let bins = BinningMemoryResource::builder_of(pool);
                        let bins = bins.bin_of(1 << 10, blocks(1 << 10)?)?;
                        Ok(bins.bin_of(64 << 10, blocks(64 << 10)?)?.build())
                    };
                    // Not the capacity of a pool: small blocks never merge into large ones.
                    cell.run(None, binning, |subject| suite::$check(subject))
                }
                ResourceChoice::Arena => {
                    let arena = || {
                        let upstream = CudaMemoryResource::new();
                        let bytes = $capacity.max(16 << 20);
                        ArenaMemoryResource::builder(upstream).arena_size(bytes).build()
                    };
                    // Not the capacity of a pool, which can give pieces back and take others: where
                    // work is under way, memory that was freed on several streams is divided by
                    // what is handed out before it is known to be one range.
                    cell.run(None, arena, |subject| suite::$check(subject))
                }
                ResourceChoice::CudaAsync => {
                    cell.run(None, CudaAsyncMemoryResource::new, |subject| suite::$check(subject))
                }
                ResourceChoice::Cuda => {
                    let cuda = || Ok(CudaMemoryResource::new());
                    cell.run(None, cuda, |subject| suite::$check(subject))
                }
                ResourceChoice::Virtual => {
                    cell.run(None, VirtualMemoryResource::new, |subject| suite::$check(subject))
                }
                ResourceChoice::PoolVirtual => {
                    let pool = || {
                        PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()
                    };
                    // Without a limit, of which blocks would have to use every byte: they lie where
                    // there was room, in one piece of memory, and two halves of a block may be left
                    // in different places.
                    cell.run(None, pool, |subject| suite::$check(subject))
                }
                ResourceChoice::CudaAsyncView => {
                    let view = || {
                        CudaAsyncViewMemoryResource::of_default_pool(rmm_core::Device::current()?)
                    };
                    cell.run(None, view, |subject| suite::$check(subject))
                }
                ResourceChoice::CudaAsyncManaged => {
                    let managed = CudaAsyncManagedMemoryResource::new;
                    cell.run(None, managed, |subject| suite::$check(subject))
                }
                ResourceChoice::CudaAsyncPinned => {
                    let pinned = CudaAsyncPinnedMemoryResource::new;
                    cell.run(None, pinned, |subject| suite::$check(subject))
                }
                ResourceChoice::Managed => {
                    let managed = || Ok(ManagedMemoryResource::new());
                    cell.run(None, managed, |subject| suite::$check(subject))
                }
                ResourceChoice::Pinned => {
                    let pinned = || Ok(PinnedHostMemoryResource::new());
                    cell.run(None, pinned, |subject| suite::$check(subject))
                }
                ResourceChoice::System => {
                    cell.run(None, SystemMemoryResource::new, |subject| suite::$check(subject))
                }
                ResourceChoice::Adapted(adapted) => {
                    let make = || adapted.make($capacity);
                    cell.run(adapted.capacity($capacity), make, |subject| suite::$check(subject))
                }
                ResourceChoice::SamHeadroom => {
                    let sam = || SamHeadroomMemoryResource::new(1 << 30);
                    cell.run(None, sam, |subject| suite::$check(subject))
                }
            });
        }
    )*};
}
pub(crate) use conformance;

/// Runs `check` in every cell that the environment chooses, and panics with all that is wrong.
#[track_caller]
pub(crate) fn in_every_cell(check: impl Fn(&Cell) -> Outcome) {
    let cells = match Cell::selected() {
        Ok(cells) => cells,
        Err(failure) => panic!("{failure}"),
    };
    let mut failures = Vec::new();
    for cell in cells {
        announce(cell);
        if let Err(failure) = check(&cell) {
            failures.push(format!("{cell}: {failure}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a check of something that is built on the resource once in every place where the resource
/// was chosen and is supported, and panics with what is wrong.
#[track_caller]
pub(crate) fn in_places_with(resource: ResourceChoice, check: impl Fn(&Environment) -> Outcome) {
    let cells = Cell::selected().unwrap_or_else(|failure| panic!("{failure}"));
    let chosen =
        |place: &Place| cells.iter().any(|cell| cell.place == *place && cell.resource == resource);
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    for place in places.into_iter().filter(chosen) {
        let checked = Environment::open(place).and_then(|environment| {
            if !resource.is_supported()? {
                return Ok(());
            }
            check(&environment)?;
            environment.verify()
        });
        if let Err(failure) = checked {
            panic!("{place:?}: {failure}");
        }
    }
}

/// Runs a check that is about no stream or resource in particular in every place that the
/// environment chooses, and panics with what is wrong.
#[track_caller]
pub(crate) fn in_every_place(check: impl Fn() -> Outcome) {
    in_every_environment(|_| check());
}

/// As [`in_every_place`], for checks that need the device itself.
#[track_caller]
pub(crate) fn in_every_environment(check: impl Fn(&Environment) -> Outcome) {
    open_every_place(Environment::open, check);
}

/// As [`in_every_environment`], for checks in which the software device would see misuse.
#[track_caller]
pub(crate) fn in_every_environment_unwatched(check: impl Fn(&Environment) -> Outcome) {
    open_every_place(Environment::open_unwatched, check);
}

/// As [`in_every_place`], for checks of what a driver answers to misuse, which the software device
/// would tell as such.
#[track_caller]
pub(crate) fn in_every_place_unwatched(check: impl Fn() -> Outcome) {
    open_every_place(Environment::open_unwatched, |_| check());
}

#[track_caller]
fn open_every_place(
    open: impl Fn(Place) -> Result<Environment, Failure>,
    check: impl Fn(&Environment) -> Outcome,
) {
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    for place in places {
        let checked = open(place).and_then(|environment| {
            driver_in_context()?;
            check(&environment)?;
            environment.verify()
        });
        if let Err(failure) = checked {
            panic!("{place:?}: {failure}");
        }
    }
}

/// Says once on which device this is. That it cannot be opened is for the check to say.
fn announce(cell: Cell) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(environment) = Environment::open(cell.place)
            && let Ok(name) = environment.device_name()
        {
            // Not by `println!`, which the test runner keeps to itself.
            let _unseen = writeln!(std::io::stderr(), "conformance suite on: {name}");
        }
    });
}
