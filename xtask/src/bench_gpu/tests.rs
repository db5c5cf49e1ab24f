//! The whole command, with shell scripts in place of the real programs.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::archive::{self, Contents};
use crate::scripts::{ONE_GPU, Scripts};

/// Prints one row of the allocator that it is asked for, and what it was asked.
const RUNNER: &str = r#"
case "$*" in
*--list*) printf 'one\ntwo\n';;
*--write-ops*) mkdir -p "$2"; echo ops > "$2/trace.csv";;
*) echo workload,allocator,params,value,unit; echo "pair,$2,$(echo "$*" | tr ' ,' '__'),1.5,ns/pair";;
esac"#;
const REPORT: &str = r#"[ "$1" = summary ] && cp "$2" "$2.seen""#;

struct Fixture {
    scripts: Scripts,
}

impl Fixture {
    fn new(rmm: &str, programs: &[(&str, &str)]) -> Self {
        let scripts = Scripts::new();
        let all = [&[("rmm", rmm), ("report", REPORT)], programs].concat();
        let programs = all.iter().map(|(name, body)| scripts.write(name, body)).collect();
        let contents = Contents { commit: Some("abc".into()), programs, ..Contents::default() };
        archive::write(&scripts.folder().join("archive"), &contents).unwrap();
        Self { scripts }
    }

    fn output(&self) -> PathBuf {
        self.scripts.folder().join("results")
    }

    fn run(&self, change: impl FnOnce(&mut RunArgs)) -> Result<()> {
        let mut args =
            RunArgs { output: Some(self.output()), passes: 2, limit: 60, ..RunArgs::default() };
        change(&mut args);
        measure::run(&self.scripts.folder().join("archive"), &args, false)
    }

    /// The rows, without their values.
    fn rows(&self) -> Vec<String> {
        let text = fs::read_to_string(self.output().join("rows.csv")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("runner,pass,workload,allocator,params,value,unit"));
        lines.map(|line| line.replace(",1.5,ns/pair", "")).collect()
    }
}

#[test]
fn ours_and_the_others_take_turns_in_each_pass() {
    let fixture = Fixture::new(ONE_GPU, &[("protocol", RUNNER), ("peers", RUNNER)]);
    fixture.run(|_| ()).unwrap();
    let rows = fixture.rows();
    let order: Vec<String> = rows
        .iter()
        .map(|row| row.split(',').filter(|part| !part.contains('-')).collect::<Vec<_>>().join(" "))
        .collect();
    let pass = |pass| {
        ["ours", "peer"]
            .map(|runner| format!("{runner} {pass} pair one"))
            .into_iter()
            .chain(["ours", "peer"].map(|runner| format!("{runner} {pass} pair two")))
    };
    assert_eq!(order, pass(1).chain(pass(2)).collect::<Vec<_>>());
    assert!(rows[1].contains("--ops_"), "the others get the folder of the lists: {rows:?}");
    assert!(!fixture.output().join("ops").exists(), "the lists are no results");
    assert!(fixture.output().join("rows.csv.seen").exists(), "there was a summary");
    let machine = fs::read_to_string(fixture.output().join("machine.txt")).unwrap();
    assert!(machine.starts_with("commit: abc\n"), "{machine}");
}

#[test]
fn a_part_can_be_asked_for() {
    let fixture = Fixture::new(ONE_GPU, &[("protocol", RUNNER), ("peers", RUNNER)]);
    fixture
        .run(|args| {
            args.allocator = vec!["two".to_owned()];
            args.workload = vec!["pair".to_owned(), "holes".to_owned()];
            args.passes = 1;
            args.quick = true;
        })
        .unwrap();
    let rows = fixture.rows();
    assert_eq!(rows[0], "ours,1,pair,two,--allocator_two_--workload_pair_holes_--quick");
    assert_eq!(rows.len(), 2);
    let unknown = fixture.run(|args| args.allocator = vec!["three".to_owned()]);
    assert_eq!(unknown.unwrap_err().to_string(), "there is no allocator called three");
}

#[test]
fn an_allocator_that_fails_is_named_and_the_others_are_measured() {
    let crash =
        format!("case \"$*\" in *'or one'*) echo pair,one,a,1.5,ns/pair; exit 9;; esac\n{RUNNER}");
    let fixture = Fixture::new(ONE_GPU, &[("protocol", &crash), ("peers", "exit 1")]);
    // The lists for the others are written by our own program.
    let error = fixture.run(|args| args.passes = 1).unwrap_err().to_string();
    assert_eq!(error, "not all was measured: peers, ours one in pass 1 failed");
    let rows = fixture.rows();
    assert_eq!(rows[0], "ours,1,pair,one,a", "what it printed before is kept");
    assert_eq!(rows.len(), 2);
    assert!(fixture.output().join("rows.csv.seen").exists());
}

#[test]
fn the_containers_are_measured_where_all_is() {
    let trips = r#"[ "$1" = --output ] && echo bytes > "$2""#;
    let fixture = Fixture::new(ONE_GPU, &[("protocol", RUNNER), ("round-trip", trips)]);
    let file = fixture.output().join("round-trip.csv");
    fixture.run(|args| args.workload = vec!["pair".to_owned()]).unwrap();
    assert!(!file.exists(), "a part was asked for");
    fixture.run(|_| ()).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "bytes\n");
}

#[test]
fn containers_that_fail_are_named() {
    let fixture = Fixture::new(ONE_GPU, &[("protocol", RUNNER), ("round-trip", "exit 3")]);
    let error = fixture.run(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "not all was measured: round-trip failed");
}

#[test]
fn without_peers_ours_are_measured() {
    let fixture = Fixture::new(ONE_GPU, &[("protocol", RUNNER)]);
    fixture.run(|_| ()).unwrap();
    assert_eq!(fixture.rows().len(), 4);
}

#[test]
fn without_a_gpu_nothing_is_measured() {
    let no_gpu = r#"echo '{"driver":null,"devices":[]}'; exit 1"#;
    let fixture = Fixture::new(no_gpu, &[("protocol", RUNNER)]);
    assert!(fixture.run(|_| ()).unwrap_err().to_string().starts_with("no GPU here"));
    assert!(!fixture.output().exists());
}
