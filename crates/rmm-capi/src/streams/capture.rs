//! Announcements of stream captures: [`CaptureScope`] for C.

use std::sync::Mutex;

use rmm_core::{CaptureScope, fork};

use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::status::Status;

/// The announcements that were not withdrawn. Lock order: leaf.
static SCOPES: Mutex<Vec<CaptureScope>> = Mutex::new(Vec::new());

/// Announces that streams of this process may be captured into graphs, before a capture begins:
/// pools then keep memory for graphs that is used in a capture, and clients defer frees of blocks
/// with recorded streams. Announcements are counted, and are made on any thread. Returns once waits
/// for a device that other threads make for the library are over, which would invalidate a capture.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_capture_announce() -> Status {
    guard::status(|| {
        // It may wait, and another thread withdraws meanwhile.
        let scope = CaptureScope::announce();
        fork::lock(&SCOPES).push(scope);
        Ok(())
    })
}

/// Withdraws an announcement, after the capture has ended, on any thread.
/// `RMM_RS_INVALID_ARGUMENT` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_capture_withdraw() -> Status {
    guard::status(|| match fork::lock(&SCOPES).pop() {
        Some(scope) => {
            drop(scope);
            Ok(())
        }
        None => Err(Failure::invalid("no capture is announced")),
    })
}
