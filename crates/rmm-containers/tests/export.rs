//! Exports of buffers, and what maps them again.
#![cfg(target_os = "linux")]

use std::alloc::Layout;
use std::fs::File;
use std::os::fd::OwnedFd;

use rmm_adaptors::{
    Contents, LimitingResourceAdaptor, PoolMemoryResource, StatisticsResourceAdaptor,
};
use rmm_containers::{DeviceBuffer, export};
use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, Error, Introspect, StreamFlags, SynchronousResource,
};
use rmm_resources::{
    CudaMemoryResource, Export, ExportHandleTypes, ImportAccess, ImportedMemory, Piece,
    ShareableHandle, VirtualMemoryResource, export_range,
};
use rmm_sim::{Fault, Kernel, LeakKind, Machine, Schedule};
use rmm_sys::{CuCaptureMode, CuDeviceAttribute, CuDevicePtr, CuGraph, CuResult};

const PAGE: u64 = 2 << 20;
const FILE: ExportHandleTypes = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;

fn pages() -> VirtualMemoryResource {
    VirtualMemoryResource::builder().export(FILE).build().expect("it exports")
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn device(ordinal: usize) -> Device {
    Device::new(ordinal).expect("it exists")
}

fn map(pieces: Vec<Piece>) -> Result<ImportedMemory, Error> {
    ImportedMemory::map(pieces, device(0), ImportAccess::ReadOnly)
}

fn seen(machine: &Machine, pointer: DevicePtr, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    machine.read(CuDevicePtr(pointer.0), &mut found).expect("it is mapped");
    found
}

/// A pool over exportable pages that grew three times, each time by a page.
fn pool() -> (PoolMemoryResource, CudaStream, Vec<DeviceBuffer>) {
    let pool = PoolMemoryResource::builder(pages()).build().expect("a pool");
    let stream = stream();
    let part = usize::try_from(PAGE).expect("it fits") * 3 / 4;
    let make = |value: u8| {
        let bytes = vec![value; part];
        DeviceBuffer::from_slice_in(&bytes, &stream, &pool).expect("there is memory")
    };
    let buffers = (1..=4).map(make).collect();
    (pool, stream, buffers)
}

#[test]
fn a_block_of_a_pool_spans_handles_and_is_one_range_again() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    {
        let (_pool, _stream, buffers) = pool();
        let mut handles = Vec::new();
        for (value, buffer) in (1..).zip(&buffers) {
            let pieces = export(buffer).unwrap();
            let bytes: u64 = pieces.iter().map(|piece| piece.range.bytes).sum();
            assert_eq!(bytes, buffer.len() as u64);
            handles.push(pieces.len());
            let memory = map(pieces).unwrap();
            assert_eq!(memory.bytes(), buffer.len() as u64);
            assert_eq!(seen(&machine, memory.as_ptr(), buffer.len()), vec![value; buffer.len()]);
        }
        assert!(handles.iter().any(|&count| count > 1), "{handles:?}");
    }
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn an_export_waits_for_what_was_written() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (own, other) = (stream(), stream());
    let mut buffer = DeviceBuffer::zeroed_in(100, &own, &pages()).unwrap();
    let mut view = buffer.as_slice_mut();
    let used = view.use_on(&other).unwrap();
    let at = CuDevicePtr(used.as_ptr().0);
    let kernel = Kernel::new("write", move |memory| memory.write(at, &[9; 100]).expect("its own"));
    machine.launch(other.as_raw(), kernel.writes(at, 100)).unwrap();
    drop(used);
    let memory = map(export(&buffer).unwrap()).unwrap();
    assert_eq!(seen(&machine, memory.as_ptr(), 100), [9; 100]);
    drop(memory);
    machine.assert_no_violations();
}

#[test]
fn a_thread_without_a_context_exports() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let pool = PoolMemoryResource::builder(pages()).build().unwrap();
    for stream in [CudaStream::legacy(), CudaStream::per_thread(), stream()] {
        let buffer = DeviceBuffer::from_slice_in(b"weights", &stream, &pool).unwrap();
        let there = std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                let _machine = machine.enter();
                export(&buffer).map(|pieces| pieces.len())
            });
            elsewhere.join().unwrap()
        });
        assert_eq!(there.unwrap(), 1, "{stream:?}");
    }
    machine.assert_no_violations();
}

