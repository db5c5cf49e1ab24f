//! A program of cudarc's that orders its streams by itself, and forgets it: without "fixed" as its
//! argument, the second stream does not wait for the first. For `rmm check`.

use cudarc::driver::{CudaContext, DriverError};
use cudarc_0_19 as cudarc;

fn main() -> Result<(), DriverError> {
    let is_fixed = std::env::args().any(|argument| argument == "fixed");
    let context = CudaContext::new(0)?;
    // SAFETY: the streams are ordered below, if the argument says so.
    unsafe { context.disable_event_tracking() };
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let x = first.clone_htod(&[1.0_f32; 1000])?;
    if is_fixed {
        second.join(&first)?;
    }
    let sum: f32 = second.clone_dtoh(&x)?.iter().sum();
    second.synchronize()?;
    first.synchronize()?;
    assert!(!is_fixed || (sum - 1000.0).abs() < 0.5, "{sum}");
    Ok(())
}
