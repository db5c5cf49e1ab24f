//! Error messages about logs that cannot be used.

use std::error::Error as _;
use std::io::{self, Read};
use std::path::Path;

use rmm_report::trace::{self, MAX_LINE};

use super::common::{HEADER, gzip, read, rows, zstd};

#[test]
fn every_bad_row_is_named() {
    let first = "1,0,allocate,0x10,64,0\n";
    let huge = format!("1,0,allocate,0x20,{},0", i64::MAX);
    let over = "x".repeat(70);
    for (row, message) in [
        ("1,0,free,0x10,64", "expected 6 fields, as in the header, found 5"),
        ("1,0,free,0x10,64,0,", "expected 6 fields, as in the header, found 7"),
        ("x,0,free,0x10,64,0", "thread \"x\" is not a decimal number of at most 64 bits"),
        ("+1,0,free,0x10,64,0", "thread \"+1\" is not a decimal number of at most 64 bits"),
        (",0,free,0x10,64,0", "thread \"\" is not a decimal number of at most 64 bits"),
        ("1,0,realloc,0x10,64,0", "action \"realloc\" is none of allocate, free, allocate failure"),
        (
            "1,0,free,10,64,0",
            "pointer \"10\" is not 0x and at most 16 hexadecimal digits, nor (nil)",
        ),
        (
            "1,0,free,0x11112222333344445,64,0",
            "pointer \"0x11112222333344445\" is not 0x and at most 16 hexadecimal digits, nor (nil)",
        ),
        (
            "1,0,free,0x+1,64,0",
            "pointer \"0x+1\" is not 0x and at most 16 hexadecimal digits, nor (nil)",
        ),
        ("1,0,free,0x10,-64,0", "size \"-64\" is not a decimal number of bytes"),
        ("1,0,free,0x10,0x40,0", "size \"0x40\" is not a decimal number of bytes"),
        ("1,0,free,0x10,,0", "size \"\" is not a decimal number of bytes"),
        (
            "1,0,allocate,0x20,9223372036854775808,0",
            "size \"9223372036854775808\" is more than the 9223372036854775807 bytes that an allocation can have",
        ),
        (
            "1,0,allocate,0x20,99999999999999999999999,0",
            "size \"99999999999999999999999\" is more than the 9223372036854775807 bytes that an allocation can have",
        ),
        ("1,0,free,0x10,64,s", "stream \"s\" is not a hexadecimal number of at most 64 bits"),
        ("1,0,free,0x10,64,", "stream \"\" is not a hexadecimal number of at most 64 bits"),
        ("1,0,allocate,(nil),64,0", "an allocation of 64 bytes cannot have a null pointer"),
        ("1,0,allocate,0x10,32,0", "allocates 0x10, which is live since line 2"),
        ("1,0,free,(nil),64,0", "frees 0x0, which is not live"),
        ("1,\"0,free,0x10,64,0", "the quote in column 3 is not closed"),
        ("1,\"0\"0,free,0x10,64,0", "expected a comma in column 6, behind the closing quote"),
        ("1,0,free,0x10,32,0", "frees 0x10 with 32 bytes, but line 2 allocated it with 64"),
        ("1,0,free,0x10,0,0", "frees 0x10 with 0 bytes, but line 2 allocated it with 64"),
        (
            "1,0,a\u{1b}[2Jb,0x10,64,0",
            "action \"a\\u{1b}[2Jb\" is none of allocate, free, allocate failure",
        ),
        (
            &format!("1,0,{over},0x10,64,0"),
            &format!("action \"{}\"... is none of allocate, free, allocate failure", &over[..60]),
        ),
        (
            &format!("1,{},free,0x10,64,0", "9".repeat(MAX_LINE)),
            "the line is longer than 16384 bytes",
        ),
    ] {
        let error = rows(&format!("{first}{row}\n{first}")).expect_err(row);
        assert_eq!(error.to_string(), format!("log.csv:3: {message}"), "{row}");
    }
    let error =
        rows(&format!("{huge}\n{}\n", huge.replace("0x20", "0x30"))).expect_err("2^64 bytes");
    assert_eq!(error.to_string(), "log.csv:3: the bytes live at once do not fit in 64 bits");
}

