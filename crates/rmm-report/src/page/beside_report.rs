//! The page beside the log that a recorder writes when memory runs out.

use std::fs;
use std::io;
use std::path::Path;

use super::render_logs;
use crate::trace;

/// From now on, reports of failures in this process ([`OOM_REPORT_VARIABLE`]) have a page beside
/// each log. It is drawn by the call that fails, from the log, in host memory.
///
/// The Python package does so when it is imported.
///
/// [`OOM_REPORT_VARIABLE`]: rmm_adaptors::OOM_REPORT_VARIABLE
///
/// ```
/// use rmm_adaptors::RecorderResourceAdaptor;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::Machine::builder().memory(1 << 20).enter();
/// # let folder = std::env::temp_dir().join(format!("rmm-beside-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// rmm_report::page::draw_failure_reports(); // once, when the program starts
/// let cuda = CudaMemoryResource::new();
/// let resource = RecorderResourceAdaptor::builder(cuda).oom_report(&folder).build();
/// let layout = std::alloc::Layout::from_size_align(8 << 20, 256)?;
/// let error = resource.allocate_sync(layout).unwrap_err();
/// assert!(error.to_string().contains(".csv, drawn in "), "{error}");
/// let page = folder.join(format!("rmm-oom-{}-0.html", std::process::id()));
/// assert!(std::fs::read_to_string(page)?.contains("8.0 MiB"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub fn draw_failure_reports() {
    rmm_adaptors::write_pages_by(draw);
}

fn draw(log: &Path, page: &Path) -> io::Result<()> {
    let trace = trace::read(log).map_err(io::Error::other)?;
    fs::write(page, render_logs(&[trace]))
}
