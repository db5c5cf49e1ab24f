//! Fixtures that the tests share.
//!
//! The table of blocks and the devices that clients know are the process's, so all tests use one
//! machine, one after the other.

use std::ffi::{CString, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rmm_core::sys::{CuCaptureMode, CuGraph, CuResult, Driver};
use rmm_core::{CudaStream, Device, DeviceGuard, DevicePtr, StreamRef, copy};
use rmm_rs::ResourceHandle;
use rmm_rs::calls::spec::rmm_rs_resource_from_spec;
use rmm_rs::frameworks::client::counts::ClientStatistics;
use rmm_rs::frameworks::client::walk::ClientBlock;
use rmm_rs::frameworks::client::*;
use rmm_rs::handle::library::rmm_rs_last_error_message;
use rmm_rs::handle::resource::rmm_rs_resource_release;
use rmm_rs::handle::status::RMM_RS_OK;
use rmm_rs::streams::stream::rmm_rs_stream_forget;
use rmm_sim::{Machine, MachineGuard, Schedule};

pub(crate) const MIB: usize = 1 << 20;

pub(crate) static MACHINE: LazyLock<Machine> =
    LazyLock::new(|| Machine::builder().devices(2).schedule(Schedule::Lazy).build());

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A test with the machine to itself, and device 0 current. At its end nothing may have been used
/// out of order.
pub(crate) struct Test {
    /// Violations of tests before.
    before: usize,
    _device: DeviceGuard,
    _entered: MachineGuard,
    _alone: MutexGuard<'static, ()>,
}

impl Test {
    pub(crate) fn begin() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let entered = MACHINE.enter();
        let before = MACHINE.violations().len();
        Self { before, _device: device(0), _entered: entered, _alone: alone }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            MACHINE.run_all();
            let violations = MACHINE.violations();
            let new: Vec<_> =
                violations.iter().skip(self.before).map(ToString::to_string).collect();
            assert!(new.is_empty(), "{}", new.join("\n"));
        }
    }
}

/// A test, a client over a pool, `N` streams, and a block of 1 MiB that was allocated on the first
/// of them.
pub(crate) fn begin_with_block<const N: usize>() -> (Test, Client, [Stream; N], *mut c_void) {
    let (test, client) = (Test::begin(), Client::of_spec("pool(cuda)"));
    let streams = [(); N].map(|()| Stream::new());
    let block = client.allocate(&streams[0], MIB);
    (test, client, streams, block)
}

pub(crate) fn device(ordinal: usize) -> DeviceGuard {
    Device::new(ordinal).and_then(Device::make_current).expect("the device is there")
}

pub(crate) fn last_error() -> String {
    let mut buffer = [0_u8; 512];
    let length = c!(rmm_rs_last_error_message(buffer.as_mut_ptr().cast(), buffer.len()));
    String::from_utf8_lossy(&buffer[..length.min(buffer.len() - 1)]).into_owned()
}

#[track_caller]
pub(crate) fn ok(status: i32) {
    assert_eq!(status, RMM_RS_OK, "{}", last_error());
}

/// A counted reference to a resource.
pub(crate) struct Pool(pub(crate) *const ResourceHandle);

// SAFETY: resources are used from any thread.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn of_spec(spec: &str) -> Self {
        let (spec, mut made) = (CString::new(spec).expect("no zero byte"), ptr::null());
        ok(c!(rmm_rs_resource_from_spec(spec.as_ptr(), &raw mut made)));
        Self(made)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        c!(rmm_rs_resource_release(self.0));
    }
}

/// A counted reference to a client.
pub(crate) struct Client(pub(crate) *const ClientHandle);

// SAFETY: clients are used from any thread.
unsafe impl Send for Client {}
// SAFETY: clients are used from any thread.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        c!(rmm_rs_client_release(self.0));
    }
}

impl Client {
    /// A client of the device whose memory comes from the resource.
    pub(crate) fn new(device: i32, pool: *const ResourceHandle) -> Self {
        let mut made = ptr::null();
        ok(c!(rmm_rs_client_new(device, pool, &raw mut made)));
        Self(made)
    }

    /// A client of device 0 with a resource of its own.
    pub(crate) fn of_spec(spec: &str) -> Self {
        Self::new(0, Pool::of_spec(spec).0)
    }

    pub(crate) fn try_allocate(&self, stream: &Stream, bytes: usize) -> Result<*mut c_void, i32> {
        self.try_allocate_from(ptr::null(), stream.raw(), bytes)
    }

    pub(crate) fn try_allocate_from(
        &self,
        pool: *const ResourceHandle,
        stream: *mut c_void,
        bytes: usize,
    ) -> Result<*mut c_void, i32> {
        let mut block = ptr::dangling_mut();
        match c!(rmm_rs_client_allocate(self.0, pool, stream, bytes, &raw mut block)) {
            RMM_RS_OK => Ok(block),
            status => {
                assert!(block.is_null(), "a failed function stores null");
                Err(status)
            }
        }
    }

