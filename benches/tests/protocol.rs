//! The `protocol` program on the software device: what it prints, and what it refuses.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rmm_benches::adaptors::{Adaptor, Pool, adaptors};
use rmm_benches::rows::Row;
use rmm_benches::workloads::{WORKLOADS, Workload};

type Outcome = Result<(), Box<dyn Error>>;

fn protocol(arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protocol"));
    Ok(command.args(["--device", "sim"]).args(arguments).output()?)
}

fn rows(arguments: &[&str]) -> Result<Vec<Row>, Box<dyn Error>> {
    let output = protocol(arguments)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    assert!(text.starts_with("workload,allocator,params,value,unit\n"), "{text}");
    Ok(csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>()?)
}

fn names(rows: &[Row], allocator: &str) -> Vec<String> {
    let rows = rows.iter().filter(|row| row.allocator == allocator);
    rows.map(|row| format!("{} {} {}", row.workload, row.params, row.unit)).collect()
}

/// What the peers' runner prints too, and under the same names.
#[test]
fn every_figure_of_the_pool_has_a_row() -> Outcome {
    let rows = rows(&["--quick", "--allocator", "pool-cuda"])?;
    let names = names(&rows, "pool-cuda");
    let waits = |work: &str| format!("waits {work} per 1000 allocations");
    let mut expected: Vec<String> = [
        "pair size=256 ns/pair",
        "pair size=4096 ns/pair",
        "pair size=1048576 ns/pair",
        "legacy size=4096 ns/pair",
        "legacy random ns/op",
        "per-thread size=4096 ns/pair",
        "per-thread random ns/op",
        "foreign known end ns/pair",
        "foreign unknown end ns/pair",
        "holes H=0 ns/pair",
        "holes H=10 ns/pair",
        "holes H=100 ns/pair",
        "random streams=1 ns/op",
        "random reserved MiB",
        &waits("random streams=1"),
        "random streams=8 ns/op",
        &waits("random streams=8"),
        "streams streams=256 ns/op",
        &waits("random streams=256"),
        "bursts fifo ns/op",
        "bursts lifo ns/op",
        "bursts random ns/op",
        "new-streams calls=20 ns/op",
        "large 2 to 256 MiB ns/op",
        "allocate p50 ns",
        "allocate p99 ns",
        "allocate p99.9 ns",
        "allocate clock ns",
        "threads T=1 Mops/s",
        "threads T=2 Mops/s",
        "threads-large T=16 1 to 64 MiB Mops/s",
        "threads-empty T=16 own streams Mops/s",
        "threads-empty own streams reserved / live x",
        "threads-empty T=16 one stream Mops/s",
        "threads-empty one stream reserved / live x",
        "migrate T=16 calls=1000 Mops/s",
        "migrate T=16 calls=50 Mops/s",
        "migrate T=16 barrier ns/round",
        "shared T=16 Mops/s",
        "handoff 4096 ns/pair",
        &waits("handoff"),
    ]
    .map(str::to_owned)
    .into();
    for case in ["streams=1 threads=1", "streams=64 threads=1", "streams=64 threads=4"] {
        let calls = ["allocate p99.99", "allocate longest", "free p99.99", "free longest"];
        expected.extend(
            calls
                .into_iter()
                .chain(["growth", "trim"])
                .map(|call| format!("latency blocks=100000 {case} {call} ns")),
        );
    }
    expected.push("latency first use after 8000 streams ns".to_owned());
    let calls = ["p50", "p99.9", "p99.999", "longest"];
    expected.extend(calls.map(|call| format!("latency random {call} ns")));
    let grown = ["grow blocks=4000 ns/op", "grow reserved / live x"];
    let busy = ["host ns/op", "with the device's work ns/op", "reserved / live x"];
    expected.extend(grown.map(str::to_owned));
    expected.extend(busy.map(|figure| format!("busy {figure}")));
    expected.extend(figures_beside_work());
    // Before what comes after the pairs.
    let names_of = || adaptors::<Pool>().into_iter().map(|Adaptor { name, .. }| name);
    let over_pool = names_of().flat_map(|name| {
        ["adaptor", "adaptor_bare", "adaptor_own"].map(|figure| format!("{figure} {name} ns/pair"))
    });
    let over_nothing = names_of().filter(|name| *name != "prefetch");
    let over_nothing = over_nothing.map(|name| format!("adaptor_over_nothing {name} ns/pair"));
    expected.splice(9..9, over_pool.chain(over_nothing));
    for trace in ["etl-streams", "gnn-train", "gpt2-train", "resnet-train"] {
        expected.extend([
            format!("replay_cold {trace} ns/op"),
            format!("replay_reserved_over_peak {trace} x"),
            format!("replay {trace} ns/op"),
            waits(trace),
        ]);
    }
    expected.extend(["cudaHostAlloc", "registered"].map(|from| format!("pinned {from} MiB=32 ms")));
    if cfg!(feature = "cudarc") {
        let slices = ["slice tracked", "slice untracked"];
        let all = ["vector".to_owned()].into_iter();
        let all = all.chain(slices.map(str::to_owned)).chain(slices.map(|s| format!("owned {s}")));
        expected.extend(all.map(|params| format!("cudarc {params} ns/pair")));
    }
    assert_eq!(names, expected);
    for row in &rows {
        let may_be_nothing =
            ["waits", "new-streams"].contains(&&*row.workload) || row.params == "clock";
        // A difference of two times, which may be noise.
        let may_be_less = ["adaptor_own", "adaptor_over_nothing"].contains(&&*row.workload);
        assert!(row.value > 0.0 || may_be_less || (may_be_nothing && row.value == 0.0), "{row:?}");
        if row.workload == "replay_reserved_over_peak" || row.params == "reserved / live" {
            assert!((1.0..4.0).contains(&row.value), "the pool starts empty: {row:?}");
        }
    }
    Ok(())
}

