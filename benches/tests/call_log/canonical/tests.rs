//! Tests of the differences between logs that count.

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

/// The second log once this is changed in it.
fn after(original: &str, replacement: &str) -> Result<Canonical, String> {
    assert!(SAME.contains(original), "{original}");
    canonical(&with_header(&SAME.replace(original, replacement)))
}

#[test]
fn addresses_times_threads_and_handles_may_differ() {
    let log = canonical(&with_header(LOG)).unwrap();
    assert_eq!((log.threads, log.streams, log.blocks), (2, 3, 2));
    assert_eq!(log.lines[4], "(thread 1),(time),free,(block 1),256,0x1");
    assert_eq!(canonical(&with_header(SAME)).unwrap(), log);
}

#[test]
fn an_address_may_be_handed_out_again_in_one_log_alone() {
    let rows = |second: &str| {
        let call = |what: &str| format!("1,00:00:00.000000,{what},8,0x1\n");
        let calls = ["allocate,0x100", "free,0x100"].map(call).concat();
        let again = [format!("allocate,{second}"), format!("free,{second}")];
        canonical(&with_header(&(calls + &again.map(|what| call(&what)).concat()))).unwrap()
    };
    assert_eq!(rows("0x100"), rows("0x200"));
    assert_eq!(rows("0x100").blocks, 2);
}

#[test]
fn nothing_else_may_differ() {
    let log = canonical(&with_header(LOG)).unwrap();
    for (original, replacement) in [
        ("allocate,0x300,1,", "allocate,0x300,2,"),
        ("allocate failure", "failure"),
        ("99,0\n", "99,0x3\n"),
        ("256,0x1\n", "256,0x2\n"),
        ("2,00:00:00.000000,", "1,00:00:00.000000,"),
        ("free,0x100", "free,0x300"),
        ("1,00:00:00.000000,free,0x100,256,0x1\n", ""),
    ] {
        assert_ne!(after(original, replacement).unwrap(), log, "{original}");
    }
    assert_ne!(canonical(&with_header(LOG).replace("Time", "When")).unwrap(), log);
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
        let text = after(original, replacement).unwrap_err();
        assert!(text.starts_with("line "), "{original}: {text}");
        assert!(text.contains(problem), "{original}: {text}");
    }
    assert!(canonical(with_header(SAME).trim_end()).unwrap_err().contains("no end"));
}
