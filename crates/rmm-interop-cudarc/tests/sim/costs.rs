//! Driver calls of lending.

use std::collections::BTreeMap;

use cudarc_0_19 as cudarc;
use rmm_containers::DeviceUVector;
use rmm_interop_cudarc::{Lend, LendMut, Stream};
use rmm_sim::Machine;

use crate::common::*;

/// The driver calls of `run`, but for those that ask which context is current.
fn calls(machine: &Machine, run: &mut dyn FnMut()) -> BTreeMap<&'static str, u64> {
    run();
    let before: BTreeMap<_, _> = machine.call_counts().into_iter().collect();
    run();
    let after = machine.call_counts().into_iter();
    after
        .map(|(name, count)| (name, count - before.get(name).copied().unwrap_or(0)))
        .filter(|(name, count)| *count > 0 && !name.starts_with("cuCtxGet"))
        .collect()
}

#[test]
fn lending_on_the_containers_own_stream_makes_no_call() {
    load();
    let machine = rmm_sim::enter();
    let context = cudarc::driver::CudaContext::new(0).unwrap();
    let (s, pool) = (stream(&context), pool());
    let mut x = DeviceUVector::<f32>::zeroed_in(100, &s, &pool).unwrap();
    let none = BTreeMap::new();
    assert_eq!(calls(&machine, &mut || drop(x.lend(&s).unwrap())), none);
    assert_eq!(calls(&machine, &mut || drop(x.lend_mut(&s).unwrap())), none);
}

#[test]
fn lending_to_another_stream_costs_what_use_on_does() {
    load();
    let machine = rmm_sim::enter();
    let context = cudarc::driver::CudaContext::new(0).unwrap();
    let (s, other, pool) = (stream(&context), stream(&context), pool());
    let count = |lend: &dyn Fn(&mut DeviceUVector<f32>, &Stream)| {
        let mut x = DeviceUVector::<f32>::zeroed_in(100, &s, &pool).unwrap();
        calls(&machine, &mut || lend(&mut x, &other))
    };
    let lent = count(&|x, stream| drop(x.lend_mut(stream).unwrap()));
    let used = count(&|x, stream| drop(x.use_on_mut(stream).unwrap()));
    assert_eq!(lent, used);
}

#[test]
fn a_pools_vector_needs_no_event_and_a_slice_of_cudarc_two() {
    load();
    let machine = rmm_sim::enter();
    let context = cudarc::driver::CudaContext::new(0).unwrap();
    let (s, pool) = (stream(&context), pool());
    let ours =
        calls(&machine, &mut || drop(DeviceUVector::<f32>::uninit_in(100, &s, &pool).unwrap()));
    assert_eq!(ours, BTreeMap::new());
    // SAFETY: the elements are not read.
    let theirs = calls(&machine, &mut || drop(unsafe { s.alloc::<f32>(100) }.unwrap()));
    assert_eq!(theirs.get("cuEventCreate"), Some(&2));
    assert_eq!(theirs.get("cuMemAllocAsync"), Some(&1));
}