#[test]
fn an_import_is_at_its_address_outlives_its_exporter_and_keeps_its_rights() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let stream = stream();
    let pages = pages();
    let buffer = DeviceBuffer::from_slice_in(&[7; 100], &stream, &pages).unwrap();
    let (first, again) = (export(&buffer).unwrap(), export(&buffer).unwrap());
    drop(buffer);
    drop(pages);
    let memory = map(first).unwrap();
    let start = memory.start_of_handles();
    assert_eq!(seen(&machine, memory.as_ptr(), 100), [7; 100]);
    let kernel = Kernel::new("write", |_| ()).writes(CuDevicePtr(memory.as_ptr().0), 4);
    assert!(machine.launch(stream.as_raw(), kernel).is_err(), "it may only read");
    let taken = export_range(memory.as_ptr(), 100).unwrap_err();
    assert!(taken.is_unsupported() && taken.to_string().contains("not of a"), "{taken}");
    drop(memory);
    let access = ImportAccess::ReadWrite;
    let memory = ImportedMemory::map_at(again, device(0), access, start).unwrap();
    assert_eq!(memory.start_of_handles(), start);
    let kernel = Kernel::new("write", |_| ()).writes(CuDevicePtr(memory.as_ptr().0), 4);
    machine.launch(stream.as_raw(), kernel).unwrap();
    drop(memory);
    assert_eq!(machine.memory_in_use(0), 0);
}

// A process that maps hundreds of exports must not use up the addresses that the driver has.
#[test]
fn an_import_takes_the_addresses_of_its_handles_alone() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let buffer = DeviceBuffer::zeroed_in(100, &stream(), &pages()).unwrap();
    let reserved = || -> u64 {
        let ranges = machine.leaks().into_iter().filter(|it| it.kind == LeakKind::AddressRange);
        ranges.map(|it| it.bytes as u64).sum()
    };
    let before = reserved();
    let imports: Vec<_> = (0..300).map(|_| map(export(&buffer).unwrap()).unwrap()).collect();
    assert_eq!(reserved() - before, 300 * PAGE);
    assert_eq!(machine.memory_in_use(0) as u64, PAGE, "and no memory");
    drop(imports);
    assert_eq!(reserved(), before);
}

#[test]
fn addresses_that_are_in_use_are_refused() {
    let _machine = Machine::builder().enter();
    let buffer = DeviceBuffer::zeroed_in(100, &stream(), &pages()).unwrap();
    let (pieces, again) = (export(&buffer).unwrap(), export(&buffer).unwrap());
    let memory = map(pieces).unwrap();
    let access = ImportAccess::ReadOnly;
    let start = memory.start_of_handles();
    let error = ImportedMemory::map_at(again, device(0), access, start).unwrap_err();
    assert!(error.is_out_of_range() && error.to_string().contains("not free"), "{error}");
}

#[test]
fn what_can_be_exported_is_known_through_any_stack() {
    let _machine = Machine::builder().enter();
    let stacked: AnyResource = AnyResource::new(StatisticsResourceAdaptor::new(
        LimitingResourceAdaptor::new(pool().0, 1 << 30),
    ));
    let found = stacked.try_property::<Export>().unwrap();
    assert_eq!((found.handles, found.single_handle, found.rdma), (FILE, false, false));
    let whole = PoolMemoryResource::builder(pages()).single_handle(true).build().unwrap();
    assert!(whole.try_property::<Export>().unwrap().single_handle);
    assert!(pages().try_property::<Export>().unwrap().single_handle);
    let plain: AnyResource = AnyResource::new(VirtualMemoryResource::new().unwrap());
    assert_eq!(plain.try_property::<Export>().unwrap().handles, ExportHandleTypes::empty());
    assert_eq!(CudaMemoryResource::new().try_property::<Export>(), None);
    // The default pool's memory is made for other processes and for network cards.
    let default = rmm_adaptors::default_pool().unwrap();
    let found = default.try_property::<Export>().unwrap();
    assert_eq!((found.handles, found.rdma), (FILE, true));
}

#[test]
fn fabric_handles_are_made_or_replaced_as_a_page_shows() {
    let attribute = CuDeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED;
    let either = FILE | ExportHandleTypes::FABRIC;
    for says_yes in [1, 0] {
        let _machine = Machine::builder().attribute(attribute, says_yes).enter();
        for types in [ExportHandleTypes::FABRIC, either] {
            let error = VirtualMemoryResource::builder().export(types).build().unwrap_err();
            assert!(error.is_unsupported() && error.to_string().contains("fabric"), "{error}");
        }
        let resource = VirtualMemoryResource::builder().export_any_of(either).build().unwrap();
        assert_eq!(resource.try_property::<Export>().unwrap().handles, FILE);
        let only = VirtualMemoryResource::builder().export_any_of(ExportHandleTypes::FABRIC);
        assert!(only.build().unwrap_err().is_unsupported());
        let windows = VirtualMemoryResource::builder().export(ExportHandleTypes::WIN32);
        assert!(windows.build().unwrap_err().is_unsupported());
    }
}

