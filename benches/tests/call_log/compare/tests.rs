//! Which differences between logs count.

use super::*;

const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

/// One row of each kind, by two threads.
const LOG: &str = "\
    17,10:11:12.131415,allocate,0x7f00,256,0x1\n\
    17,10:11:12.131416,allocate failure,(nil),99,0\n\
    18,10:11:12.131417,allocate,0x8f00,1,0x55a0\n\
    17,10:11:12.131418,free,0x7f00,256,0x1\n";

/// The same program in another process, which got other addresses.
const SAME: &str = "\
    1,00:00:00.000000,allocate,0x100,256,0x1\n\
    1,00:00:00.000000,allocate failure,(nil),99,0\n\
    2,00:00:00.000000,allocate,0x300,1,0x10\n\
    1,00:00:00.000000,free,0x100,256,0x1\n";

fn with_header(rows: &str) -> String {
    format!("{HEADER}{rows}")
}

fn mismatch(ours: &str) -> String {
    compare(&with_header(LOG), ours).unwrap_err().to_string()
}

/// What is wrong once this is changed in the second log.
fn after(original: &str, replacement: &str) -> String {
    assert!(SAME.contains(original), "{original}");
    mismatch(&with_header(&SAME.replace(original, replacement)))
}

#[test]
fn addresses_times_threads_and_handles_may_differ() {
    let matched = compare(&with_header(LOG), &with_header(SAME)).unwrap();
    assert_eq!(matched, Matched { rows: 4, threads: 2, streams: 3, blocks: 2 });
    assert_eq!(matched.to_string(), "the same 4 rows: 2 threads, 3 streams, 2 blocks");
}

#[test]
fn an_address_may_be_handed_out_again_in_one_log_alone() {
    let rows = |second: &str| {
        let call = |what: &str| format!("1,00:00:00.000000,{what},8,0x1\n");
        let calls = ["allocate,0x100", "free,0x100"].map(call).concat();
        let again = [format!("allocate,{second}"), format!("free,{second}")];
        with_header(&(calls + &again.map(|what| call(&what)).concat()))
    };
    assert_eq!(compare(&rows("0x100"), &rows("0x200")).unwrap().blocks, 2);
}

#[test]
fn nothing_else_may_differ() {
    for (original, replacement) in [
        ("allocate,0x300,1,", "allocate,0x300,2,"),
        ("allocate failure", "failure"),
        ("99,0\n", "99,0x3\n"),
        ("256,0x1\n", "256,0x2\n"),
        ("2,00:00:00.000000,", "1,00:00:00.000000,"),
        ("free,0x100", "free,0x300"),
    ] {
        let text = after(original, replacement);
        assert!(text.contains(" of 5 lines differ\nline "), "{original}: {text}");
    }
    let text = after("1,00:00:00.000000,free,0x100,256,0x1\n", "");
    let free = "(thread 1),(time),free,(block 1),256,0x1";
    assert_eq!(text, format!("1 of 5 lines differ\nline 5:\n  theirs: {free}\n  ours:   nothing"));
    let text = mismatch(&with_header(SAME).replace("Time", "When"));
    assert!(text.starts_with("1 of 5 lines differ\nline 1:"), "{text}");
}

#[test]
fn what_rmm_does_not_write_is_refused() {
    for (original, replacement, problem) in [
        ("1,00:00:00.000000,allocate,", "1,0:00:00.000000,allocate,", "the time"),
        ("1,00:00:00.000000,allocate,", "01,00:00:00.000000,allocate,", "the thread"),
        ("(nil)", "0", "the pointer"),
        ("0x300", "0x0300", "the pointer"),
        ("0x300", "0xABC", "the pointer"),
        (",1,0x10", ",0x1,0x10", "the size"),
        ("99,0\n", "99,(nil)\n", "the stream"),
        ("99,0\n", "99\n", "5 fields"),
        ("0x300", "0x100", "the address is live"),
        ("free,0x100", "free,0x900", "the address is not live"),
        ("(nil)", "0x900", "an address in"),
        ("0x1\n", "0x1\r\n", "the stream"),
    ] {
        let text = after(original, replacement);
        assert!(text.starts_with("our log: line "), "{original}: {text}");
        assert!(text.contains(problem), "{original}: {text}");
    }
    assert!(mismatch(with_header(SAME).trim_end()).contains("no end"));
}

#[test]
fn a_long_list_of_differences_is_cut() {
    let other = (0..30).map(|_| "1,00:00:00.000000,allocate,(nil),0,0\n").collect::<String>();
    let text = mismatch(&with_header(&other));
    assert!(text.starts_with("30 of 31 lines differ\nline 2:"), "{text}");
    assert!(text.ends_with("\nand 20 more"), "{text}");
}
