//! `rmm doctor`.

use super::{BAD_INPUT, Ended, FAILURE, SUCCESS};
use crate::args::DoctorArgs;
use crate::device::DRIVER_VARIABLE;
use crate::doctor::Doctor;

/// `rmm doctor`.
pub fn doctor(args: &DoctorArgs) -> Ended {
    let mut messages = Vec::new();
    if std::env::var(DRIVER_VARIABLE).is_ok_and(|driver| driver == "sim") {
        match rmm_sim::install() {
            Ok(_) => messages.push(format!("{DRIVER_VARIABLE}=sim: this is the software device")),
            Err(error) => return Ended::failed(BAD_INPUT, error.to_string()),
        }
    }
    let doctor = Doctor::examine();
    if !args.json {
        return Ended { text: doctor.to_text(), messages, status: SUCCESS };
    }
    match serde_json::to_string_pretty(&doctor) {
        Ok(json) => Ended { text: json + "\n", messages, status: SUCCESS },
        Err(error) => Ended::failed(FAILURE, error.to_string()),
    }
}
