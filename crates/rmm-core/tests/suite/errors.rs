//! Error kinds and messages.

use std::alloc::Layout;
use std::error::Error as _;

use rmm_core::{Error, ErrorKind, OomReason, PendingBytes, PoolUsage, StreamRef};
use rmm_sys::{CuResult, Driver};

fn layout(size: usize, alignment: usize) -> Layout {
    Layout::from_size_align(size, alignment).expect("a layout")
}

/// The kinds for which the error's predicates hold.
fn predicates(error: &Error) -> Vec<ErrorKind> {
    [
        (error.is_out_of_memory(), ErrorKind::OutOfMemory),
        (error.is_invalid_argument(), ErrorKind::InvalidArgument),
        (error.is_out_of_range(), ErrorKind::OutOfRange),
        (error.is_driver(), ErrorKind::Driver),
        (error.is_driver_unavailable(), ErrorKind::DriverUnavailable),
        (error.is_unsupported(), ErrorKind::Unsupported),
        (error.is_not_ready(), ErrorKind::NotReady),
    ]
    .into_iter()
    .filter_map(|(is, kind)| is.then_some(kind))
    .collect()
}

#[test]
fn each_constructor_makes_its_kind_and_one_line() {
    let cases = [
        (
            Error::out_of_memory("pool"),
            ErrorKind::OutOfMemory,
            "out of memory: pool could not allocate",
        ),
        (
            Error::invalid_argument("pool", "a limit of 7"),
            ErrorKind::InvalidArgument,
            "invalid argument to pool: a limit of 7",
        ),
        (
            Error::out_of_range("DeviceBuffer", "9 bytes of 8"),
            ErrorKind::OutOfRange,
            "out of range in DeviceBuffer: 9 bytes of 8",
        ),
        (
            Error::unsupported("export", "no handles"),
            ErrorKind::Unsupported,
            "export is not supported here: no handles",
        ),
        (
            Error::not_ready("pool", "it is asleep"),
            ErrorKind::NotReady,
            "pool is not ready: it is asleep",
        ),
    ];
    for (error, kind, line) in cases {
        assert_eq!(error.kind(), kind);
        assert_eq!(predicates(&error), [kind]);
        assert_eq!(error.to_string(), line);
        assert_eq!(error.code(), None);
        assert!(error.source().is_none());
    }
}

#[test]
fn the_kind_of_a_drivers_error_follows_from_its_code() {
    let cases = [
        (CuResult::OUT_OF_MEMORY, ErrorKind::OutOfMemory),
        (CuResult::NOT_SUPPORTED, ErrorKind::Unsupported),
        (CuResult::NO_DEVICE, ErrorKind::DriverUnavailable),
        (CuResult::STUB_LIBRARY, ErrorKind::DriverUnavailable),
        (CuResult::INVALID_VALUE, ErrorKind::Driver),
        (CuResult::DEINITIALIZED, ErrorKind::Driver),
        (CuResult(54321), ErrorKind::Driver),
    ];
    for (code, kind) in cases {
        let error = Error::driver("cuMemAlloc_v2", code);
        assert_eq!(predicates(&error), [kind], "{code:?}");
        assert_eq!((error.code(), error.origin()), (Some(code), "cuMemAlloc_v2"));
        let line = error.to_string();
        assert!(line.contains("cuMemAlloc_v2") && line.ends_with(&code.to_string()), "{line}");
    }
}

// `rmm::bad_alloc`: an allocation that failed for another reason than memory.
#[test]
fn a_refused_allocation_reports_its_request() {
    let error =
        Error::driver("cuMemAlloc_v2", CuResult::INVALID_CONTEXT).with_layout(layout(4096, 64));
    assert!(error.is_driver() && !error.is_out_of_memory());
    assert_eq!((error.requested(), error.alignment()), (Some(4096), Some(64)));
    let line = error.to_string();
    assert!(
        line.starts_with("cuMemAlloc_v2 failed 4.0 KiB (4096 bytes, alignment 64): "),
        "{line}"
    );
}

