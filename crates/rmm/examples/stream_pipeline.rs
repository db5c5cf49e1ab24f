//! Batches go through upload, work and download on three streams. Nobody records an event: the
//! containers order the streams.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

mod device;

use rmm::prelude::*;
use rmm::stream::StreamFlags;

const ELEMENTS: usize = 1 << 16;

/// A place in the pipeline: memory on both sides, used for every other batch.
struct Slot {
    upload: PinnedVec<u32>,
    elements: DeviceUVector<u32>,
    download: PinnedVec<u32>,
    batch: Option<u32>,
}

/// Stands for a kernel: doubles the batch by copying, and marks its first element.
fn work(elements: &mut DeviceUVector<u32>, stream: &CudaStream) -> Result<(), rmm::Error> {
    let (mut left, right) = elements.as_slice_mut().split_at(ELEMENTS / 2)?;
    left.copy_from_on(right.as_slice(), stream)?;
    left.slice(..1)?.fill_on(u32::MAX, stream)
}

fn finish(slot: &mut Slot) -> Result<u32, rmm::Error> {
    let Some(batch) = slot.batch.take() else { return Ok(0) };
    // Waits for this batch's download, and for nothing that was enqueued after it.
    let result = slot.download.as_slice()?;
    assert_eq!(result[0], u32::MAX);
    assert!(result[1..].iter().all(|element| *element == batch));
    Ok(1)
}

fn main() -> Result<(), rmm::Error> {
    let _device = device::open();
    let stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
    let (upload, compute, download) = (stream()?, stream()?, stream()?);
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let slot = || {
        Ok::<_, rmm::Error>(Slot {
            upload: PinnedVec::zeroed(ELEMENTS)?,
            elements: DeviceUVector::uninit_in(ELEMENTS, &compute, &pool)?,
            download: PinnedVec::zeroed(ELEMENTS)?,
            batch: None,
        })
    };
    let mut slots: [Slot; 2] = [slot()?, slot()?];

    let mut finished = 0;
    for batch in 0..10 {
        let slot = &mut slots[usize::from(batch % 2 == 1)];
        finished += finish(slot)?;
        slot.upload.as_mut_slice()?.fill(batch);
        slot.elements.as_slice_mut().copy_from_on(slot.upload.device_slice(), &upload)?;
        work(&mut slot.elements, &compute)?;
        slot.download.copy_from_device(slot.elements.as_slice(), &download)?;
        slot.batch = Some(batch);
    }
    for slot in &mut slots {
        finished += finish(slot)?;
    }
    println!("{finished} batches went through");
    assert_eq!(finished, 10);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
