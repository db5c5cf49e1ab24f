//! A test that checks stream order, on any machine: `cargo test -p rmm-rs --example checked_test`.
//!
//! `#[rmm_sim::test]` runs the test on the software device under several schedules, and fails it if
//! work uses memory without being ordered after earlier conflicting work.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rmm::prelude::*;
use rmm_sim::{Kernel, Machine};

/// One stream fills a vector, another sums it up.
fn sum(machine: &Machine, with_wait: bool) -> rmm::Result<()> {
    let (producer, consumer) = (CudaStream::new()?, CudaStream::new()?);
    let vector = DeviceUVector::filled(1u32, 1000, &producer)?;
    let pointer = if with_wait {
        vector.use_on(&consumer)?.as_ptr() // `consumer` waits for `producer`
    } else {
        vector.as_ptr() // for work on `producer` only
    };
    let kernel = Kernel::new("sum", |_| ()).reads(pointer, 4000);
    machine.launch(consumer.as_raw(), kernel).expect("the memory belongs to the device");
    Ok(())
}

#[rmm_sim::test]
fn the_consumer_waits_for_the_producer(machine: &Machine) -> rmm::Result<()> {
    sum(machine, true)
}

#[test]
fn a_missing_wait_is_reported() {
    main();
}

/// Shows the report of a test that fails.
fn main() {
    let failed = std::panic::catch_unwind(|| {
        rmm_sim::check(|machine| sum(machine, false).expect("there is memory"));
    });
    let report = failed.expect_err("a wait is missing").downcast::<String>().expect("a report");
    println!("{report}");
    assert!(report.contains("race") && report.contains("sum reads it"), "{report}");
    assert!(report.contains("let stream 3 wait for it"), "{report}");
}
