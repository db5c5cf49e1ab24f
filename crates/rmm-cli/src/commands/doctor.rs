//! `rmm doctor`.

use rmm_report::page;

use super::{BAD_INPUT, Ended, SUCCESS};
use crate::args::DoctorArgs;
use crate::deliver;
use crate::device::DRIVER_VARIABLE;
use crate::doctor::Doctor;
use crate::style::plain;

/// `rmm doctor`.
pub fn doctor(args: &DoctorArgs) -> Ended {
    let mut messages = Vec::new();
    if std::env::var(DRIVER_VARIABLE).is_ok_and(|driver| driver == "sim") {
        match rmm_sim::install() {
            Ok(_) => messages.push(format!("{DRIVER_VARIABLE}=sim: this is the software device")),
            Err(error) => return Ended::failed(BAD_INPUT, error.to_string()),
        }
    }
    if let Err(error) = deliver::check(&args.outputs) {
        return Ended::failed(BAD_INPUT, error);
    }
    let doctor = Doctor::examine();
    let text = doctor.to_text();
    let page = plain(&text);
    let json = || deliver::to_json(&doctor);
    let page = || page::render_text("rmm doctor", doctor.verdict(), &page);
    let written = deliver::write(&args.outputs, text, json, page);
    Ended { text: String::new(), messages, status: SUCCESS }.delivered(written)
}
