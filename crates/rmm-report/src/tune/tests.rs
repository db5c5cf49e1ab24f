//! Tuning in laboratories whose answers are known.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_core::Error;
use rmm_spec::ResourceSpec;

use super::*;
use crate::replay::Attempt;
use crate::trace::{self, Trace};

/// Runs where a function of configuration, memory in pages, and pace says so.
struct Planted<F> {
    runs: F,
    attempts: AtomicU64,
    tried: Mutex<BTreeSet<u64>>,
}

impl<F: Fn(&str, u64, Pace) -> bool + Sync> Planted<F> {
    fn new(runs: F) -> Self {
        Self { runs, attempts: AtomicU64::new(0), tried: Mutex::default() }
    }
}

impl<F: Fn(&str, u64, Pace) -> bool + Sync> Laboratory for Planted<F> {
    fn attempt(
        &self,
        _trace: &Trace,
        resource: &ResourceSpec,
        memory: u64,
        pace: Pace,
    ) -> Result<Attempt, Error> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.tried.lock().expect("no panic").insert(memory);
        let runs = (self.runs)(&resource.to_string(), memory / PAGE, pace);
        Ok(Attempt {
            failure: (!runs).then(|| "line 2: out of memory".to_owned()),
            waits: 3,
            driver_calls: Some(memory / PAGE),
            peak_reserved_bytes: resource.to_string().contains("virtual").then_some(memory),
        })
    }

    fn paces(&self) -> &[Pace] {
        &[Pace::AtOnce, Pace::WhenWaitedFor]
    }

    fn proofs(&self) -> &[Pace] {
        &[Pace::Mixed(1)]
    }

    fn threads(&self) -> usize {
        2
    }
}

/// A program of one block of this many pages.
fn program(pages: u64) -> Trace {
    let bytes = pages * PAGE;
    let log = format!(
        "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x100,{bytes},0\n1,0,free,0x100,{bytes},0\n"
    );
    trace::read_from("log.csv", log.as_bytes()).expect("a log")
}

/// `first` and `second`, which differ in their texts.
fn two() -> Vec<Configuration> {
    let new = |name, text| Configuration::new(name, text).expect("a specification");
    vec![new("first", "pool(virtual, max={memory})"), new("second", "pool(cuda, max={memory})")]
}

fn tuned(
    laboratory: &impl Laboratory,
    trace: &Trace,
    memory: Option<u64>,
) -> Result<Tuning, TuneError> {
    tune(laboratory, trace, &two(), memory, &|_| ())
}

fn pages(bytes: u64) -> u64 {
    assert!(bytes.is_multiple_of(PAGE));
    bytes / PAGE
}

#[test]
fn the_smallest_memory_of_the_best_configuration_is_found() {
    for needed in [100, 101, 117, 163, 400, 1_600] {
        let laboratory = Planted::new(|text: &str, pages, _| {
            pages >= if text.contains("virtual") { needed } else { needed + 40 }
        });
        let tuning = tuned(&laboratory, &program(100), None).expect("it can be tuned");
        let answer = tuning.answer.expect("an answer");
        assert_eq!(pages(answer.memory_bytes), needed);
        assert_eq!(answer.resource, format!("pool(virtual, max={}MiB)", needed * 2));
        assert_eq!((answer.waits, answer.driver_calls), (3, Some(needed)));
        let less = answer.less.expect("2 % less was tried");
        assert_eq!(pages(less.memory_bytes), needed * 98 / 100);
        let attempts = laboratory.attempts.load(Ordering::Relaxed);
        assert!(attempts < 150 + 4 * (needed - 100), "{attempts} attempts for {needed} pages");
    }
}

#[test]
fn more_memory_need_not_fit_better() {
    // It runs by luck in 105 pages, which no halving comes by, and then from 130.
    let laboratory = Planted::new(|_: &str, pages, _| pages == 105 || pages >= 130);
    let tuning = tuned(&laboratory, &program(100), None).expect("it can be tuned");
    let answer = tuning.answer.expect("an answer");
    assert_eq!(pages(answer.memory_bytes), 105);
    let curve = &tuning.configurations[0].curve;
    assert!(
        curve
            .iter()
            .all(|point| pages(point.memory_bytes) == 105 || pages(point.memory_bytes) >= 130)
    );
}

#[test]
fn it_has_to_run_at_every_pace() {
    let laboratory = Planted::new(|text: &str, pages, pace| {
        let needed = match (text.contains("virtual"), pace) {
            (true, Pace::AtOnce) => 110,
            (true, Pace::WhenWaitedFor) => 150,
            (false, Pace::AtOnce) => 135,
            (false, Pace::WhenWaitedFor) => 120,
            (_, Pace::Mixed(_)) => 138,
            (_, Pace::OfGpu) => panic!("there is none"),
        };
        pages >= needed
    });
    let tuning = tuned(&laboratory, &program(100), None).expect("it can be tuned");
    let answer = tuning.answer.expect("an answer");
    assert!(answer.resource.starts_with("pool(cuda"), "{answer:?}");
    assert_eq!(pages(answer.memory_bytes), 138, "the proof at a further pace lifts it");
    let of = |answer: Option<Answer>| pages(answer.expect("an answer").memory_bytes);
    assert_eq!((of(tuning.at_once), of(tuning.when_waited_for)), (110, 120));
}

