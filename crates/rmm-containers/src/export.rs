//! Exporting the memory of a buffer to other processes.

use rmm_core::{Error, RelaxedCapture};
use rmm_resources::{Piece, export_range};

use crate::DeviceBuffer;

/// Exports a buffer's memory to other processes, as pieces that
/// [`ImportedMemory::map`](rmm_resources::ImportedMemory::map) makes one range of again, for
/// memory of a [`VirtualMemoryResource`](rmm_resources::VirtualMemoryResource) that was built for
/// [`export`](rmm_resources::VirtualMemoryResourceBuilder::export), also in pools and adaptors over
/// it.
///
/// Waits on the host for the buffer's stream and for work on it that other streams do, so that who
/// imports it finds what was written before. Each handle has the whole of the physical memory that
/// the buffer touches; what else is there can be accessed, too.
///
/// The memory lives as long as any handle or mapping, but it is the exporter's to reuse: keep the
/// buffer as long as others use it. A pool that sleeps leaves the old memory to them and wakes with
/// other memory.
///
/// ```
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_containers::{DeviceBuffer, export};
/// use rmm_core::{CudaStream, Device};
/// use rmm_resources::{ExportHandleTypes, ImportAccess, ImportedMemory, VirtualMemoryResource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
/// let pages = VirtualMemoryResource::builder().export(types).build()?;
/// let pool = PoolMemoryResource::builder(pages).build()?;
/// let stream = CudaStream::new()?;
/// let buffer = DeviceBuffer::from_slice_in(b"weights", &stream, &pool)?;
/// let pieces = export(&buffer)?; // send each handle as `SCM_RIGHTS`, and its range beside it
///
/// let there = ImportedMemory::map(pieces, Device::current()?, ImportAccess::ReadOnly)?;
/// assert_eq!(there.bytes(), 7);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`export_range`]; [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) while
/// the buffer's stream is captured: its work has not run, and waiting would invalidate the capture.
pub fn export(buffer: &DeviceBuffer) -> Result<Vec<Piece>, Error> {
    // A default stream is that of the current context, of which the thread may have none.
    let _entered = buffer.context().enter()?;
    let stream = buffer.stream();
    if stream.as_stream_ref().is_capturing()? {
        let message = "the buffer's stream is captured: export it once the graph has run";
        return Err(Error::unsupported("export", message));
    }
    // The wait invalidates no capture of other streams.
    let _relaxed = RelaxedCapture::enter();
    let _used = buffer.as_slice().use_on(stream)?;
    stream.synchronize()?;
    export_range(buffer.as_ptr(), buffer.len() as u64)
}
