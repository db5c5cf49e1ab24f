//! A program that knows cudarc and nothing of rmm: many short-lived tensors on two streams, as an
//! inference server makes them.
//!
//! ```sh
//! mkdir libraries && ln -s $PWD/target/release/librmm_preload.so libraries/libcuda.so
//! LD_LIBRARY_PATH=libraries RMM_PRELOAD_REPORT=1 cargo run --release -p rmm-preload --example cudarc_program
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaStream, DriverError};

/// A layer: an intermediate result of another size each time, and the sum of the next.
fn layer(stream: &Arc<CudaStream>, input: &[f32], size: usize) -> Result<f32, DriverError> {
    let weights = stream.clone_htod(input)?;
    let mut scratch = stream.alloc_zeros::<f32>(size)?;
    stream.memcpy_dtod(&weights, &mut scratch.slice_mut(..input.len()))?;
    let result = stream.clone_dtoh(&scratch)?;
    Ok(result.iter().sum())
}

fn main() -> Result<(), DriverError> {
    let layers: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(200);
    let context = CudaContext::new(0)?;
    let streams = [context.new_stream()?, context.new_stream()?];
    let input = vec![0.5_f32; 1000];
    let (mut total, start) = (0.0, Instant::now());
    for index in 0..layers {
        total += layer(&streams[index % 2], &input, 1000 + index % 7 * 1000)?;
    }
    streams.iter().try_for_each(|stream| stream.synchronize())?;
    let each = start.elapsed() / u32::try_from(layers.max(1)).unwrap_or(u32::MAX);
    println!("{layers} layers, sum {total}");
    eprintln!("{each:?} a layer");
    Ok(())
}
