//! A pipeline over four streams with pinned staging memory: `cargo run -p rmm-rs --example
//! stream_pipeline`.
//!
//! Chunks of the input are uploaded, worked on and downloaded on one stream each, so that the
//! copies of one overlap the work of another. The host waits only to reuse a staging vector, for
//! the copy that used it last.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use rmm::CudaStreamPool;
use rmm::prelude::*;
use rmm::stream::StreamFlags;

const CHUNK: usize = 1 << 16;
const STREAMS: usize = 4;

/// Stands for a kernel, which would be launched with `x.as_ptr()` on `x.stream()`.
fn work(x: &mut DeviceUVector<u32>) -> rmm::Result<()> {
    x.set_element_async(0, u32::MAX)
}

fn main() -> rmm::Result<()> {
    let _device = device::open();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let streams = CudaStreamPool::new(STREAMS, StreamFlags::NON_BLOCKING)?;
    let mut uploads =
        (0..STREAMS).map(|_| PinnedVec::zeroed(CHUNK)).collect::<rmm::Result<Vec<_>>>()?;
    let mut downloads =
        uploads.iter().map(PinnedVec::try_clone).collect::<rmm::Result<Vec<_>>>()?;

    let input: Vec<u32> = (0u32..).take(10 * CHUNK).collect();
    let mut output = Vec::with_capacity(input.len());
    for (i, chunk) in input.chunks(CHUNK).enumerate() {
        let (stream, upload, download) =
            (streams.get_at(i), &mut uploads[i % STREAMS], &mut downloads[i % STREAMS]);
        if i >= STREAMS {
            output.extend_from_slice(download.as_slice()?); // waits for this stream's last download
        }
        upload.as_mut_slice()?.copy_from_slice(chunk); // waits for this stream's last upload
        let mut x = upload.device_slice().to_device_in(stream, &pool)?; // enqueues the upload
        work(&mut x)?;
        download.copy_from_device(x.as_slice(), stream)?; // enqueues the download
    } // `x` is freed in the order of its stream: no wait
    for i in input.len() / CHUNK..input.len() / CHUNK + STREAMS {
        output.extend_from_slice(downloads[i % STREAMS].as_slice()?);
    }

    println!("{} elements, {:?}", output.len(), pool.statistics());
    assert_eq!(output.len(), input.len());
    for (result, chunk) in output.chunks(CHUNK).zip(input.chunks(CHUNK)) {
        assert_eq!((result[0], &result[1..]), (u32::MAX, &chunk[1..]));
    }
    assert_eq!(pool.statistics().frees, 10);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
