//! A program that takes a container's address behind its back, and the software device that says
//! what is wrong with it.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm::prelude::*;
use rmm::stream::StreamFlags;
use rmm_sim::{Kernel, Machine};

/// One stream fills a vector, another one sums it up.
fn sum(machine: &Machine, in_order: bool) -> Result<(), rmm::Error> {
    let stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
    let (producer, consumer) = (stream()?, stream()?);
    let mut vector = DeviceUVector::from_slice(&[0u32; 1000], &producer)?;
    vector.fill(1)?;
    let pointer = if in_order {
        vector.use_on(&consumer)?.as_ptr() // `consumer` waits, and is waited for
    } else {
        vector.as_ptr() // good on `producer` only
    };
    let kernel = Kernel::new("sum", |_| ()).reads(pointer, 4000);
    machine.launch(consumer.as_raw(), kernel).expect("the memory is the device's");
    Ok(())
}

fn main() {
    // As in a test: under several schedules, so that nothing is left to luck.
    rmm_sim::check(|machine| sum(machine, true).expect("there is memory"));
    println!("in order, nothing is found");

    let wrong = catch_unwind(AssertUnwindSafe(|| {
        rmm_sim::check(|machine| sum(machine, false).expect("there is memory"));
    }));
    let report = wrong.expect_err("it is wrong").downcast::<String>().expect("a report");
    println!("out of order:\n{report}");
    assert!(report.contains("race") && report.contains("sum reads it"), "{report}");
    assert!(report.contains("record an event on stream"), "{report}");
}

#[test]
fn it_runs() {
    main();
}