#[test]
fn fabric_handles_need_no_descriptor_in_one_domain() {
    let machine = Machine::builder().schedule(Schedule::Eager).fabric(true).enter();
    let fabric = ExportHandleTypes::FABRIC;
    for builder in [
        VirtualMemoryResource::builder().export(fabric),
        VirtualMemoryResource::builder().export(fabric | FILE),
        VirtualMemoryResource::builder().export_any_of(fabric | FILE),
    ] {
        let pool = PoolMemoryResource::builder(builder.build().unwrap()).build().unwrap();
        assert!(pool.try_property::<Export>().unwrap().handles.contains(fabric));
        let stream = stream();
        let buffer = DeviceBuffer::from_slice_in(&vec![7_u8; 5 << 20], &stream, &pool).unwrap();
        let sent = export(&buffer).unwrap().into_iter().map(|piece| {
            assert!(piece.handle.descriptor().is_none());
            (piece.handle.fabric_bytes().expect("64 bytes"), piece.range)
        });
        let received = sent.into_iter().map(|(bytes, range)| Piece {
            handle: ShareableHandle::from_fabric_bytes(bytes),
            range,
        });
        let memory = map(received.collect()).unwrap();
        assert_eq!(seen(&machine, memory.as_ptr(), buffer.len()), vec![7; buffer.len()]);
    }
    let (_pool, _stream, buffers) = pool();
    let mut pieces = export(&buffers[0]).unwrap();
    pieces[0].handle = ShareableHandle::from_fabric_bytes([1; 64]);
    let error = map(pieces).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("piece 0"), "{error}");
}

#[test]
fn another_device_is_granted_access_to_what_was_imported() {
    let machine = Machine::builder().schedule(Schedule::Eager).devices(3).enter();
    let (_pool, _stream, buffers) = pool();
    let memory = map(export(&buffers[0]).unwrap()).unwrap();
    let other = {
        let _current = device(1).make_current().unwrap();
        stream()
    };
    let start = CuDevicePtr(memory.as_ptr().0);
    let reads = || machine.launch(other.as_raw(), Kernel::new("reads", |_| ()).reads(start, 1000));
    let writes =
        || machine.launch(other.as_raw(), Kernel::new("writes", |_| ()).writes(start, 1000));
    memory.grant_access(device(1), ImportAccess::ReadOnly).unwrap();
    reads().unwrap();
    other.synchronize().unwrap();
    machine.assert_no_violations();
    memory.grant_access(device(1), ImportAccess::ReadWrite).unwrap();
    // The exporter's own work came before, and is known to be complete.
    writes().unwrap();
    other.synchronize().unwrap();
    machine.assert_no_violations();
    memory.grant_access(device(0), ImportAccess::ReadWrite).unwrap();
}

#[test]
fn refused_exports_name_the_reason() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let stream = stream();
    let refused = |buffer: &DeviceBuffer, reason: &str| {
        let error = export(buffer).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        error
    };
    let pages = pages();
    let empty = DeviceBuffer::zeroed_in(0, &stream, &pages).unwrap();
    assert!(refused(&empty, "0 bytes").is_invalid_argument());
    let foreign = DeviceBuffer::zeroed_in(100, &stream, &CudaMemoryResource::new()).unwrap();
    assert!(refused(&foreign, "cuIpcGetMemHandle").is_unsupported());
    let plain = VirtualMemoryResource::new().unwrap();
    let plain = DeviceBuffer::zeroed_in(100, &stream, &plain).unwrap();
    assert!(refused(&plain, "was not made for it").is_unsupported());

    let buffer = DeviceBuffer::zeroed_in(100, &stream, &pages).unwrap();
    let mode = CuCaptureMode::RELAXED;
    // SAFETY: the stream exists.
    let begun = unsafe { rmm_sim::driver().cuStreamBeginCapture_v2(stream.as_raw(), mode) };
    assert!(begun.is_success());
    assert!(refused(&buffer, "is captured").is_unsupported());
    let mut graph = CuGraph::NULL;
    // SAFETY: the capture began above, and nothing invalidated it; `graph` may be written to.
    let ended = unsafe { rmm_sim::driver().cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert!(ended.is_success(), "{ended}");
    let layout = Layout::from_size_align(4 << 20, 256).unwrap();
    let block = pages.allocate_sync(layout).unwrap();
    assert!(export_range(DevicePtr(block.0 + (3 << 20)), 2 << 20).unwrap_err().is_out_of_range());
    assert!(export_range(block, u64::MAX).unwrap_err().is_invalid_argument());
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout) };
    let gone = export_range(block, 100).unwrap_err();
    assert!(gone.is_out_of_range() && gone.to_string().contains("not allocated"), "{gone}");
    for call in ["cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"] {
        machine.fail(Fault::nth(call, 1, CuResult::UNKNOWN));
        let error = export(&buffer).unwrap_err();
        assert!(error.to_string().contains("piece 0 of 1"), "{error}");
    }
    assert_eq!(export(&buffer).unwrap().len(), 1);
}

