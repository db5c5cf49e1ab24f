//! Profiles, decoded: what is in them, and that their totals are the trace's.

use std::io::Read as _;

use super::*;
use crate::convert::usage;
use crate::trace::read_from;

const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device\n\
    1,00:00:00.000000,allocate,0x10,1000,0,weights,a.py:1 make < m.py:9 main,0\n\
    1,00:00:00.000001,allocate,0x20,500,7,\"a \"\"b\"\"\",a.py:2 make < m.py:9 main,0\n\
    1,00:00:00.000002,free,0x90,300,7,,,\n\
    1,00:00:00.000003,allocate,0x30,1000,0,weights,a.py:1 make < m.py:9 main,0\n\
    1,00:00:00.000004,free,0x20,500,7,,,0\n\
    1,00:00:01.000000,free,0x10,1000,0,,,0\n";

fn decoded(trace: &Trace, moment: Moment) -> Profile {
    let mut bytes = Vec::new();
    pprof(trace, moment, &mut bytes).expect("written");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut plain).expect("gzip");
    Profile::decode(&*plain).expect("a profile")
}

fn text(profile: &Profile, number: i64) -> &str {
    &profile.string_table[usize::try_from(number).expect("in the table")]
}

fn totals(profile: &Profile) -> [i64; 4] {
    profile.sample.iter().fold([0; 4], |mut sums, sample| {
        sums.iter_mut().zip(&sample.value).for_each(|(sum, value)| *sum += value);
        sums
    })
}

#[test]
fn the_totals_are_those_of_the_trace() {
    let trace = read_from("log.csv", LOG.as_bytes()).expect("a log");
    for moment in [Moment::Peak, Moment::End, Moment::Event(0), Moment::Event(4)] {
        let usage = usage(&trace, moment);
        let [_, _, objects, bytes] = totals(&decoded(&trace, moment));
        assert_eq!((objects, bytes), (signed(usage.blocks), signed(usage.bytes)), "{moment:?}");
    }
    assert_eq!(totals(&decoded(&trace, Moment::Peak)), [3, 2500, 3, 2500]);
    assert_eq!(usage(&trace, Moment::Peak).bytes, trace.peak_live);
    assert_eq!(totals(&decoded(&trace, Moment::End)), [3, 2500, 1, 1000]);
    // The block from before was never allocated, and is in use at first.
    assert_eq!(totals(&decoded(&trace, Moment::Event(0))), [1, 1000, 2, 1300]);
}

#[test]
fn samples_have_stacks_and_labels() {
    let trace = read_from("log.csv", LOG.as_bytes()).expect("a log");
    let profile = decoded(&trace, Moment::Event(1));
    let names: Vec<_> =
        profile.sample_type.iter().map(|kind| text(&profile, kind.r#type)).collect();
    assert_eq!(names, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    assert_eq!(text(&profile, profile.default_sample_type), "inuse_space");
    assert_eq!(profile.duration_nanos, 1_000_000_000);
    let described: Vec<String> = profile
        .sample
        .iter()
        .map(|sample| {
            let frame = |&id: &u64| {
                let location = profile.location.iter().find(|location| location.id == id);
                let line = &location.expect("there").line[0];
                let function =
                    profile.function.iter().find(|function| function.id == line.function_id);
                let function = function.expect("there");
                let (name, file) =
                    (text(&profile, function.name), text(&profile, function.filename));
                format!("{name}@{file}:{}", line.line)
            };
            let label = |label: &Label| {
                format!("{}={}", text(&profile, label.key), text(&profile, label.str))
            };
            let frames: Vec<_> = sample.location_id.iter().map(frame).collect();
            let labels: Vec<_> = sample.label.iter().map(label).collect();
            format!("{} {}", frames.join(" "), labels.join(" "))
        })
        .collect();
    assert_eq!(
        described,
        [
            "make@a.py:1 main@m.py:9 tag=weights stream=0x0 device=0",
            "make@a.py:2 main@m.py:9 tag=a \"b\" stream=0x7 device=0",
            "(site unknown)@:0 stream=0x7",
        ]
    );
    // Both lines are in one function.
    assert_eq!((profile.function.len(), profile.location.len()), (3, 4));
}
