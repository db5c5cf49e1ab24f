//! The `round-trip` program on the software device: that it runs, and what it prints.

use std::error::Error;
use std::fs;
use std::process::Command;

use rmm_benches::round_trip::{Allocation, Figure};

#[test]
fn every_size_has_a_figure_of_each_kind() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("round-trip.csv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_round-trip"));
    command.args(["--quick", "--device", "sim", "--output"]).arg(&file);
    let output = command.output()?;
    let table = String::from_utf8(output.stderr)?;
    assert!(output.status.success() && output.stdout.is_empty(), "{table}");
    assert!(table.contains("| 1.0 MiB    each trip"), "there is a table: {table}");

    let text = fs::read_to_string(&file)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let figures: Vec<Figure> = reader.deserialize().collect::<Result<_, _>>()?;
    let kinds = figures.iter().map(|figure| (figure.bytes, figure.allocation));
    let sizes = [4 << 10, 16 << 10, 64 << 10, 1 << 20];
    let both = |bytes| [(bytes, Allocation::Once), (bytes, Allocation::EachTrip)];
    assert!(kinds.eq(sizes.into_iter().flat_map(both)), "{text}");
    for figure in figures {
        assert!(figure.trips > 0 && figure.typed_ns > 0.0 && figure.raw_ns > 0.0, "{figure:?}");
        // What the launch of a kernel calls is counted of neither on the software device.
        let raw_calls = if figure.allocation == Allocation::Once { 4 } else { 6 };
        assert_eq!(figure.raw_calls, raw_calls, "{figure:?}");
        assert!(figure.typed_calls <= raw_calls + 10, "{figure:?}");
    }
    Ok(())
}
