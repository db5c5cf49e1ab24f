//! The script, with others in the place of the real programs.

use std::fs;
use std::path::Path;

use crate::archive::tests::{NO_DRIVER, ONE_GPU, run_script};

/// Prints one row of the allocator that it is asked for, and what it was asked; and the beginning
/// of another.
const RUNNER: &str = r#"
case "$*" in
*--list*) printf 'one\ntwo\n';;
*--write-ops*) mkdir -p "$2"; echo ops > "$2/trace.csv";;
*) echo workload,allocator,params,value,unit; echo some text
   echo "pair,$2,$(echo "$*" | tr ' ,' '__'),1.5,ns/pair"; printf 'pair,cut,off,1,n';;
esac"#;
const BOTH: [(&str, &str); 2] = [("bin/protocol", RUNNER), ("bin/peers", RUNNER)];

/// The rows, without their values; what was printed; and whether it passed.
fn run(
    programs: &[(&str, &str)],
    arguments: &[&str],
    variables: &[(&str, &str)],
    check: impl FnOnce(&Path),
) -> (Vec<String>, String, bool) {
    let usual = [("bin/rmm", ONE_GPU), ("bin/report", r#"[ "$1" = summary ] && cp "$2" seen.csv"#)];
    let files = [&usual, programs].concat();
    run_script("bench_gpu/run.sh", &files, arguments, variables, |folder, text, passed| {
        let results = folder.join("results");
        check(&results);
        let rows = fs::read_to_string(results.join("seen.csv")).unwrap_or_default();
        let rows = rows.lines().map(|line| line.replace(",1.5,ns/pair", "")).collect();
        (rows, text, passed)
    })
}

#[test]
fn ours_and_the_others_take_turns_in_each_pass() {
    let (rows, text, passed) = run(&BOTH, &[], &[], |results| {
        assert!(!results.join("ops").exists(), "the lists are no results");
        let machine = fs::read_to_string(results.join("machine.txt")).unwrap();
        assert!(machine.starts_with("commit: abc\ndate: 20"), "{machine}");
    });
    let of_pass = |pass| {
        ["one", "two"].map(|name| {
            let ours = format!("ours,{pass},pair,{name},--allocator_{name}");
            [ours, format!("peer,{pass},pair,{name},--allocator_{name}_--ops_ops")]
        })
    };
    let header = "runner,pass,workload,allocator,params,value,unit".to_owned();
    assert!(passed, "{text}");
    assert_eq!(rows, [vec![header], [of_pass(1), of_pass(2)].as_flattened().concat()].concat());
}

#[test]
fn a_part_can_be_asked_for() {
    let variables = [("ALLOCATORS", "two three"), ("PASSES", "1")];
    let trips = [("bin/round-trip", "exit 1")];
    let arguments = ["--workload", "pair,holes"];
    let (rows, text, passed) = run(&[&BOTH[..], &trips].concat(), &arguments, &variables, |_| ());
    assert!(passed, "{text}");
    assert_eq!(rows[1..][0], "ours,1,pair,two,--allocator_two_--workload_pair_holes");
    assert_eq!(rows.len(), 3, "{rows:?}");
    let (_, text, passed) = run(&BOTH, &[], &[("ALLOCATORS", "three")], |_| ());
    assert!(!passed && text.contains("there is no allocator called three"), "{text}");
}

#[test]
fn what_fails_is_named_and_the_others_are_measured() {
    let crash = r#"[ "$2" = one ] && { echo pair,one,a,1.5,ns/pair; echo why >&2; exit 9; }"#;
    let crash = format!("{crash}\n{RUNNER}");
    let files = [("bin/protocol", &*crash), ("bin/peers", "exit 1"), ("bin/round-trip", "exit 3")];
    let (rows, text, passed) = run(&files, &[], &[("PASSES", "1")], |_| ());
    let expected = "not all was measured: peers, ours one in pass 1, round-trip failed";
    assert!(!passed && text.contains(expected) && text.contains("why"), "{text}");
    assert_eq!(rows[1], "ours,1,pair,one,a", "what it printed before is kept");
    assert_eq!(rows.len(), 3, "{rows:?}");
}

#[test]
fn a_run_has_a_time_limit_and_containers_a_file() {
    let trips = r#"[ "$1" = --output ] && echo bytes > "$2""#;
    let hangs = format!("[ \"$2\" = one ] && exec sleep 1000\n{RUNNER}");
    let files = [("bin/protocol", &*hangs), ("bin/round-trip", trips)];
    let (rows, text, passed) = run(&files, &[], &[("PASSES", "1"), ("LIMIT", "0.2")], |results| {
        assert_eq!(fs::read_to_string(results.join("round-trip.csv")).unwrap(), "bytes\n");
    });
    assert!(!passed && text.contains("ended with status 124"), "{text}");
    assert_eq!(rows.len(), 2, "without peers ours are measured: {rows:?}");
}

#[test]
fn without_a_gpu_nothing_is_measured() {
    let files = [("bin/rmm", NO_DRIVER), ("bin/protocol", RUNNER)];
    let (rows, text, passed) = run(&files, &[], &[], |results| assert!(!results.exists()));
    assert!(!passed && text.contains("no GPU here") && rows.is_empty(), "{text}");
}