#[test]
fn two_percent_less_is_never_enough() {
    // So much memory that not every page is tried, and some smaller sizes that are enough by luck.
    for luck in [0, 1_009_400, 1_009_410, 1_005_001] {
        let laboratory =
            Planted::new(|_: &str, pages, _| pages >= 1_030_000 || pages.abs_diff(luck) < 20);
        let tuning = tuned(&laboratory, &program(1_000_000), None).expect("it can be tuned");
        let answer = tuning.answer.expect("an answer");
        let less = answer.less.expect("2 % less was tried");
        assert_eq!(pages(less.memory_bytes), pages(answer.memory_bytes) * 98 / 100);
        assert!(!(laboratory.runs)("", pages(less.memory_bytes), Pace::AtOnce));
        assert!((laboratory.runs)("", pages(answer.memory_bytes), Pace::AtOnce));
    }
}

#[test]
fn the_proof_takes_less_memory_if_that_is_enough() -> Result<(), TuneError> {
    let laboratory = Planted::new(|_: &str, pages, _| pages >= 100 || pages == 98);
    let (trace, configurations) = (program(90), two());
    let trials = Trials::new(&laboratory, &trace, &configurations, 1, &|_| ());
    let answer = proof::prove(&trials, 0, 100 * PAGE)?.expect("it is enough");
    assert_eq!(pages(answer.memory_bytes), 98);
    assert_eq!(pages(answer.less.expect("2 % less was tried").memory_bytes), 96);
    Ok(())
}

#[test]
fn of_a_long_log_only_the_best_are_tried_at_every_pace() {
    let mut trace = program(100);
    trace.events = trace.events.iter().copied().cycle().take(300_002).collect();
    // The order of the list, 10 pages apart; the first needs more if its work is not done at once.
    let laboratory = Planted::new(|text: &str, pages, pace| {
        let ours = Configuration::ours();
        let place = ours.iter().position(|ours| ours.text(pages * PAGE) == text);
        let place = place.expect("one of ours") as u64;
        let late = if place == 0 && pace != Pace::AtOnce { 15 } else { 0 };
        pages >= 110 + 10 * place + late
    });
    let tuning = tune(&laboratory, &trace, &Configuration::ours(), None, &|_| ());
    let tuning = tuning.expect("it can be tuned");
    assert_eq!(pages(tuning.answer.expect("an answer").memory_bytes), 120);
    let memory = tuning.configurations.iter().map(|result| result.memory_bytes.map(pages));
    let memory: Vec<_> = memory.collect();
    assert_eq!(memory[..3], [Some(125), Some(120), Some(130)]);
    assert!(memory[3..].iter().all(Option::is_none), "{memory:?}");
    for (result, least) in tuning.configurations.iter().zip((110..).step_by(10)) {
        let at_once = pages(result.at_once_memory_bytes.expect("all are tried at the first pace"));
        assert!((least..least + 2).contains(&at_once), "{result:?}");
        assert!(result.failure.is_none(), "{result:?}");
    }
}

#[test]
fn what_fits_is_what_waits_least() {
    let laboratory = Planted::new(|_: &str, pages, _| pages >= 110);
    let tuning = tuned(&laboratory, &program(100), Some(150 * PAGE)).expect("it can be tuned");
    let answer = tuning.answer.expect("it fits");
    assert_eq!((pages(answer.memory_bytes), answer.less), (150, None));
    assert!(tuning.least.is_none());
    // Both need the same, but the first holds all of the memory.
    assert!(answer.resource.starts_with("pool(cuda"), "{}", answer.resource);
    assert!(laboratory.tried.lock().expect("no panic").iter().eq([&(150 * PAGE)]));
}

#[test]
fn where_nothing_fits_it_says_what_would_do() {
    let laboratory = Planted::new(|_: &str, pages, _| pages >= 110);
    let tuning = tuned(&laboratory, &program(100), Some(105 * PAGE)).expect("it can be tuned");
    assert!(tuning.answer.is_none());
    assert_eq!(pages(tuning.least.expect("it says so").memory_bytes), 110);
    assert_eq!(tuning.given_memory_bytes, Some(105 * PAGE));
}

#[test]
fn a_program_that_runs_nowhere_has_no_answer_and_a_reason() {
    let laboratory = Planted::new(|_: &str, _, _| false);
    let tuning = tuned(&laboratory, &program(3), None).expect("it can be tuned");
    assert!(tuning.answer.is_none() && tuning.at_once.is_none());
    for result in &tuning.configurations {
        assert_eq!(result.failure.as_deref(), Some("line 2: out of memory"));
    }
    assert!(render(&[tuning], "nothing", "0").contains("It runs in no memory that was tried."));
}

#[test]
fn a_log_without_memory_is_an_error() {
    let laboratory = Planted::new(|_: &str, _, _| true);
    for rows in ["1,0,allocate failure,(nil),64,0\n", "1,0,allocate,0x0,0,0\n1,0,free,0x0,0,0\n"] {
        let log = format!("Thread,Time,Action,Pointer,Size,Stream\n{rows}");
        let trace = trace::read_from("log.csv", log.as_bytes()).expect("a log");
        let error = tuned(&laboratory, &trace, None).expect_err("nothing to tune");
        assert!(error.to_string().contains("nothing to tune"), "{error}");
    }
}

#[test]
fn the_page_has_the_answer_and_the_pictures_and_escapes_names() {
    let laboratory = Planted::new(|_: &str, pages, _| pages >= 110);
    let mut trace = program(100);
    trace.path = "<script>&\"".into();
    let tuning = tuned(&laboratory, &trace, None).expect("it can be tuned");
    let page = render(&[tuning], "a <device>", "0.1.0");
    assert!(page.contains("pool(virtual, max=220MiB)") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("role=\"img\"").count(), 2);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;&amp;&quot;"));
    assert!(!page.contains("NaN") && !page.contains("http"), "{page}");
}
