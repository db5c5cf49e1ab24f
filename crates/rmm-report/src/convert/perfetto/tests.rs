//! Traces of Perfetto, decoded: what is in them, and that their totals are the trace's.

use std::collections::HashMap;

use super::*;
use crate::page::{View, ViewFailure};
use crate::trace::read_from;

#[derive(Clone, PartialEq, prost::Message)]
struct Whole {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream,Tag\n\
    1,00:00:00.000010,allocate,0x10,1000,0,weights\n\
    1,00:00:00.000020,free,0x90,300,7,\n\
    1,00:00:00.000030,allocate failure,(nil),9000,7,weights\n\
    1,00:00:00.000040,allocate,0x20,500,7,</script>\n\
    1,00:00:00.000050,free,0x10,1000,0,\n";

fn decoded(trace: &Trace) -> Vec<TracePacket> {
    let mut bytes = Vec::new();
    perfetto(trace, &mut bytes).expect("written");
    Whole::decode(&*bytes).expect("packets").packet
}

/// The name of each track.
fn names(packets: &[TracePacket]) -> HashMap<u64, String> {
    let tracks = packets.iter().filter_map(|packet| packet.track_descriptor.clone());
    tracks.map(|track| (track.uuid.expect("set"), track.name.expect("set"))).collect()
}

/// Times and values of a counter.
fn counter(packets: &[TracePacket], name: &str) -> Vec<(u64, i64)> {
    let names = names(packets);
    let values = packets.iter().filter_map(|packet| {
        let event = packet.track_event.as_ref()?;
        let is_it = names[&event.track_uuid?] == name;
        Some((packet.timestamp?, event.counter_value.filter(|_| is_it)?))
    });
    values.collect()
}

fn instants(packets: &[TracePacket]) -> Vec<(u64, String)> {
    let instants = packets.iter().filter_map(|packet| {
        let event = packet.track_event.as_ref()?;
        Some((packet.timestamp?, event.name.clone()?))
    });
    instants.collect()
}

#[test]
fn counters_follow_the_trace() {
    let trace = read_from("a/log.csv", LOG.as_bytes()).expect("a log");
    let packets = decoded(&trace);
    let live = counter(&packets, "live");
    assert_eq!(live, [(0, 300), (0, 1300), (10_000, 1000), (30_000, 1500), (40_000, 500)]);
    let most = live.iter().map(|&(_, bytes)| bytes).max();
    assert_eq!(most, i64::try_from(trace.peak_live).ok());
    assert_eq!(counter(&packets, "live: weights"), [(0, 1000), (40_000, 0)]);
    assert_eq!(counter(&packets, "live: </script>"), [(30_000, 500)]);
    assert!(names(&packets).values().any(|name| name == "memory: log.csv"));
    assert!(counter(&packets, "reserved").is_empty());
    assert_eq!(instants(&packets), [(20_000, "failed: 9000 bytes".to_owned())]);
}

#[test]
fn without_times_an_event_is_a_nanosecond() {
    let log = LOG.replace("00:00:00.0000", "");
    let trace = read_from("log.csv", log.as_bytes()).expect("a log");
    let packets = decoded(&trace);
    let times: Vec<u64> = counter(&packets, "live").iter().map(|&(time, _)| time).collect();
    assert_eq!(times, [0, 0, 1, 3, 4]);
    let names = names(&packets);
    assert_eq!(names[&ROOT], "memory: log.csv (times unknown: 1 ns is one event)");
}

#[test]
fn a_replay_has_growth_and_waits_as_slices() {
    let trace = read_from("log.csv", LOG.as_bytes()).expect("a log");
    let view = View {
        resource: Some("pool".to_owned()),
        reserved: Some(vec![(0, 100), (2, 900), (3, 900), (5, 400)]),
        waits: vec![(4, 2)],
        host_waits: vec![(5, 1)],
        failures: vec![ViewFailure { position: 3, size: 9000, ..ViewFailure::default() }],
        ..View::default()
    };
    let mut bytes = Vec::new();
    perfetto_of_replay(&trace, &[view], &mut bytes).expect("written");
    let packets = Whole::decode(&*bytes).expect("packets").packet;
    // The trace is there as it is without.
    assert_eq!(counter(&packets, "live"), counter(&decoded(&trace), "live"));
    assert_eq!(counter(&packets, "held"), [(0, 100), (10_000, 900), (20_000, 900), (40_000, 400)]);
    let slices: Vec<_> = packets
        .iter()
        .filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            matches!(event.r#type, Some(1 | 2)).then_some(())?;
            Some((packet.timestamp?, event.name.clone().unwrap_or_default()))
        })
        .collect();
    let expected = [
        (0, "grows by 800 bytes"),
        (10_000, ""),
        (30_000, "shrinks by 500 bytes"),
        (40_000, ""),
        (20_000, "2 waits of streams"),
        (30_000, ""),
        (30_000, "1 wait for the device"),
        (40_000, ""),
    ];
    assert_eq!(slices, expected.map(|(time, name)| (time, name.to_owned())));
    assert_eq!(instants(&packets).last(), Some(&(20_000, "failed: 9000 bytes".to_owned())));
    assert!(names(&packets).values().any(|name| name == "memory: replayed on pool"));
}

#[test]
fn the_growth_of_a_snapshot_is_there() {
    let mut trace = read_from("log.csv", LOG.as_bytes()).expect("a log");
    let growth =
        |event, time, is_taken| Growth { event, time, address: 1 << 40, bytes: 700, is_taken };
    trace.growth = vec![growth(1, Some(5000), true), growth(5, None, false)];
    trace.reserved_before = 1000;
    let packets = decoded(&trace);
    assert_eq!(counter(&packets, "reserved"), [(0, 1000), (5000, 1700), (5, 1000)]);
    assert_eq!(instants(&packets)[0], (5000, "grows by 700 bytes".to_owned()));
}
