//! `rmm convert`: its files, messages and exit statuses. What is in the files is tested where they
//! are made.

use std::fs;
use std::io::Read as _;

use rmm_report::convert::{self, Moment};
use rmm_report::trace::{Trace, read_from};

use super::common::{Folder, read, rmm, text};
use super::snapshots::SMALL;

const ROWS: &str = "7,00:00:01.000000,allocate,0x100,1000,0\n\
    9,00:00:01.000005,allocate failure,(nil),99,0xab\n\
    7,00:00:02.000000,free,0x900,300,0xab\n\
    7,00:00:03.000000,allocate failure,(nil),0,0\n";

/// The log that a trace becomes, read again.
fn again(trace: &Trace) -> Trace {
    let mut bytes = Vec::new();
    convert::csv(trace, &mut bytes).expect("written");
    read_from("again.csv", &*bytes).expect("a log")
}

#[test]
fn a_log_made_of_a_trace_says_the_same() {
    let log = format!("{}{ROWS}", super::common::HEADER);
    for bytes in [SMALL[0], log.as_bytes()] {
        let trace = read(bytes).expect("valid");
        let read = again(&trace);
        let first = trace.before.len();
        assert_eq!(read.events.len(), first + trace.events.len());
        assert_eq!((read.before.len(), read.ended), (0, trace.ended));
        assert_eq!(
            (read.blocks, read.peak_live, read.peak_live_aligned),
            (trace.blocks, trace.peak_live, trace.peak_live_aligned)
        );
        for index in 0..trace.events.len() {
            assert_eq!(read.time(first + index), trace.time(index));
            assert_eq!(read.address(first + index), trace.address(index));
            let name = |trace: &Trace, index| {
                let (tag, site) = (trace.tag(index) as usize, trace.site(index) as usize);
                (trace.tags[tag].clone(), trace.sites[site].clone())
            };
            assert_eq!(name(&read, first + index), name(&trace, index));
        }
        assert_eq!(again(&read), read);
    }
}

#[test]
fn the_name_of_the_output_says_the_format() {
    let folder = Folder::new();
    let log = folder.log("in.csv", ROWS);
    for (name, start, said) in [
        ("a.pftrace", &b"\x0a"[..], "3 events\n"),
        ("a.perfetto-trace", b"\x0a", "3 events\n"),
        ("a.pb.gz", b"\x1f\x8b", "after 1 of 3 events: 1300 bytes in 2 blocks in use\n"),
        ("a.pprof", b"\x1f\x8b", "after 1 of 3 events: 1300 bytes in 2 blocks in use\n"),
        ("a.csv", b"Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device\n", "3 events\n"),
    ] {
        let path = folder.path(name);
        let output = rmm(&["convert", &log, "-o", &path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).ends_with(said), "{}", text(&output.stdout));
        assert!(fs::read(&path).expect("written").starts_with(start), "{name}");
    }
    let path = folder.path("a.out");
    let output = rmm(&["convert", &log, "-o", &path]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("rmm: {path}: no known ending: say --to perfetto, pprof or csv\n");
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(rmm(&["convert", &log, "-o", &path, "--to", "csv"]).status.code(), Some(0));
}

#[test]
fn a_profile_is_of_the_moment_that_is_asked_for() {
    let folder = Folder::new();
    let log = folder.log("in.csv", ROWS);
    let path = folder.path("a.pprof");
    for (at, said) in [
        ("peak", "after 1 of 3 events: 1300 bytes in 2 blocks in use\n"),
        ("end", "after 3 of 3 events: 1000 bytes in 1 block in use\n"),
        ("0", "after 1 of 3 events: 1300 bytes in 2 blocks in use\n"),
        ("2", "after 3 of 3 events: 1000 bytes in 1 block in use\n"),
    ] {
        let output = rmm(&["convert", &log, "-o", &path, "--at", at]);
        assert!(text(&output.stdout).ends_with(said), "{at}: {}", text(&output.stdout));
    }
    let output = rmm(&["convert", &log, "-o", &path, "--at", "noon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected peak, end or the number of an event"));
}

#[test]
fn standard_output_takes_it() {
    let folder = Folder::new();
    let log = folder.log("in.csv", ROWS);
    let output = rmm(&["convert", &log, "-o", "-", "--to", "pprof"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*output.stdout).read_to_end(&mut plain).expect("gzip");
    let trace = read_from(&log, &*fs::read(&log).expect("a file")).expect("a log");
    let mut expected = Vec::new();
    convert::pprof(&trace, Moment::Peak, &mut expected).expect("written");
    assert_eq!(output.stdout, expected);
}

#[test]
fn what_cannot_be_converted_writes_nothing() {
    let folder = Folder::new();
    let (bad, missing) = (folder.path("bad.pickle"), folder.path("missing.csv"));
    fs::write(&bad, b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.").expect("written");
    let path = folder.path("out.csv");
    for (file, message) in
        [(&bad, "byte 2: opcode GLOBAL would run code"), (&missing, "cannot open")]
    {
        let output = rmm(&["convert", file, "-o", &path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    let log = folder.log("in.csv", ROWS);
    let output = rmm(&["convert", &log, "-o", &folder.path("no/such/out.csv")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(folder.names(), ["bad.pickle", "in.csv"]);
}
