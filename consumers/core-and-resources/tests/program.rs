//! The program runs on the software device, and finds all as it should be.

use std::process::Command;

#[test]
fn it_succeeds() {
    let program = env!("CARGO_BIN_EXE_rmm-consumer-core-and-resources");
    let output = Command::new(program).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}
