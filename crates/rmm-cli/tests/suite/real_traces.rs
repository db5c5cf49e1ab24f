//! The recorded traces that the benchmarks replay.

use std::path::Path;

use rmm_report::trace;

#[test]
fn recorded_traces_have_their_known_figures() {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let folder = Path::new(&folder).join("../../benches/traces");
    // Events, streams, blocks, recorded peak, aligned peak, event of the peak.
    for (name, expected) in [
        ("gpt2-train", (58_598, 1, 428, 9_418_263_160, 9_418_272_512, 48_565)),
        ("resnet-train", (34_158, 1, 699, 3_796_258_448, 3_796_272_384, 32_639)),
        ("gnn-train", (27_984, 1, 55, 5_199_109_256, 5_199_111_680, 23_191)),
        ("etl-streams", (70_554, 6, 79, 232_995_044, 233_004_544, 69_300)),
    ] {
        let trace = trace::read(&folder.join(name).with_extension("csv.gz")).expect(name);
        let found = (
            trace.events.len(),
            trace.streams.len(),
            trace.blocks,
            trace.peak_live,
            trace.peak_live_aligned,
            trace.peak_event,
        );
        assert_eq!(found, expected, "{name}");
        assert_eq!(trace.threads, [1], "{name}");
    }
}
