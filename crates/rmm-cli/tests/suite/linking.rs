//! The program does not link the driver, so it starts on machines without one.

use std::process::Command;

#[cfg(target_os = "linux")]
#[test]
fn no_library_of_cuda_is_needed_to_start() {
    let program = env!("CARGO_BIN_EXE_rmm");
    let Ok(output) = Command::new("readelf").args(["-d", program]).output() else {
        println!("skipped: there is no readelf");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().any(|line| line.contains("libc.so")), "the list is readable: {text}");
    for line in needed {
        let lower = line.to_lowercase();
        let is_nvidia =
            ["cuda", "nvidia", "cudart", "nvml"].iter().any(|name| lower.contains(name));
        assert!(!is_nvidia, "{line}");
    }
}
