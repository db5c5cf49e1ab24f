//! Stream capture and graphs.

use std::ffi::c_ulonglong;

use rmm_sys::{CuCaptureMode, CuGraph, CuGraphExec, CuResult, CuStream};

use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::graph::Executable;
use crate::model::handle::{self, HandleKind};
use crate::model::trace::LeakKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Work;

impl Session<'_> {
    /// Enqueues the work of a graph on a stream, node by node, in topological order.
    fn launch_graph(
        &mut self,
        works: Vec<Work>,
        id: u64,
        after: &VectorClock,
    ) -> Result<Point, CuResult> {
        // The first item waits for `after`, and the others follow it in stream order.
        let mut last = self.enqueue_after(id, Work::Marker("graph"), after)?;
        for mut work in works {
            work.use_mappings(self.virtual_memory.last_mapping());
            last = self.enqueue(id, work)?;
        }
        Ok(last)
    }
}

/// Flags of an instantiation (`CUgraphInstantiate_flags`).
const AUTO_FREE_ON_LAUNCH: c_ulonglong = 1;
const DEVICE_LAUNCH: c_ulonglong = 4;
const USE_NODE_PRIORITY: c_ulonglong = 8;

/// Graphs have no memory nodes, which a launch could free, and priorities change no order.
///
/// # Errors
/// `INVALID_VALUE` for flags that the driver refuses, `NOT_SUPPORTED` for launches by the device.
fn check_flags(flags: c_ulonglong) -> Result<(), CuResult> {
    let without_effect = AUTO_FREE_ON_LAUNCH | USE_NODE_PRIORITY;
    match flags & !without_effect {
        0 => Ok(()),
        DEVICE_LAUNCH if flags & AUTO_FREE_ON_LAUNCH == 0 => Err(CuResult::NOT_SUPPORTED),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

driver_calls! {
    fn cuStreamBeginCapture_v2(stream: CuStream, mode: CuCaptureMode) by [stream] |session| {
        let id = session.stream(stream)?;
        session.begin_capture(id, mode)
    }

    fn cuStreamEndCapture(stream: CuStream, graph: *mut CuGraph) by [stream] |session| {
        graph.put(CuGraph::NULL)?;
        let id = session.stream(stream)?;
        let captured = session.end_capture(id)?;
        let key = session.next_key();
        let graphs = &mut session.captures.graphs;
        graphs.by_key.insert(key, captured);
        let slot = graphs.slots.insert(key);
        session.note_origin(LeakKind::Graph, key);
        graph.put(CuGraph::from_raw(handle::encode(session.machine_id(), HandleKind::Graph, slot)))
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut CuCaptureMode) by [] |session| {
        let former = session.exchange_mode(mode.get()?)?;
        mode.put(former)
    }

    fn cuGraphDestroy(graph: CuGraph) by [graph] |session| {
        let slot = handle::decode(graph.addr(), session.machine_id(), HandleKind::Graph);
        let graphs = &mut session.captures.graphs;
        let key = slot.and_then(|slot| graphs.slots.remove(slot)).ok_or(CuResult::INVALID_VALUE)?;
        graphs.by_key.remove(&key);
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(executable: *mut CuGraphExec, graph: CuGraph, flags: c_ulonglong) by [graph] |session| {
        executable.required()?;
        let slot = handle::decode(graph.addr(), session.machine_id(), HandleKind::Graph);
        let graphs = &session.captures.graphs;
        let graph = slot.and_then(|slot| graphs.slots.get(slot)).and_then(|key| graphs.by_key.get(&key));
        let works = graph.ok_or(CuResult::INVALID_VALUE)?.works();
        check_flags(flags)?;
        let key = session.next_key();
        let graphs = &mut session.captures.graphs;
        graphs.executables.insert(key, Executable { works, last: VectorClock::default() });
        let slot = graphs.executable_slots.insert(key);
        session.note_origin(LeakKind::Graph, key);
        executable.put(CuGraphExec::from_raw(handle::encode(session.machine_id(), HandleKind::Executable, slot)))
    }

    fn cuGraphLaunch(executable: CuGraphExec, stream: CuStream) by [executable, stream] |session| {
        let slot = handle::decode(executable.addr(), session.machine_id(), HandleKind::Executable);
        let key = slot.and_then(|slot| session.captures.graphs.executable_slots.get(slot));
        let key = key.ok_or(CuResult::INVALID_VALUE)?;
        let id = session.stream(stream)?;
        let executable = session.captures.graphs.executables.get(&key).ok_or(CuResult::INVALID_VALUE)?;
        let works = executable.works.iter().filter_map(Work::repeated).collect();
        let last = executable.last.clone();
        let end = session.launch_graph(works, id, &last)?;
        if !session.captures.has(id) {
            let mut last = session.frontier(id);
            last.add(end);
            if let Some(executable) = session.captures.graphs.executables.get_mut(&key) {
                executable.last = last;
            }
        }
        Ok(())
    }

    fn cuGraphExecDestroy(executable: CuGraphExec) by [executable] |session| {
        let slot = handle::decode(executable.addr(), session.machine_id(), HandleKind::Executable);
        let graphs = &mut session.captures.graphs;
        let key = slot.and_then(|slot| graphs.executable_slots.remove(slot)).ok_or(CuResult::INVALID_VALUE)?;
        graphs.executables.remove(&key);
        Ok(())
    }
}
