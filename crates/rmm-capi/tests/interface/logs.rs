//! Logs with columns, and recorders.

use std::ptr;

use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::logging::*;
use rmm_rs::handle::status::*;

use super::common::*;
use super::resources::pool_with;

#[test]
fn a_log_has_columns_and_a_recorder_saves_what_it_kept() {
    let _machine = rmm_sim::enter();
    let pool = pool_with(None);
    let file = |name: &str| {
        let file = std::env::temp_dir().join(format!("rmm-c-{name}-{}.csv", std::process::id()));
        std::ffi::CString::new(file.to_str().expect("UTF-8")).expect("no zero byte")
    };
    let (logged, kept) = (file("columns"), file("kept"));
    let all = RMM_RS_LOG_TAG | RMM_RS_LOG_SITE | RMM_RS_LOG_DEVICE;
    let logging = c!(made(|out| {
        rmm_rs_logging_new_with_columns(pool.0, logged.as_ptr(), true, all, out)
    }));
    let logging = logging.unwrap_or_else(|_| panic!("{}", last_error()));
    let recorder = c!(made(|out| rmm_rs_recorder_new(logging.0, 0, true, ptr::null(), out)));
    let recorder = recorder.unwrap_or_else(|_| panic!("{}", last_error()));
    let mut block = ptr::null_mut();
    assert_eq!(c!(rmm_rs_resource_allocate_sync(recorder.0, 100, 256, &raw mut block)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_recorder_save(recorder.0, kept.as_ptr())), RMM_RS_OK);
    for written in [&logged, &kept] {
        let path = written.to_str().expect("UTF-8");
        let text = std::fs::read_to_string(path).expect("it is written");
        let [header, row, ..] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(header.ends_with(",Stream,Tag,Site,Device"), "{header}");
        assert!(row.contains(",allocate,0x") && row.contains(",100,0,untagged,"), "{row}");
        assert!(row.contains("tests/interface/logs.rs:"), "{row}");
        std::fs::remove_file(path).expect("it is there");
    }
    assert_eq!(c!(rmm_rs_recorder_save(pool.0, kept.as_ptr())), RMM_RS_REFUSED);
    let refused =
        c!(made(|out| rmm_rs_logging_new_with_columns(pool.0, logged.as_ptr(), true, 8, out)));
    assert!(refused.is_err() && last_error().contains("no sum of columns"), "{}", last_error());
    let freed = c!(rmm_rs_resource_deallocate_sync(recorder.0, block, 100, 256));
    assert_eq!(freed, RMM_RS_OK);
}