    #[track_caller]
    pub(crate) fn allocate(&self, stream: &Stream, bytes: usize) -> *mut c_void {
        self.try_allocate(stream, bytes).unwrap_or_else(|_| panic!("{}", last_error()))
    }

    pub(crate) fn statistics(&self) -> ClientStatistics {
        let mut out =
            ClientStatistics { size: size_of::<ClientStatistics>(), ..ClientStatistics::default() };
        ok(c!(rmm_rs_client_statistics_get(self.0, &raw mut out)));
        ClientStatistics { size: 0, ..out }
    }

    pub(crate) fn settle(&self) {
        ok(c!(rmm_rs_client_settle(self.0, true)));
    }

    pub(crate) fn poll(&self) {
        ok(c!(rmm_rs_client_settle(self.0, false)));
    }

    /// The client's blocks from the resource, or all.
    pub(crate) fn walk(&self, pool: *const ResourceHandle) -> Vec<ClientBlock> {
        let mut blocks = Vec::<ClientBlock>::new();
        let context = (&raw mut blocks).cast();
        ok(c!(rmm_rs_client_walk(self.0, pool, Some(list), context)));
        blocks
    }
}

/// Adds what a walk visits to a list.
///
/// # Safety
/// `context` is a `Vec<T>`.
pub(crate) unsafe extern "C-unwind" fn list<T: Copy>(visited: *const T, context: *mut c_void) {
    // SAFETY: the caller's contract; the walk's thread alone refers to it.
    let list = unsafe { &mut *context.cast::<Vec<T>>() };
    // SAFETY: a walk visits what is valid during the call.
    list.push(unsafe { *visited });
}

/// A stream that is forgotten before it is destroyed.
pub(crate) struct Stream(pub(crate) CudaStream);

impl Stream {
    pub(crate) fn new() -> Self {
        Self(CudaStream::non_blocking().expect("a stream"))
    }

    pub(crate) fn legacy() -> Self {
        Self(CudaStream::legacy())
    }

    /// A stream that synchronizes with the legacy default stream.
    pub(crate) fn blocking() -> Self {
        Self(CudaStream::new().expect("a stream"))
    }

    pub(crate) fn raw(&self) -> *mut c_void {
        self.0.as_raw().as_raw()
    }

    /// Enqueues work that uses a block.
    pub(crate) fn fill(&self, block: *mut c_void, bytes: usize) {
        fill(&self.0, block, bytes);
    }

    /// Enqueues so much work that no call of a test sees its end.
    pub(crate) fn keep_busy(&self, block: *mut c_void) {
        for _ in 0..2000 {
            self.fill(block, 256);
        }
    }

    pub(crate) fn wait_for(&self, other: &Self) {
        self.0.wait_for(&other.0).expect("a wait");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        ok(c!(rmm_rs_stream_forget(self.raw())));
    }
}

pub(crate) fn fill<'s>(stream: impl Into<StreamRef<'s>>, block: *mut c_void, bytes: usize) {
    let block = DevicePtr::new(block.addr() as u64);
    // SAFETY: the block is allocated; the order of its uses is what is tested.
    unsafe { copy::fill(block, 7, bytes, stream.into()) }.expect("a fill");
}

pub(crate) fn record(block: *mut c_void, stream: &Stream) {
    ok(c!(rmm_rs_client_record_stream(block, stream.raw())));
}

#[track_caller]
pub(crate) fn free(block: *mut c_void) {
    ok(c!(rmm_rs_client_free(block)));
}

/// What is known of a block, if it is one.
pub(crate) fn find(block: *mut c_void) -> Option<ClientBlock> {
    let mut found = ClientBlock {
        size: size_of::<ClientBlock>(),
        pointer: ptr::null_mut(),
        requested: 0,
        bytes: 0,
        device: -1,
        stream: ptr::null_mut(),
        pool: ptr::null(),
        is_pending: 9,
        is_recorded: 9,
        client: ptr::null(),
    };
    (c!(rmm_rs_client_find(block, &raw mut found)) == RMM_RS_OK).then_some(found)
}

/// Whether a block is pending: `None` if there is no such block.
pub(crate) fn is_pending(block: *mut c_void) -> Option<bool> {
    find(block).map(|found| found.is_pending == 1)
}

/// Captures what `run` enqueues on the stream into a graph, which is not launched.
pub(crate) fn capture(stream: &Stream, run: impl FnOnce()) {
    let driver = Driver::get().expect("the software driver");
    let mode = CuCaptureMode::GLOBAL;
    let begun = c!(driver.cuStreamBeginCapture_v2(stream.0.as_raw(), mode));
    assert_eq!(begun, CuResult::SUCCESS);
    run();
    let mut graph = CuGraph::NULL;
    let ended = c!(driver.cuStreamEndCapture(stream.0.as_raw(), &raw mut graph));
    assert_eq!(ended, CuResult::SUCCESS, "the capture is valid");
    assert_eq!(c!(driver.cuGraphDestroy(graph)), CuResult::SUCCESS);
}

/// Numbers that only look random (xorshift64*).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).expect("31 bits") % end
    }
}
