//! Bytes by tag: `cargo run -p rmm-rs --example attribution_by_tag`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use std::error::Error;
use std::io::Write as _;

use rmm::TaggedResourceAdaptor;
use rmm::mr::tagged::Tag;
use rmm::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let _device = device::open();

    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let tagged = TaggedResourceAdaptor::new(pool);
    let stream = CudaStream::new()?;
    let floats = |count| DeviceUVector::<f32>::uninit_in(count, &stream, &tagged);

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
            "{:8} {:>8} bytes live, {:>8} at peak",
            usage.tag,
            usage.live_bytes,
            usage.peak_bytes
        )?;
    }
    let (of_weights, of_batch) = (tagged.usage_of(weights), tagged.usage_of(batch));
    assert_eq!((of_weights.live_bytes, of_weights.live_blocks), (5 << 20, 2));
    assert_eq!((of_batch.live_bytes, of_batch.peak_bytes), (0, (2 << 20) + (4 << 10)));
    drop(model); // outside the scope; a block keeps its tag
    assert_eq!(tagged.usage_of(weights).live_bytes, 0);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