#[test]
fn an_error_reports_the_request_and_the_usage() {
    let stream = StreamRef::legacy().id();
    let held = PoolUsage::new(4 << 20, 3 << 20).with_largest_free(1 << 20).with_limit(4 << 20);
    let error = Error::out_of_memory("pool")
        .with_layout(layout(2 << 20, 256))
        .with_stream(stream)
        .with_usage(held);
    assert_eq!(error.stream(), Some(stream));
    assert_eq!(error.usage(), Some(held));
    assert_eq!(
        error.to_string(),
        "out of memory: pool could not allocate 2.0 MiB (2097152 bytes, alignment 256) on stream legacy; \
         4.0 MiB reserved, 3.0 MiB live, largest free block 1.0 MiB, limit 4.0 MiB"
    );
    let unlimited = Error::out_of_memory("pool").with_usage(held.with_limit(None));
    assert!(!unlimited.to_string().contains("limit"));
}

#[test]
fn an_error_reports_pending_memory_and_advice() {
    let held = [(Some(StreamRef::legacy().id()), 3 << 20), (None, 1 << 20)];
    let held = held.map(|(stream, bytes)| PendingBytes::new(stream, bytes));
    let usage = PoolUsage::new(8 << 20, 4 << 20)
        .with_largest_free(1 << 20)
        .with_longest_range(4 << 20)
        .with_reason(OomReason::Pending);
    let error = Error::out_of_memory("pool").with_usage(usage);
    let error = error.with_pending_bytes(held.to_vec());
    assert_eq!(error.pending_bytes(), held);
    assert_eq!(
        error.to_string(),
        "out of memory: pool could not allocate; 8.0 MiB reserved, 4.0 MiB live, largest free block 1.0 MiB, longest free range \
         4.0 MiB, 4.0 MiB freed and perhaps still in use (stream legacy: 3.0 MiB, destroyed streams: 1.0 MiB); enough \
         memory is free but may still be in use by the device: synchronize and retry"
    );
}

// RMM #1791: the cause of a failure was dropped on the way up.
#[test]
fn causes_are_kept_to_the_end_of_the_chain() {
    let deepest = Error::driver("cuMemAlloc_v2", CuResult::OUT_OF_MEMORY);
    let middle = Error::out_of_memory("cuda").with_source(deepest);
    let error = Error::out_of_memory("pool").with_source(middle);
    let middle = error.source().and_then(|source| source.downcast_ref::<Error>()).unwrap();
    assert_eq!(middle.origin(), "cuda");
    let deepest = middle.source().and_then(|source| source.downcast_ref::<Error>()).unwrap();
    assert_eq!(deepest.code(), Some(CuResult::OUT_OF_MEMORY));
    assert!(deepest.source().is_none());
    assert!(
        !error.to_string().contains("cuMemAlloc_v2"),
        "a line shows the error, not its sources"
    );
}

#[test]
fn a_missing_driver_is_its_own_kind_with_the_reason() {
    // SAFETY: no symbol is found, so no address is called.
    let missing = unsafe { Driver::from_symbols(|_| None) }.unwrap_err();
    let why = missing.to_string();
    let error = Error::from(missing);
    assert_eq!(predicates(&error), [ErrorKind::DriverUnavailable]);
    assert_eq!(error.to_string(), format!("no usable driver: {why}"));
    assert_eq!(error.source().map(ToString::to_string), Some(why));
}

#[test]
fn the_debug_form_shows_everything() {
    let error = Error::driver("cuInit", CuResult::NO_DEVICE).with_layout(layout(8, 8));
    let debug = format!("{error:#?}");
    for part in ["Error(", "DriverUnavailable", "cuInit", "layout"] {
        assert!(debug.contains(part), "{part} in {debug}");
    }
}

#[test]
fn an_error_is_one_word_and_may_go_anywhere() {
    fn goes_anywhere<T: std::error::Error + Send + Sync + 'static>() {}
    goes_anywhere::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
}

#[test]
fn a_main_that_returns_an_error_prints_its_line_and_sources() {
    let refused = "ten".parse::<usize>().unwrap_err();
    let lower = Error::invalid_argument("upstream", "`ten` is no size").with_source(refused);
    let error =
        Error::out_of_memory("pool").with_message("the limit is reached").with_source(lower);
    let printed = format!("{error:?}");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            "out of memory: pool could not allocate: the limit is reached",
            "  caused by: invalid argument to upstream: `ten` is no size",
            "  caused by: invalid digit found in string",
        ]
    );
    let fields = format!("{error:#?}");
    assert!(
        fields.contains("kind: OutOfMemory") && fields.contains("origin: \"pool\""),
        "{fields}"
    );
}
