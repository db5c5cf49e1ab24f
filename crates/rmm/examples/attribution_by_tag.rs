//! Whose memory it is: `cargo run -p rmm --example attribution_by_tag`.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

mod device;

use std::error::Error;
use std::io::Write as _;

use rmm::TaggedResourceAdaptor;
use rmm::mr::Tag;
use rmm::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let _device = device::open();

    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let tagged = TaggedResourceAdaptor::new(pool);
    let stream = CudaStream::new()?;
    let floats = |count| DeviceUVector::<f32>::uninit(count, &stream, &tagged);

    let (weights, batch) = (Tag::named("weights"), Tag::named("batch"));
    let model = {
        let _scope = weights.enter();
        [floats(1 << 20)?, floats(1 << 18)?]
    };
    for _ in 0..3 {
        let _scope = batch.enter();
        let _input = floats(1 << 19)?;
        let _output = floats(1 << 10)?;
    }

    for usage in tagged.usage() {
        writeln!(
            std::io::stdout(),
            "{:8} {:>8} bytes now, {:>8} at the most",
            usage.tag,
            usage.live_bytes,
            usage.peak_bytes
        )?;
    }
    let (of_weights, of_batch) = (tagged.usage_of(weights), tagged.usage_of(batch));
    assert_eq!((of_weights.live_bytes, of_weights.live_blocks), (5 << 20, 2));
    assert_eq!((of_batch.live_bytes, of_batch.peak_bytes), (0, (2 << 20) + (4 << 10)));
    drop(model); // outside of the scope, and still counted for it
    assert_eq!(tagged.usage_of(weights).live_bytes, 0);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
