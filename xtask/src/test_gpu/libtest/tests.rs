//! Outputs of the test harness.

use super::*;

const MIXED: &str = "
running 4 tests
test pool::reuses ... ok
test pool::grows ... FAILED
test pool::refuses - should panic ... ok
test pool::waits ... ignored, needs two devices

failures:

---- pool::grows stdout ----

thread 'pool::grows' panicked at tests/gpu.rs:5:9:
assertion `left == right` failed
  left: 1
 right: 2


failures:
    pool::grows

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

fn outcomes(report: &Report) -> Vec<(&str, Outcome)> {
    report.tests.iter().map(|test| (test.name.as_str(), test.outcome)).collect()
}

#[test]
fn results_and_failure_texts_are_read() {
    let report = parse(MIXED);
    let expected = [
        ("pool::reuses", Outcome::Passed),
        ("pool::grows", Outcome::Failed),
        ("pool::refuses", Outcome::Passed),
        ("pool::waits", Outcome::Ignored),
    ];
    assert_eq!(outcomes(&report), expected);
    assert!(report.complete);
    assert_eq!(report.unfinished, None);
    let output = &report.tests[1].output;
    assert!(
        output.starts_with("thread 'pool::grows' panicked") && output.ends_with("right: 2"),
        "{output:?}"
    );
    assert!(report.tests[0].output.is_empty());
    assert_eq!(report.tests[3].output, "needs two devices");
}

#[test]
fn a_crash_leaves_the_test_that_it_happened_in() {
    let report = parse("\nrunning 2 tests\ntest a ... ok\ntest b ... ");
    assert_eq!(outcomes(&report), [("a", Outcome::Passed)]);
    assert_eq!(report.unfinished.as_deref(), Some("b"));
    assert!(!report.complete);
}

#[test]
fn a_test_that_prints_past_the_harness_keeps_its_result() {
    let report = parse(
        "running 3 tests\ntest a ... message of the driver\nmore of it\nok\ntest b ... oops FAILED\ntest c ... ok\n",
    );
    assert_eq!(
        outcomes(&report),
        [("a", Outcome::Passed), ("b", Outcome::Failed), ("c", Outcome::Passed)]
    );
    assert_eq!(report.unfinished, None);
}

#[test]
fn a_test_that_cannot_run_is_ignored_with_its_reason() {
    let report = parse(
        "running 2 tests\ntest a ... ignored, needs two devices\nignored, needs two devices\nok\ntest b ... ok\n\ntest result: ok. 2 passed\n",
    );
    assert_eq!(outcomes(&report), [("a", Outcome::Ignored), ("b", Outcome::Passed)]);
    assert_eq!(report.tests[0].output, "needs two devices");
    assert_eq!(report.unfinished, None);
}

#[test]
fn words_that_only_end_alike_are_no_result() {
    let report = parse("test a ... the broken token look\n");
    assert!(report.tests.is_empty());
    assert_eq!(report.unfinished.as_deref(), Some("a"));
}

#[test]
fn a_failed_test_may_print_what_looks_like_another_section() {
    let text = MIXED.replace("  left: 1\n", "---- pool::reuses stdout ----\n");
    let report = parse(&text);
    assert!(report.tests[1].output.contains("---- pool::reuses stdout ----"));
    assert!(report.tests[0].output.is_empty());
}

#[test]
fn each_failed_test_gets_its_own_text() {
    let text = "test a ... FAILED\ntest b ... FAILED\n\nfailures:\n\n---- a stdout ----\none\n\n---- b stdout ----\ntwo\n\n\
                failures:\n    a\n    b\n\ntest result: FAILED. 0 passed; 2 failed\n";
    let outputs: Vec<_> = parse(text).tests.into_iter().map(|test| test.output).collect();
    assert_eq!(outputs, ["one", "two"]);
}

#[test]
fn nothing_printed_is_an_empty_report() {
    assert_eq!(parse(""), Report::default());
}