#[test]
fn memory_that_sleeps_is_not_exported() {
    let _machine = Machine::builder().schedule(Schedule::Eager).enter();
    let (pool, stream, buffers) = pool();
    stream.synchronize().unwrap();
    // SAFETY: no work uses the pool's memory.
    unsafe { pool.sleep(Contents::ToHost) }.unwrap();
    let error = export(&buffers[0]).unwrap_err();
    assert!(error.is_not_ready() && error.to_string().contains("sleeps"), "{error}");
    pool.wake().unwrap();
    export(&buffers[0]).unwrap();
}

#[test]
fn pieces_that_are_not_those_of_an_export_are_refused() {
    let machine = Machine::builder().schedule(Schedule::Eager).devices(2).enter();
    let (_pool, _stream, buffers) = pool();
    let spanning = buffers.iter().find(|buffer| export(buffer).unwrap().len() > 1).unwrap();
    let pieces = || export(spanning).unwrap();
    let used = machine.memory_in_use(0);
    let refused = |pieces: Vec<Piece>, reason: &str| {
        let error = map(pieces).unwrap_err();
        assert!(error.is_invalid_argument() && error.to_string().contains(reason), "{error}");
    };
    refused(Vec::new(), "no pieces");
    let mut reversed = pieces();
    reversed.reverse();
    refused(reversed, "piece 0 of 2: it is number 1");
    let mut fewer = pieces();
    fewer.truncate(1);
    refused(fewer, "its export has 2 pieces");
    let (mut twice, other) = (pieces(), pieces());
    twice[1].range = twice[0].range;
    refused(twice, "piece 1 of 2: it is number 0");
    let mut mixed = pieces();
    mixed.truncate(1);
    mixed.extend(other.into_iter().skip(1));
    refused(mixed, "piece 1 of 2: it is of another export");
    let mut lying = pieces();
    lying[0].range.handle_bytes += PAGE;
    lying[0].range.offset += PAGE;
    refused(lying, "is that its size?");
    let mut endless = pieces();
    endless[1].range.handle_bytes = u64::MAX;
    refused(endless, "address space");
    for bytes in [PAGE + 1, u64::MAX >> 1, 1 << 60] {
        let mut odd = pieces();
        odd[1].range.handle_bytes = bytes;
        refused(odd, &format!("piece 1 of 2: no handle has {bytes} bytes"));
    }
    let mut outside = pieces();
    outside[1].range.bytes = PAGE + 1;
    refused(outside, "are no part of a handle");
    let mut apart = pieces();
    apart[1].range = rmm_resources::PieceRange { offset: 1, bytes: 1, ..apart[1].range };
    refused(apart, "not contiguous");
    let mut closed = pieces();
    closed[1].handle = OwnedFd::from(File::open("/dev/null").unwrap()).into();
    refused(closed, "piece 1 of 2");
    let error = ImportedMemory::map(pieces(), device(1), ImportAccess::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("memory of device 0, not of device 1"), "{error}");
    let ranges: Vec<_> = pieces().iter().map(|piece| piece.range).collect();
    for range in ranges {
        assert_eq!(rmm_resources::PieceRange::from_bytes(&range.to_bytes()), range);
    }
    for call in ["cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"] {
        machine.fail(Fault::nth(call, 1, CuResult::UNKNOWN));
        map(pieces()).unwrap_err();
    }
    assert_eq!(machine.memory_in_use(0), used, "nothing is lost");
    drop(map(pieces()).unwrap());
    machine.assert_no_violations();
}

#[test]
fn an_export_invalidates_no_capture_of_another_stream() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (own, other) = (stream(), stream());
    let pool = PoolMemoryResource::builder(pages()).build().expect("a pool");
    let buffer = DeviceBuffer::from_slice_in(&[7; 100], &own, &pool).expect("there is memory");
    let driver = rmm_sim::driver();
    // SAFETY: the stream exists.
    let code = unsafe { driver.cuStreamBeginCapture_v2(other.as_raw(), CuCaptureMode::GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
    let mapped = export(&buffer).and_then(map);
    let mut graph = CuGraph::NULL;
    // SAFETY: the capture began above; `graph` may be written to.
    let code = unsafe { driver.cuStreamEndCapture(other.as_raw(), &raw mut graph) };
    assert_eq!(code, CuResult::SUCCESS);
    assert_eq!(mapped.expect("neither is captured").bytes(), 100);
    machine.assert_no_violations();
}
