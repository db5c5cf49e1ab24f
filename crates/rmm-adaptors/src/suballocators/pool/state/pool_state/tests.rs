//! Searches for free blocks of other streams.

use rmm_core::{CudaStream, DevicePtr};

use super::*;
use crate::suballocators::pool::caches::Class;
use crate::suballocators::pool::timeline::RecordPolicy;
use crate::suballocators::pool::values::units::GRANULE;

/// A pool in which each of these streams has freed a block.
fn state(streams: &[CudaStream]) -> (PoolState, Vec<ListId>) {
    let mut state = PoolState::new();
    let pieces = vec![GRANULE * streams.len() as u64];
    state.add_extent(&Extent { base: DevicePtr(1 << 32), pieces });
    let mut list_of = |stream: &CudaStream| {
        let (id, handle) = (stream.as_stream_ref().id(), stream.as_raw());
        let (list, _) = state.timeline.add(id, handle, RecordPolicy::OnDemand, true);
        assert_eq!(state.heap.add_list(), list);
        list
    };
    let lists: Vec<ListId> = streams.iter().map(&mut list_of).collect();
    let blocks: Vec<_> = lists.iter().map(|&list| state.take_free(list, GRANULE)).collect();
    for (&list, node) in lists.iter().zip(blocks) {
        let address = state.hand_out(node.expect("an idle block"), GRANULE);
        state.timeline.note_free(list, GRANULE);
        state.take_back(address, list, None).expect("it is live");
    }
    (state, lists)
}

fn streams(count: usize) -> Vec<CudaStream> {
    (0..count).map(|_| CudaStream::non_blocking().expect("a stream")).collect()
}

/// The steps of three searches: while no other stream's work is complete, once that of one is,
/// and once the stream has waited for another.
fn steps_with(count: usize) -> [usize; 3] {
    let _machine = rmm_sim::enter();
    let streams = streams(count);
    let (mut state, lists) = state(&streams);
    let [asking, complete, waited_for] = [lists[0], lists[1], lists[2]];
    let _own = state.take_free(asking, GRANULE).expect("what it has freed itself");
    let steps = |state: &mut PoolState, is_found: bool| {
        let before = state.heap.steps;
        assert_eq!(state.take_free(asking, GRANULE).is_some(), is_found);
        state.heap.steps - before
    };
    let none = steps(&mut state, false);
    state.timeline.finish_all(complete);
    let one = steps(&mut state, true);
    let record = |event: &rmm_core::CudaEvent| event.record(&streams[2]);
    state.timeline.seal(waited_for, record).expect("an event is recorded");
    let point = state.timeline.newest(waited_for);
    let waited = state.timeline.wait(asking, waited_for, point, |_| Ok(()));
    waited.expect("an event covers it");
    [none, one, steps(&mut state, true)]
}

#[test]
fn a_search_takes_as_many_steps_for_few_streams_as_for_many() {
    assert_eq!(steps_with(64), [0, 1, 1]);
    assert_eq!(steps_with(1024), [0, 1, 1]);
}

#[test]
fn a_list_whose_blocks_come_back_complete_is_looked_at_again() {
    let _machine = rmm_sim::enter();
    let (mut state, lists) = state(&streams(2));
    let [asking, other] = [lists[0], lists[1]];
    let point = state.timeline.open(other);
    let node = state.take_free(other, GRANULE).expect("what it has freed itself");
    let address = state.hand_out(node, GRANULE);
    let class = Class::holding(GRANULE).expect("it is small");
    state.transfer.record_demand(class);
    assert!(state.transfer.offer(class, (other, point), std::iter::once(address.0), u64::MAX));
    state.timeline.finish_all(other);
    let _own = state.take_free(asking, GRANULE).expect("what it has freed itself");
    assert_eq!(state.take_free(asking, GRANULE), None, "it is in the transfer cache");
    state.flush_transfer(None);
    assert!(state.take_free(asking, GRANULE).is_some());
}
