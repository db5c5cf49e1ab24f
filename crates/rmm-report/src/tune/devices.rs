//! Logs of several devices.

use std::collections::BTreeSet;

use crate::trace::{ALIGNMENT, Action, Event, NO_DEVICE, Trace};

/// What belongs to each device, if the log names several: their memories have nothing in common.
/// Empty if it names one or none. What names no device is a part of its own, the last one.
///
/// A part has the events of a device, and not their times, tags and sites.
pub fn by_device(trace: &Trace) -> Vec<(Option<u32>, Trace)> {
    let of_events = (0..trace.events.len()).map(|event| trace.device(event));
    let of_before = trace.before.iter().map(|before| before.device);
    let seen: BTreeSet<u32> = of_events.chain(of_before).collect();
    let known = |&device: &u32| trace.devices.get(device as usize).copied() != Some(NO_DEVICE);
    if seen.iter().filter(|device| known(device)).count() < 2 {
        return Vec::new();
    }
    let mut parts: Vec<(Option<u32>, Trace)> = seen
        .into_iter()
        .map(|device| {
            let ordinal = trace.devices.get(device as usize).copied();
            (ordinal.filter(|&ordinal| ordinal != NO_DEVICE), part(trace, device))
        })
        .filter(|(_, part)| !part.events.is_empty())
        .collect();
    parts.sort_by_key(|&(ordinal, _)| ordinal.unwrap_or(NO_DEVICE));
    parts
}

/// The events of one device. A block belongs to the device that it was allocated on.
fn part(trace: &Trace, device: u32) -> Trace {
    let mut owners = vec![u32::MAX; trace.blocks as usize];
    for before in &trace.before {
        owners[before.block as usize] = before.device;
    }
    let mut events = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        let owner = match event.action {
            Action::Allocate { block, .. } => {
                owners[block as usize] = trace.device(index);
                trace.device(index)
            }
            Action::Free { block, .. } => owners[block as usize],
            Action::AllocateFailure { .. } => trace.device(index),
        };
        if owner == device {
            events.push(*event);
        }
    }
    let mut part = trace.clone();
    part.events = events;
    part.before.retain(|before| before.device == device);
    with_peaks(part)
}

/// The trace with peaks that are those of its events.
fn with_peaks(mut trace: Trace) -> Trace {
    let aligned = |size: u64| size.next_multiple_of(ALIGNMENT);
    let mut live: u64 = trace.before.iter().map(|before| before.size).sum();
    let mut live_aligned = trace.before.iter().map(|before| aligned(before.size)).sum();
    (trace.peak_live, trace.peak_live_aligned, trace.peak_event) = (live, live_aligned, 0);
    for (index, Event { action, .. }) in trace.events.iter().enumerate() {
        match *action {
            Action::Allocate { size, .. } => {
                live += size;
                live_aligned += aligned(size);
            }
            Action::Free { size, .. } => {
                live = live.saturating_sub(size);
                live_aligned = live_aligned.saturating_sub(aligned(size));
            }
            Action::AllocateFailure { .. } => {}
        }
        trace.peak_live = trace.peak_live.max(live);
        if live_aligned > trace.peak_live_aligned {
            (trace.peak_live_aligned, trace.peak_event) = (live_aligned, index);
        }
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_from;

    #[test]
    fn each_device_has_its_own_events_and_peak() {
        let log = "Thread,Time,Action,Pointer,Size,Stream,Device\n\
                   1,0,free,0x50,512,0,1\n\
                   1,0,allocate,0x100,1000,0,0\n\
                   1,0,allocate,0x2000,3000,0,1\n\
                   1,0,free,0x100,1000,0,1\n\
                   1,0,allocate,0x100,2000,0,0\n\
                   1,0,allocate failure,(nil),64,0,1\n";
        let trace = read_from("log.csv", log.as_bytes()).expect("a log");
        let parts = by_device(&trace);
        let found: Vec<_> = parts
            .iter()
            .map(|(device, part)| (*device, part.events.len(), part.before.len(), part.peak_live))
            .collect();
        // The free of 0x100 is of a block of device 0, whatever was current.
        assert_eq!(found, [(Some(0), 3, 0, 2000), (Some(1), 3, 1, 3000)]);
        assert_eq!(parts[0].1.peak_live_aligned, 2048);
        assert_eq!(parts[0].1.peak_event, 2);

        for one in ["1,0,allocate,0x1,8,0,0\n1,0,free,0x1,8,0,0\n", "1,0,allocate,0x1,8,0,\n"] {
            let log = format!("Thread,Time,Action,Pointer,Size,Stream,Device\n{one}");
            assert!(by_device(&read_from("log.csv", log.as_bytes()).expect("a log")).is_empty());
        }
    }
}
