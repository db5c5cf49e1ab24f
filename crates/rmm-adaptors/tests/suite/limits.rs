//! Tests of limits that the program changes while a resource is in use.

use rmm_adaptors::{
    ArenaMemoryResource, FixedSizeMemoryResource, LimitingResourceAdaptor, PoolMemoryResource,
};
use rmm_core::{
    AnyResource, Error, ErrorKind, Introspect, LimitId, RemedyAction, Resource, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, Pool, free, layout, mib, stream};

fn machine() -> Machine {
    Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build()
}

type SetLimit = Box<dyn Fn(u64) -> Result<(), Error>>;

/// A resource with a limit, which can be changed.
struct Limited {
    name: &'static str,
    resource: AnyResource,
    set: SetLimit,
    id: LimitId,
}

const KINDS: usize = 5;

/// Each with a limit of 8 MiB.
fn all() -> Vec<Limited> {
    let pool =
        Pool::builder(CudaMemoryResource::new()).maximum_size(mib(8)).build().expect("it is made");
    let upstream = VirtualMemoryResource::new().expect("it is made");
    let pages =
        PoolMemoryResource::builder(upstream).maximum_size(mib(8)).build().expect("it is made");
    let blocks = FixedSizeMemoryResource::builder(CudaMemoryResource::new()).block_size(mib(2));
    let blocks = blocks.blocks(1).maximum_size(mib(8)).build().expect("it is made");
    let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(mib(2));
    let arena = arena.maximum_size(mib(8)).build().expect("it is made");
    let limiting = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(8));
    macro_rules! limited {
        ($name:expr, $resource:ident, $set:expr) => {
            Limited {
                name: $name,
                resource: AnyResource::new($resource.clone()),
                id: $resource.limit_id(),
                set: Box::new(move |bytes| $set(&$resource, bytes)),
            }
        };
    }
    vec![
        limited!("pool", pool, |it: &Pool, bytes| it.set_maximum_size(bytes)),
        limited!("pool of pages", pages, |it: &PoolMemoryResource, bytes| {
            it.set_maximum_size(bytes)
        }),
        limited!("fixed-size", blocks, |it: &FixedSizeMemoryResource, bytes| {
            it.set_maximum_size(bytes)
        }),
        limited!("arena", arena, |it: &ArenaMemoryResource, bytes| it.set_maximum_size(bytes)),
        limited!("limiting", limiting, |it: &LimitingResourceAdaptor<_>, bytes| {
            it.set_allocation_limit(bytes);
            Ok(())
        }),
    ]
}

#[test]
fn a_refusal_says_whose_limit_to_raise_and_by_how_much() {
    for number in 0..KINDS {
        let machine = machine().enter();
        let (limited, on) = (all().swap_remove(number), stream());
        let _beside = all();
        let held: Vec<_> =
            (0..16).map_while(|_| limited.resource.allocate(&on, layout(2 * MIB)).ok()).collect();
        let error = limited.resource.allocate(&on, layout(2 * MIB)).expect_err("it is full");
        assert_eq!(error.limit_id(), Some(limited.id), "{}: {error:?}", limited.name);
        let remedy = error.remedies().iter().find_map(|remedy| match remedy.action {
            RemedyAction::RaiseLimit { limit, .. } => Some((limit, remedy.bytes)),
            _ => None,
        });
        let (limit, bytes) = remedy.unwrap_or_else(|| panic!("{}: no remedy", limited.name));
        assert_eq!(limit, limited.id, "{}", limited.name);
        (limited.set)(mib(8) + bytes).expect("there is room");
        let more = limited.resource.allocate(&on, layout(2 * MIB));
        let more = more.unwrap_or_else(|error| panic!("{}: {error:?}", limited.name));
        for block in held.into_iter().chain([more]) {
            free(&limited.resource, &on, block, 2 * MIB);
        }
        machine.assert_no_violations();
    }
}

#[test]
fn a_limit_below_what_is_held_refuses_growth_only() {
    for number in 0..KINDS {
        let machine = machine().enter();
        let (limited, [on, other]) = (all().swap_remove(number), [stream(), stream()]);
        let name = limited.name;
        let take = |size| limited.resource.allocate(&on, layout(size));
        let [first, second] = [0; 2].map(|_| take(2 * MIB).unwrap());
        (limited.set)(mib(2)).expect("less than is held");
        let mut held = Vec::new();
        let error = loop {
            match take(2 * MIB) {
                Ok(block) => held.push(block),
                Err(error) => break error,
            }
            assert!(held.len() < 4, "{name} may not grow");
        };
        assert!(error.is_out_of_memory(), "{name}: {error:?}");
        assert_eq!(error.limit_id(), Some(limited.id), "{name}");
        for block in held {
            free(&limited.resource, &on, block, 2 * MIB);
        }
        free(&limited.resource, &on, first, 2 * MIB);
        free(&limited.resource, &other, second, 2 * MIB);
        on.synchronize().unwrap();
        let block = take(2 * MIB).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        free(&limited.resource, &on, block, 2 * MIB);
        limited.resource.trim_blocking(0);
        (limited.set)(mib(8)).expect("as before");
        let blocks = [0; 2].map(|_| take(2 * MIB).unwrap());
        for block in blocks {
            free(&limited.resource, &on, block, 2 * MIB);
        }
        drop((limited, on, other));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{name}: {:?}", machine.leaks());
    }
}

