//! `rmm doctor`.

use super::{BAD_INPUT, Ended, SUCCESS};
use crate::args::{DoctorArgs, OutputArgs};
use crate::deliver;
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
    let outputs = OutputArgs { json: args.json.clone(), html: None };
    if let Err(error) = deliver::check(&outputs) {
        return Ended::failed(BAD_INPUT, error);
    }
    let doctor = Doctor::examine();
    let json = || deliver::to_json(&doctor);
    let written = deliver::write(&outputs, doctor.to_text(), json, String::new);
    Ended { text: String::new(), messages, status: SUCCESS }.delivered(written)
}