/// Of vectors, and of blocks on a few streams.
fn figures_beside_work() -> Vec<String> {
    let sizes = ["elements=1e4", "elements=1e5", "elements=1e6"];
    let mut figures = Vec::from(sizes.map(|size| format!("vector {size} ns/vector")));
    figures.push("vector streams=4 elements=1e5 ns/round".to_owned());
    for streams in 1..=4 {
        let row = |state| format!("multi-stream streams={streams} {state} us/round");
        figures.extend(["cold", "warm"].map(row));
    }
    figures
}

/// What has no counterpart is compared with nothing.
#[test]
fn the_peers_have_every_workload() -> Outcome {
    let peers = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/peers.cpp"))?;
    let table = peers.split("constexpr workload workloads[]").nth(1).unwrap_or_default();
    for Workload { name, .. } in WORKLOADS {
        assert!(table.contains(&format!("{{\"{name}\", peers::")), "{name} is not among them");
    }
    Ok(())
}

#[test]
fn every_allocator_does_the_work_that_suits_it() -> Outcome {
    let list = String::from_utf8(protocol(&["--list"])?.stdout)?;
    let all: BTreeSet<&str> = list.lines().collect();
    let rows = rows(&["--quick", "--workload", "pair,holes,random"])?;
    let measured: BTreeSet<&str> = rows.iter().map(|row| row.allocator.as_str()).collect();
    assert_eq!(measured, all);
    assert_eq!(names(&rows, "fixed-size").len(), 3, "pairs and nothing else");
    assert!(names(&rows, "cuda").iter().all(|name| !name.starts_with("holes")));
    Ok(())
}

