//! Logs the allocations of a program and replays them on other resources:
//! `cargo run -p rmm-rs --example log_and_replay`.
//!
//! The program runs once. `rmm replay` repeats the calls of its log, which has RMM's format, on any
//! resource; this example does so through the library of that program.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::Write as _;

use rmm::LoggingResourceAdaptor;
use rmm::prelude::*;
use rmm_cli::args::DeviceChoice;
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{self, ReplayOptions};
use rmm_cli::table;
use rmm_report::results::TraceResult;
use rmm_report::trace;

/// The program: vectors that grow, on two streams.
fn a_program() -> Result<(), rmm::Error> {
    let streams = [CudaStream::new()?, CudaStream::new()?];
    for round in 1..=20 {
        let vectors =
            streams.each_ref().map(|stream| DeviceUVector::from_slice(&[7u32; 1000], stream));
        for vector in vectors {
            let mut vector = vector?;
            vector.resize(1000 * round)?;
            assert_eq!(vector.element(0)?, 7);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = OpenDevice::open(DeviceChoice::Auto)?;
    println!("on: {}", device.name);
    if device.notice.is_some() {
        println!("(the times below are not those of a GPU)");
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log.csv");

    // One line per call, from all threads.
    let logged = LoggingResourceAdaptor::create(CudaMemoryResource::new(), &path)?;
    rmm::set_current_device_resource(&logged)?;
    a_program()?;
    rmm::reset_current_device_resource()?;
    logged.flush()?;
    assert_eq!(logged.lost_lines(), 0);

    // The same as: rmm replay log.csv --resource pool,cuda
    let trace = trace::read(&path)?;
    println!("{trace}");
    let options = ReplayOptions { repeat: 3, ..ReplayOptions::default() };
    let replay_on = |resource| replay::replay(&device, &trace, resource, options, &|_| ());
    let (pool, cuda) = (replay_on(&"pool".parse()?)?, replay_on(&"cuda".parse()?)?);

    for replayed in [&pool, &cuda] {
        assert_eq!((replayed.failures, replayed.leaked_blocks), (0, 0));
        assert_eq!(replayed.peak_live_bytes, trace.peak_live_aligned);
    }
    assert!(pool.driver_calls < cuda.driver_calls, "a pool saves driver calls");
    let result = TraceResult { resources: vec![pool, cuda], ..replay::trace_result(&trace) };
    writeln!(std::io::stdout(), "{}", table::render(&result))?;
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
