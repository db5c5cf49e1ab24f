//! Fixtures and helpers of the tests.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_core::{CudaStream, Device, DevicePtr, StreamFlags, current_driver};
use rmm_sim::{Kernel, Machine, MachineBuilder, Schedule};
use rmm_sys::{CuDeviceAttribute, CuPointerAttribute};

pub(crate) const MIB: usize = 1 << 20;

/// `count` MiB of device memory, in bytes.
pub(crate) const fn mib(count: u64) -> u64 {
    count << 20
}

pub(crate) fn layout(bytes: usize, alignment: usize) -> Layout {
    Layout::from_size_align(bytes, alignment).expect("a layout")
}

/// A non-blocking stream.
pub(crate) fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// A machine that runs work only when a thread waits for it.
pub(crate) fn lazy() -> MachineBuilder {
    Machine::builder().schedule(Schedule::Lazy)
}

/// A machine whose devices can access pageable host memory, and which runs work only when a thread
/// waits for it.
pub(crate) fn unified() -> MachineBuilder {
    lazy().attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1)
}

/// Enqueues a kernel that writes `value` to the block's first byte; the returned flag says whether
/// it has run.
pub(crate) fn write_later(
    machine: &Machine,
    stream: &CudaStream,
    pointer: DevicePtr,
    value: u8,
) -> Arc<AtomicBool> {
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    let kernel = Kernel::new("write", move |memory| {
        memory.write(pointer, &[value]).expect("declared memory");
        flag.store(true, Ordering::Relaxed);
    });
    let kernel = kernel.writes(pointer, 1);
    // SAFETY: the tests look at the memory by its address only, when the stream has been waited
    // for.
    unsafe { machine.launch_on_shared(stream.as_raw(), kernel) }.expect("a launch");
    has_run
}

/// The block as the host sees it.
pub(crate) fn on_host(pointer: DevicePtr) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(pointer.0).expect("an address"))
}

/// Reads a byte as the host.
pub(crate) fn peek(pointer: DevicePtr) -> u8 {
    // SAFETY: the tests ask for live memory that the host may touch, and that no work uses
    // meanwhile.
    unsafe { on_host(pointer).read_volatile() }
}

/// Writes a byte as the host.
pub(crate) fn poke(pointer: DevicePtr, value: u8) {
    // SAFETY: as in `peek`.
    unsafe { on_host(pointer).write_volatile(value) }
}

/// The number of calls of a driver function.
pub(crate) fn calls(machine: &Machine, name: &str) -> u64 {
    machine.call_counts().iter().find(|(known, _)| *known == name).map_or(0, |&(_, count)| count)
}

/// A stream of the second device, which is not current afterwards.
pub(crate) fn stream_of_second() -> CudaStream {
    let _current = Device::new(1).expect("a device").make_current().expect("it is made current");
    stream()
}

/// The ordinal of a block's device.
pub(crate) fn device_of(pointer: DevicePtr) -> i32 {
    let driver = current_driver().expect("the software driver");
    let (mut ordinal, attribute) = (-1_i32, CuPointerAttribute::DEVICE_ORDINAL);
    // SAFETY: this attribute is a `c_int`, which may be written to.
    let code =
        unsafe { driver.cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer) };
    assert!(code.is_success(), "{code}");
    ordinal
}
