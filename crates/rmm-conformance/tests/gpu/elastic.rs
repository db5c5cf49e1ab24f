//! Elastic memory: pages move through reserved addresses while a graph replays on others. Prints
//! what a page costs, beside the driver's own calls.
#![expect(clippy::print_stdout, reason = "the prices are the result")]

use std::time::{Duration, Instant};

use rmm_conformance::{CheckResult, Environment, Place, ensure};
use rmm_containers::ElasticBuffer;
use rmm_core::{
    CudaStream, Device, DevicePtr, Error, StreamFlags, check, current_driver, driver_in_context,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sys::{
    CuCaptureMode, CuGraph, CuGraphExec, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp,
    CuMemHandle, CuMemLocation, CuMemLocationType, Driver,
};

const PAGE: usize = 2 << 20;

#[test]
fn pages_move_through_addresses_while_a_graph_replays_on_others() {
    let run = || {
        Place::selected()?.into_iter().try_for_each(|place| {
            let _environment = Environment::open(place)?;
            moves(place)?;
            prices(place)
        })
    };
    let outcome: CheckResult = run();
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Bytes of addresses, and how many steps are made through them.
fn extent(place: Place) -> (usize, usize) {
    match place {
        Place::Gpu(_) => (64 << 30, 2048),
        Place::Seeded | Place::Lazy => (256 << 20, 100),
    }
}

/// A graph that sets a range to 7.
struct Replayed(CuGraphExec);

impl Replayed {
    fn capture(buffer: &mut ElasticBuffer, stream: &CudaStream) -> Result<Self, Error> {
        let driver = current_driver()?;
        let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
        let mode = CuCaptureMode::THREAD_LOCAL;
        // SAFETY: the stream exists.
        let code = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
        check("cuStreamBeginCapture_v2", code)?;
        let filled = buffer.slice_mut(0..PAGE)?.fill_on(7, stream);
        // SAFETY: the stream exists, and the result may be written.
        let code = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        check("cuStreamEndCapture", code).and(filled)?;
        // SAFETY: the graph exists, and the result may be written.
        let code = unsafe { driver.cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
        check("cuGraphInstantiateWithFlags", code)?;
        // SAFETY: the graph is not used again.
        check("cuGraphDestroy", unsafe { driver.cuGraphDestroy(graph) })?;
        Ok(Self(executable))
    }

    fn launch(&self, stream: &CudaStream) -> Result<(), Error> {
        // SAFETY: both exist, and the page of the graph is committed.
        let code = unsafe { current_driver()?.cuGraphLaunch(self.0, stream.as_raw()) };
        check("cuGraphLaunch", code)
    }
}

impl Drop for Replayed {
    fn drop(&mut self) {
        if let Ok(driver) = current_driver() {
            // SAFETY: the graph is owned, and not used again.
            let _ignored = unsafe { driver.cuGraphExecDestroy(self.0) };
        }
    }
}

fn moves(place: Place) -> CheckResult {
    let (capacity, steps) = extent(place);
    let new_stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
    let (replays, others) = (new_stream()?, new_stream()?);
    let pages = VirtualMemoryResource::new()?;
    let mut buffer = ElasticBuffer::reserve(capacity, &replays, &pages)?;
    buffer.commit(0..PAGE)?;
    let graph = Replayed::capture(&mut buffer, &replays)?;
    let stride = (capacity / PAGE - 1) / steps;
    let (mut not_ready, begun) = (0, Instant::now());
    for step in 0..steps {
        graph.launch(&replays)?;
        let start = (1 + step * stride) * PAGE;
        let page = start..start + PAGE;
        buffer.commit(page.clone())?;
        let value = u8::try_from(step % 200).expect("it is below 200");
        buffer.slice_mut(page.clone())?.fill_on(value, &others)?;
        if step % 16 == 0 {
            let last = buffer.slice(page.end - 64..page.end)?.to_vec_on(&others)?;
            ensure(last == [value; 64], || format!("step {step}: the page holds {last:?}"))?;
        }
        match buffer.decommit(page.clone()) {
            Err(error) if error.kind() == rmm_core::ErrorKind::NotReady => {
                not_ready += 1;
                buffer.decommit_blocking(page)?;
            }
            outcome => drop(outcome?),
        }
    }
    let took = begun.elapsed();
    let refused = buffer.decommit_blocking(0..PAGE);
    ensure(refused.is_err(), || "the page of the graph was decommitted".into())?;
    replays.synchronize()?;
    let all = buffer.slice(0..PAGE)?.to_vec_on(&replays)?;
    ensure(all.iter().all(|&byte| byte == 7), || "the graph's page does not hold 7".into())?;
    println!(
        "{place:?}: {steps} pages moved through {} MiB of addresses in {took:?} while a graph \
         replayed; {not_ready} had to be waited for",
        capacity >> 20
    );
    drop(graph);
    // SAFETY: the graph has run, and is destroyed.
    unsafe { buffer.end_graph_uses() };
    buffer.decommit_blocking(0..PAGE)?;
    ensure(pages.statistics().mapped_bytes == 0, || "memory is left".into())
}

/// The driver's own calls for a page: made, mapped, accessible, and unmapped.
struct Raw {
    driver: &'static Driver,
    start: DevicePtr,
    properties: CuMemAllocationProp,
    access: CuMemAccessDesc,
}

impl Raw {
    fn new() -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        let id = Device::current()?.as_raw().0;
        let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id };
        let mut start = DevicePtr::NULL;
        // SAFETY: the result may be written.
        let code =
            unsafe { driver.cuMemAddressReserve(&raw mut start, PAGE, PAGE, DevicePtr::NULL, 0) };
        check("cuMemAddressReserve", code)?;
        Ok(Self {
            driver,
            start,
            properties: CuMemAllocationProp::pinned(location),
            access: CuMemAccessDesc { location, flags: CuMemAccessFlags::READ_WRITE },
        })
    }

    fn round(&self) -> Result<(), Error> {
        let (driver, mut memory) = (self.driver, CuMemHandle(0));
        let properties = &raw const self.properties;
        // SAFETY: the result may be written, and the properties read.
        let code = unsafe { driver.cuMemCreate(&raw mut memory, PAGE, properties, 0) };
        check("cuMemCreate", code)?;
        // SAFETY: all of the memory, at reserved addresses where nothing is mapped.
        let code = unsafe { driver.cuMemMap(self.start, PAGE, 0, memory, 0) };
        check("cuMemMap", code)?;
        // SAFETY: the mapping keeps the memory, and the handle is not used again.
        check("cuMemRelease", unsafe { driver.cuMemRelease(memory) })?;
        // SAFETY: it is mapped, and the description may be read.
        let code = unsafe { driver.cuMemSetAccess(self.start, PAGE, &raw const self.access, 1) };
        check("cuMemSetAccess", code)?;
        // SAFETY: a whole mapping, which nothing uses.
        check("cuMemUnmap", unsafe { driver.cuMemUnmap(self.start, PAGE) })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: reserved by `new`, and nothing is mapped there.
        let _ignored = unsafe { self.driver.cuMemAddressFree(self.start, PAGE) };
    }
}

/// Microseconds a round, the median of some passes that alternate.
fn prices(place: Place) -> CheckResult {
    const PASSES: usize = 21;
    let rounds = if matches!(place, Place::Gpu(_)) { 200 } else { 10 };
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let pages = VirtualMemoryResource::new()?;
    let mut buffer = ElasticBuffer::reserve(8 * PAGE, &stream, &pages)?;
    let raw = Raw::new()?;
    let (mut of_driver, mut of_buffer) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        let begun = Instant::now();
        for _ in 0..rounds {
            raw.round()?;
        }
        of_driver.push(begun.elapsed() / rounds);
        let begun = Instant::now();
        for _ in 0..rounds {
            buffer.commit(0..PAGE)?;
            buffer.decommit(0..PAGE)?;
        }
        of_buffer.push(begun.elapsed() / rounds);
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let (of_driver, of_buffer) = (median(of_driver), median(of_buffer));
    println!(
        "{place:?}: a page of 2 MiB, committed and decommitted: {of_buffer:.1} us; the driver's \
         own calls: {of_driver:.1} us; {:+.1} %",
        (of_buffer / of_driver - 1.0) * 100.0
    );
    Ok(())
}