type Lower = Box<dyn Fn() -> Result<(), Error>>;

#[test]
fn a_lowered_limit_still_lets_what_is_held_coalesce() {
    let machine = machine().enter();
    let upstream = VirtualMemoryResource::new().unwrap();
    let pages = PoolMemoryResource::builder(upstream).build().unwrap();
    let pool = Pool::builder(CudaMemoryResource::new()).initial_size(mib(16)).build().unwrap();
    let resources: [(AnyResource, Lower); 2] = [
        (AnyResource::new(pool.clone()), Box::new(move || pool.set_maximum_size(mib(4)))),
        (AnyResource::new(pages.clone()), Box::new(move || pages.set_maximum_size(mib(4)))),
    ];
    for (resource, lower) in resources {
        let streams = [stream(), stream()];
        let blocks = [0, 1].map(|on| resource.allocate(&streams[on], layout(8 * MIB)).unwrap());
        for (block, on) in blocks.into_iter().zip(&streams) {
            free(&resource, on, block, 8 * MIB);
        }
        lower().expect("a limit");
        let block = resource.allocate(&streams[0], layout(12 * MIB)).expect("both halves are free");
        free(&resource, &streams[0], block, 12 * MIB);
        let error = resource.allocate(&streams[0], layout(24 * MIB)).unwrap_err();
        assert!(error.is_out_of_memory(), "{error:?}");
    }
    machine.assert_no_violations();
}

#[test]
fn a_maximum_size_that_cannot_be_is_refused_and_changes_nothing() {
    let _machine = machine().enter();
    let upstream = VirtualMemoryResource::new().unwrap();
    let pages = PoolMemoryResource::builder(upstream).maximum_size(mib(8)).build().unwrap();
    for bytes in [mib(8) + 1, 4096] {
        let error = pages.set_maximum_size(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bytes}: {error:?}");
        assert_eq!(pages.maximum_size(), Some(mib(8)));
    }
    pages.set_maximum_size(None).unwrap();
    assert_eq!(pages.maximum_size(), None);
    pages.set_maximum_size(mib(5)).unwrap();
    assert_eq!(pages.maximum_size(), Some(mib(4)), "whole pages");
    pages.set_maximum_size(0).unwrap();
    assert!(pages.allocate_sync(layout(MIB)).unwrap_err().is_out_of_memory());
}

#[test]
fn a_name_is_in_errors_remedies_and_descriptions() {
    let _machine = machine().enter();
    let named = |name: &str| {
        let builder = Pool::builder(CudaMemoryResource::new()).name(name);
        builder.maximum_size(mib(4)).build().unwrap()
    };
    let (cache, weights) = (named("kv-cache"), named(&String::from("weights")));
    for (pool, name) in [(&cache, "kv-cache"), (&weights, "weights")] {
        assert_eq!(pool.name(), name);
        let error = pool.allocate_sync(layout(6 * MIB)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("out of memory: {name} could")), "{error}");
        let raise = format!("raise the limit of {name} by 2.0 MiB");
        assert_eq!(error.remedies()[0].to_string(), raise);
        assert!(pool.describe().to_string().starts_with(&format!("{name}: live")));
    }
    assert_eq!(named("weights").name(), "weights");
    assert_ne!(cache.limit_id(), weights.limit_id());
}

/// A thread raises the limit while others are refused: each gets its memory in the end.
#[test]
fn requests_that_are_refused_succeed_once_the_limit_is_raised() {
    let machine = machine().enter();
    let pool = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(2)).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _entered = machine.enter();
                let on = stream();
                let block = loop {
                    match pool.allocate(&on, layout(2 * MIB)) {
                        Ok(block) => break block,
                        Err(error) => assert!(error.is_out_of_memory(), "{error:?}"),
                    }
                };
                free(&pool, &on, block, 2 * MIB);
            });
        }
        for pages in 1..=8 {
            pool.set_maximum_size(mib(pages)).unwrap();
        }
    });
    machine.assert_no_violations();
}
