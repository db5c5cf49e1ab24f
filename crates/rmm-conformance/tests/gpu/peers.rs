//! Memory of one device and streams of another.

use std::alloc::Layout;

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::{
    CheckResult, CheckedBlock, DeviceCounter, Failure, Kernels, ensure, suite::BLOCK_WORDS,
};
use rmm_core::{CudaEvent, CudaStream, Device, DevicePtr, ErrorKind, Resource, StreamRef, copy};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource, grant_access,
};
use rmm_sys::CuMemAccessFlags;

use crate::pair::{Pair, device_of, in_every_pair, in_every_pair_of_peers, on, stream};

const LAYOUT: Layout = Layout::new::<[u32; BLOCK_WORDS as usize]>();
const LARGE: Layout = Layout::new::<[u64; 8 << 20]>();
const DEVICE: CudaMemoryResource = CudaMemoryResource::new();

/// Cycles that a slow kernel spins for: about 5 ms.
const SLOW: u64 = 10_000_000;

fn can_be_used_from(
    resource: &CudaAsyncMemoryResource,
    device: Device,
    wanted: bool,
) -> CheckResult {
    let flags = resource.pool().access(device)?;
    let expected = if wanted { CuMemAccessFlags::READ_WRITE } else { CuMemAccessFlags::NONE };
    ensure(flags == expected, || format!("{device:?} has {flags:?}, expected {expected:?}"))
}

/// A resource on the device that is current, and that the other one of the pair may use too.
fn shared(pair: &Pair) -> Result<CudaAsyncMemoryResource, Failure> {
    let resource = CudaAsyncMemoryResource::new()?;
    resource.pool().grant_access(&[pair.other])?;
    Ok(resource)
}

#[test]
fn a_pool_is_granted_where_devices_are_peers_and_nowhere_else() {
    in_every_pair(|pair| {
        let resource = CudaAsyncMemoryResource::new()?;
        can_be_used_from(&resource, pair.home, true)?;
        can_be_used_from(&resource, pair.other, false)?;
        let granted = resource.pool().grant_access(&[pair.other]);
        let is_peer = pair.other.can_access_peer(pair.home)?;
        ensure(granted.is_ok() == is_peer, || format!("peer: {is_peer}, granted: {granted:?}"))?;
        can_be_used_from(&resource, pair.other, is_peer)?;
        can_be_used_from(&resource, pair.home, true)?;
        if is_peer {
            // SAFETY: no work uses the pool.
            unsafe { resource.pool().revoke_access(&[pair.other]) }?;
        }
        can_be_used_from(&resource, pair.other, false)
    });
}

/// Copies as many words as there are from the device, on a stream of the device that is current.
/// Waits for the copy.
///
/// # Safety
/// `source` names as many words, whose other uses are ordered with this place on the stream.
unsafe fn read(stream: &CudaStream, source: DevicePtr, words: &mut [u32]) -> CheckResult {
    let (target, bytes) = (words.as_mut_ptr().cast(), size_of_val(words));
    // SAFETY: the caller's contract; the words are borrowed until the synchronization below.
    unsafe { copy::device_to_host(target, source, bytes, stream) }?;
    Ok(stream.synchronize()?)
}

/// Reads a block of `home` and writes to it: by kernels and copies on a stream of the other device.
fn use_from_the_other(pair: &Pair, home: DevicePtr) -> CheckResult {
    let own = stream()?;
    let (kernels, errors) = (pair.kernels()?, DeviceCounter::new(&own)?);
    let local = CheckedBlock::allocate(&DEVICE, &kernels, &own, BLOCK_WORDS)?;
    let (from, to) = (own.as_stream_ref(), errors.pointer());
    // SAFETY: both blocks are as long and live until this returns, all else that uses them has
    // completed, and this device may use both.
    unsafe { kernels.check(from, home, BLOCK_WORDS, 100, to) }?;
    // SAFETY: as above.
    unsafe { copy::device_to_device(local.pointer(), home, LAYOUT.size(), from) }?;
    local.check(100, &errors)?;
    errors.expect_none(&own, "kernels and copies of another device read something else")?;

    let mut words = vec![0; 3];
    // SAFETY: as above.
    unsafe { read(&own, home, &mut words) }?;
    ensure(words == [100, 101, 102], || format!("the host got {words:?}"))?;

    local.fill(300, 0)?;
    // SAFETY: as above.
    unsafe { copy::device_to_device(home, local.pointer(), LAYOUT.size() / 2, from) }?;
    let (half, second_half) = (BLOCK_WORDS / 2, DevicePtr(home.0 + LAYOUT.size() as u64 / 2));
    // SAFETY: as above, for the second half of the block.
    unsafe { kernels.fill(from, second_half, half, 300 + half, 0) }?;
    Ok(own.synchronize()?)
}

#[test]
fn a_granted_pool_is_read_and_written_by_another_device() {
    in_every_pair_of_peers(|pair| {
        let (kernels, own, resource) = (pair.kernels()?, stream()?, shared(pair)?);
        let errors = DeviceCounter::new(&own)?;
        let block = CheckedBlock::allocate(&resource, &kernels, &own, BLOCK_WORDS)?;
        block.fill(100, 0)?;
        own.synchronize()?;
        on(pair.other, || use_from_the_other(pair, block.pointer()))?;
        block.check(300, &errors)?;
        errors.expect_none(&own, "another device wrote something else")
    });
}