/// Streams of others, and tasks that change threads: no allocator may fail there.
#[test]
fn every_allocator_serves_every_kind_of_stream() -> Outcome {
    let workloads = "legacy,per-thread,foreign,streams,large,migrate,shared,grow,busy";
    let rows = rows(&["--quick", "--workload", workloads])?;
    let measured: BTreeSet<&str> = rows.iter().map(|row| row.allocator.as_str()).collect();
    assert_eq!(measured.len(), 7, "all but the driver's plain allocations");
    let blocks = names(&rows, "fixed-size");
    assert_eq!(blocks.len(), 4, "pairs on default streams and on streams of others: {blocks:?}");
    let of_arena = names(&rows, "arena");
    assert!(of_arena.contains(&"shared T=16 Mops/s".to_owned()), "{of_arena:?}");
    Ok(())
}

#[test]
fn copies_are_timed_beside_the_drivers_call() -> Outcome {
    let rows = rows(&["--quick", "--allocator", "pool", "--workload", "copies"])?;
    let expected = ["container", "cuMemcpyAsync"].map(|way| format!("copies 0 to 0 {way} GB/s"));
    assert_eq!(names(&rows, "pool"), expected, "the software device is one device here");
    assert!(rows.iter().all(|row| row.value > 0.0), "{rows:?}");
    Ok(())
}

#[test]
fn requests_with_a_deadline_are_refused_in_time() -> Outcome {
    let rows = rows(&["--quick", "--allocator", "pool", "--workload", "refusals"])?;
    let names = names(&rows, "pool");
    let figures = ["within the deadline %", "p50 ms", "p99.9 ms", "longest ms"];
    let rows_of = |what: &str| figures.map(|name| format!("refusals {what}{name}"));
    for expected in [rows_of(""), rows_of("sleep of 1.5 ms: ")].concat() {
        assert!(names.contains(&expected), "{expected}: {names:?}");
    }
    let missed = rows.iter().filter(|row| row.params.starts_with("missed, "));
    let missed: f64 = missed.map(|row| row.value).sum();
    assert!((missed + rows[0].value - 100.0).abs() < 0.01, "each late request has one cause");
    Ok(())
}

#[test]
fn a_pool_of_the_driver_is_timed_with_and_without_memory_that_it_reserves() -> Outcome {
    let rows = rows(&["--quick", "--workload", "priming"])?;
    let expected = ["empty", "primed"].into_iter().flat_map(|pool| {
        let figures = ["made us", "first ns/op", "second ns/op"];
        figures.map(|figure| format!("priming {pool} {figure}"))
    });
    assert_eq!(names(&rows, "cuda-async"), expected.collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.value > 0.0 && row.allocator == "cuda-async"), "{rows:?}");
    Ok(())
}

#[test]
fn rows_go_to_a_file_if_asked_to() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("rows.csv");
    let path = file.to_string_lossy();
    let arguments = ["--quick", "--allocator", "pool", "--workload", "pair", "--output", &path];
    let output = protocol(&arguments)?;
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(fs::read_to_string(&file)?.lines().count(), 4);
    Ok(())
}

/// The peers' runner replays these: it must find each call, and each block freed.
#[test]
fn the_calls_of_a_trace_can_be_written_for_others() -> Outcome {
    let dir = tempfile::tempdir()?;
    assert!(protocol(&["--write-ops", &dir.path().to_string_lossy()])?.status.success());
    let lines = |name: &str| -> Result<Vec<String>, Box<dyn Error>> {
        let text = fs::read_to_string(Path::new(dir.path()).join(name))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let gnn = lines("gnn-train.csv")?;
    assert_eq!(gnn[0], "action,slot,size,stream");
    assert_eq!(gnn.len(), 1 + 27_984);
    let of = |action: &str| gnn.iter().filter(|line| line.starts_with(action)).count();
    assert_eq!(of("allocate,"), of("free,"));
    assert_eq!(lines("etl-streams.csv")?.len(), 1 + 70_554);
    Ok(())
}

#[test]
fn what_is_not_known_is_refused_by_name() -> Outcome {
    for [option, value] in [["--allocator", "poool"], ["--workload", "pairs"]] {
        let output = protocol(&[option, value])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(value), "{stderr}");
    }
    let output = protocol(&["--workload", "replay", "--traces", "/nonexistent"])?;
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent"));
    Ok(())
}
