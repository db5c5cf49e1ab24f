//! The recorded traces on the software device: all succeeds, and the pools hold no more memory than
//! others do.

use std::path::Path;

use rmm_cli::args::DeviceChoice;
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{ReplayOptions, replay};
use rmm_report::trace::{self, Trace};

fn read(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/traces");
    trace::read(&folder.join(name).with_extension("csv.gz")).expect(name)
}

/// Replays a trace; `most` is what RMM's pool reserves on it, as a multiple of the peak of live
/// bytes.
fn replay_whole(name: &str, peak_live: u64, most: f64) {
    let trace = read(name);
    let device = OpenDevice::open(DeviceChoice::Software).expect("always there");
    let options = ReplayOptions::default();
    let mut held = [f64::NAN; 2];
    for (held, kind) in held.iter_mut().zip(["pool", "pool-cuda"]) {
        let pool = kind.parse().expect("a name");
        let result = replay(&device, &trace, &pool, options, &|_| {}).expect("it can be made");
        assert_eq!(result.events, trace.events.len() as u64);
        assert_eq!((result.failures, &result.first_failure), (0, &None), "{name}");
        assert_eq!(result.peak_live_bytes, peak_live, "{name}");
        assert_eq!(result.peak_live_bytes, trace.peak_live_aligned, "{name}");
        let ratio = result.reserved_over_live.expect("a pool of ours");
        assert!(
            (1.0..=most).contains(&ratio),
            "{name}, {kind}: {:?} bytes reserved for {peak_live} are {ratio:.3}, above {most}",
            result.peak_reserved_bytes,
        );
        *held = ratio;
    }
    let [default, over_cuda] = held;
    assert!(default < over_cuda, "{name}: the default holds {default}, the other {over_cuda}");
}

#[test]
fn gpt2_train() {
    replay_whole("gpt2-train", 9_418_272_512, 2.10);
}

#[test]
fn resnet_train() {
    replay_whole("resnet-train", 3_796_272_384, 1.92);
}

#[test]
fn gnn_train() {
    replay_whole("gnn-train", 5_199_111_680, 1.82);
}

#[test]
fn etl_streams() {
    replay_whole("etl-streams", 233_004_544, 3.35);
}

/// Only there does the pool record events for a single stream.
#[test]
fn resnet_train_on_the_legacy_stream() {
    let trace = read("resnet-train");
    let device = OpenDevice::open(DeviceChoice::Software).expect("always there");
    let pool = "pool".parse().expect("a name");
    let [own, legacy] = [false, true].map(|legacy_stream| {
        let options = ReplayOptions { legacy_stream, ..ReplayOptions::default() };
        replay(&device, &trace, &pool, options, &|_| {}).expect("it can be made")
    });
    assert_eq!(legacy.failures, 0, "{:?}", legacy.first_failure);
    assert!(legacy.driver_calls > own.driver_calls, "{:?}", legacy.driver_calls);
    let ratio = legacy.reserved_over_live.expect("a pool of ours");
    assert!(ratio <= 1.06, "{ratio} of the peak");
}