#[test]
fn what_is_freed_twice_is_named() {
    for (rows, message) in [
        (
            "1,0,allocate,0x10,64,0\n1,0,free,0x10,64,0\n1,0,free,0x10,64,0\n",
            "log.csv:4: frees 0x10, which is not live",
        ),
        // The first is of a block from before the log, the second cannot be.
        ("1,0,free,0x10,64,0\n1,0,free,0x10,32,0\n", "log.csv:3: frees 0x10, which is not live"),
        (
            "1,0,allocate,0x10,0,0\n1,0,free,0x10,64,0\n",
            "log.csv:3: frees 0x10 with 64 bytes, but line 2 allocated it with 0",
        ),
        (
            "1,0,allocate,0x10,64,0\n1,0,free,0x10,64,0\n1,0,free,0x10,0,0\n",
            "log.csv:4: frees 0x10, which is not live",
        ),
    ] {
        assert_eq!(super::common::rows(rows).expect_err(rows).to_string(), message);
    }
    let half = i64::MAX;
    let rows = format!("1,0,free,0x10,{half},0\n1,0,free,0x20,{half},0\n1,0,free,0x30,1,0\n");
    let error = super::common::rows(&rows).expect_err("2^64 bytes before the log");
    assert_eq!(error.to_string(), "log.csv:3: the bytes live at once do not fit in 64 bits");
}

#[test]
fn text_that_is_no_text() {
    let bytes = [HEADER.as_bytes(), b"1,0,allocate,0x10,64,0\n1,\xff,free,0x10,64,0\n"].concat();
    assert_eq!(
        read(&bytes).expect_err("not UTF-8").to_string(),
        "log.csv:3: the line is not UTF-8 text"
    );
    assert_eq!(
        read(b"\x7fELF\xff\n").expect_err("binary").to_string(),
        "log.csv:1: the line is not UTF-8 text"
    );
}

#[test]
fn a_header_must_be_there_and_right() {
    for (text, found) in [
        ("1,0,allocate,0x10,64,0\n", "1,0,allocate,0x10,64,0"),
        ("Thread,Time,Action,Pointer,Size\n", "Thread,Time,Action,Pointer,Size"),
        ("Thread,Time,Action,pointer,Size,Stream\n", "Thread,Time,Action,pointer,Size,Stream"),
        ("hello\r\n", "hello"),
    ] {
        let expected = format!(
            "log.csv:1: expected the header Thread,Time,Action,Pointer,Size,Stream, found \"{found}\""
        );
        assert_eq!(read(text.as_bytes()).expect_err(text).to_string(), expected);
    }
}

#[test]
fn nothing_to_replay() {
    for bytes in [Vec::new(), b"\n\r\n".to_vec(), gzip(b""), zstd(b"")] {
        assert_eq!(read(&bytes).expect_err("empty").to_string(), "log.csv: the file is empty");
    }
    assert_eq!(
        rows("").expect_err("no event").to_string(),
        "log.csv: there is a header but no event"
    );
}

#[test]
fn compressed_data_that_end_early_or_are_damaged() {
    let rows = "1,0,allocate,0x10,64,0\n1,0,free,0x10,64,0\n".repeat(1000);
    let text = [HEADER, &rows].concat().into_bytes();
    for (compression, whole) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
        for length in [4, 12, whole.len() / 2, whole.len() - 1] {
            let message = read(&whole[..length]).expect_err("cut").to_string();
            let start = format!("log.csv: the {compression} data end too early; ");
            assert!(message.starts_with(&start), "{length}: {message}");
            assert!(message.ends_with(" events could be read before that"), "{length}: {message}");
        }
        let mut damaged = whole;
        damaged[6..].fill(0xff);
        let message = read(&damaged).expect_err("damaged").to_string();
        assert!(
            message.starts_with(&format!("log.csv: the {compression} data are damaged: ")),
            "{message}"
        );
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let endless = io::Cursor::new(HEADER).chain(io::repeat(b'x'));
    let error = trace::read_from("endless", endless).expect_err("no line end");
    assert_eq!(error.to_string(), "endless:2: the line is longer than 16384 bytes");
    let error = read(&zstd(&vec![b','; 1 << 28])).expect_err("a quarter of a gibibyte of one line");
    assert_eq!(error.to_string(), "log.csv:1: the line is longer than 16384 bytes");
}

#[test]
fn a_line_of_the_longest_length_is_taken() {
    let row = |time: usize| format!("1,{},allocate,0x10,64,0", "9".repeat(time));
    let time = MAX_LINE - row(0).len();
    assert!(rows(&row(time)).is_ok());
    assert!(rows(&row(time + 1)).is_err());
}

/// An input that fails.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the cable is out"))
    }
}

#[test]
fn files_that_cannot_be_read() {
    let error = trace::read(Path::new("no/such/log.csv")).expect_err("no such file");
    assert!(error.to_string().starts_with("no/such/log.csv: cannot open: "), "{error}");
    assert!(error.source().is_some());

    let error =
        trace::read_from("tape", io::Cursor::new(HEADER).chain(Broken)).expect_err("broken");
    assert_eq!(error.to_string(), "tape: cannot read: the cable is out");
}