#[test]
fn granted_virtual_memory_is_read_and_written_by_another_device() {
    in_every_pair_of_peers(|pair| {
        let (kernels, own) = (pair.kernels()?, stream()?);
        let errors = DeviceCounter::new(&own)?;
        let pool = PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()?;
        let before = CheckedBlock::allocate(&pool, &kernels, &own, BLOCK_WORDS)?;
        grant_access(&pool, pair.other)?;
        // What the pool maps after the grant.
        let filler = pool.allocate(&own, LARGE)?;
        let after = CheckedBlock::allocate(&pool, &kernels, &own, BLOCK_WORDS)?;
        for block in [&before, &after] {
            block.fill(100, 0)?;
            own.synchronize()?;
            on(pair.other, || use_from_the_other(pair, block.pointer()))?;
            block.check(300, &errors)?;
        }
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate(&own, filler, LARGE) };
        errors.expect_none(&own, "another device wrote something else")
    });
}

/// Fills the block and checks it at once, and again when both devices have done everything:
/// whatever else writes to it shows.
fn stays_intact<R: Resource>(
    pair: &Pair,
    block: &CheckedBlock<'_, R>,
    errors: &DeviceCounter,
) -> CheckResult {
    block.fill(500, 0)?;
    block.check(500, errors)?;
    for device in pair.devices() {
        on(device, || Ok(Device::synchronize_current()?))?;
    }
    block.check(500, errors)?;
    errors.expect_none(block.stream(), "memory was written to by earlier work of another device")
}

/// Enqueues work that writes to the block for some time yet.
///
/// # Safety
/// The block has [`BLOCK_WORDS`] words that the stream's device may use, and is not used otherwise
/// before that work is done.
unsafe fn keep_busy(kernels: &Kernels, stream: &CudaStream, block: DevicePtr) -> CheckResult {
    // SAFETY: the caller's contract.
    unsafe { kernels.fill(stream.as_stream_ref(), block, BLOCK_WORDS, 900, SLOW) }?;
    for _ in 0..8 {
        // SAFETY: as above.
        unsafe { kernels.fill(stream.as_stream_ref(), block, BLOCK_WORDS, 900, 0) }?;
    }
    Ok(())
}

#[test]
fn a_pool_of_the_driver_s_serves_streams_of_another_device_in_their_order() {
    in_every_pair_of_peers(|pair| {
        let (kernels, own, resource) = (pair.kernels()?, stream()?, shared(pair)?);
        let errors = DeviceCounter::new(&own)?;
        let _other = pair.other.make_current()?;
        let (foreign_kernels, foreign) = (pair.kernels()?, stream()?);
        for with_event in [true, false] {
            let foreign_errors = DeviceCounter::new(&foreign)?;
            let given = CheckedBlock::allocate(&resource, &foreign_kernels, &foreign, BLOCK_WORDS)?;
            let found = device_of(given.pointer())?;
            ensure(found == pair.home.ordinal(), || format!("memory of device {found}"))?;
            given.fill(700, 0)?;
            given.check(700, &foreign_errors)?;
            foreign_errors.expect_none(&foreign, "memory for a stream of another device")?;
            let pointer = given.pointer();
            // SAFETY: the block is as long, both devices may use it, and it is used no more before
            // it is freed on this stream.
            unsafe { keep_busy(&foreign_kernels, &foreign, pointer) }?;
            drop(given);
            let freed = CudaEvent::new()?;
            freed.record(&foreign)?;
            on(pair.home, || {
                if with_event {
                    own.wait(&freed)?;
                }
                let taken = CheckedBlock::allocate(&resource, &kernels, &own, BLOCK_WORDS)?;
                stays_intact(pair, &taken, &errors)
            })?;
        }
        let layout = Layout::new::<u64>();
        let by_default = resource.allocate(StreamRef::legacy(), layout)?;
        let found = device_of(by_default)?;
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { resource.deallocate(StreamRef::legacy(), by_default, layout) };
        ensure(found == pair.home.ordinal(), || format!("memory of device {found}"))
    });
}

#[test]
fn a_pool_refuses_streams_of_another_device_and_waits_for_what_they_free() {
    in_every_pair_of_peers(|pair| {
        let (kernels, own) = (pair.kernels()?, stream()?);
        let errors = DeviceCounter::new(&own)?;
        let builder = PoolMemoryResource::builder(shared(pair)?);
        let pool = builder.maximum_size(LAYOUT.size() as u64).build()?;
        let given = pool.allocate(&own, LAYOUT)?;
        own.synchronize()?;
        {
            let _other = pair.other.make_current()?;
            let (foreign_kernels, foreign) = (pair.kernels()?, stream()?);
            // A default stream gets memory that no work uses, of which there is none here.
            for (stream, expected) in [
                (foreign.as_stream_ref(), ErrorKind::InvalidArgument),
                (StreamRef::legacy(), ErrorKind::OutOfMemory),
                (StreamRef::per_thread(), ErrorKind::OutOfMemory),
            ] {
                let refused = pool.allocate(stream, LAYOUT).map_err(|error| error.kind());
                ensure(refused == Err(expected), || {
                    format!("{stream:?} of another device: {refused:?}")
                })?;
            }
            // SAFETY: the block is as long, both devices may use it, and it is used no more before
            // it is freed on this stream.
            unsafe { keep_busy(&foreign_kernels, &foreign, given) }?;
            // SAFETY: allocated above with this layout; its uses are on this stream.
            unsafe { pool.deallocate(&foreign, given, LAYOUT) };
            on(pair.home, || {
                let taken = CheckedBlock::allocate(&pool, &kernels, &own, BLOCK_WORDS)?;
                ensure(taken.pointer() == given, || "there is room for one block".to_owned())?;
                stays_intact(pair, &taken, &errors)
            })
        }
    });
}
