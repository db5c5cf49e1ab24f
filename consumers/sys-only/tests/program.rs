//! The program runs where there is no driver, and says so.

use std::process::Command;

#[test]
fn that_there_is_no_driver_is_said_and_is_no_failure() {
    let output = Command::new(env!("CARGO_BIN_EXE_rmm-consumer-sys-only"))
        .env("RMM_CUDA_LIBRARY", "/nonexistent")
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("no driver: ") && said.contains("/nonexistent"), "{said}");
}
