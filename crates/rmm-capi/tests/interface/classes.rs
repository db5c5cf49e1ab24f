//! What RMM's classes have besides a constructor with two numbers: options, getters, bins, lines of
//! a log, outstanding allocations, and kinds of failures.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_core::sys::{CuDeviceAttribute, CuResult};
use rmm_rs::ResourceHandle;
use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::driver_pools::*;
use rmm_rs::calls::failure_callback::*;
use rmm_rs::calls::logging::*;
use rmm_rs::calls::suballocators::*;
use rmm_rs::calls::tracking::*;
use rmm_rs::handle::resource::*;
use rmm_rs::handle::status::*;
use rmm_sim::{Fault, Machine};

use super::common::*;

const LEGACY: *mut c_void = ptr::null_mut();

fn cuda() -> Owned {
    made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda")
}

type Number = unsafe extern "C" fn(*const ResourceHandle, *mut u64) -> i32;

/// The status and number of a function that has one.
fn number(function: Number, resource: &Owned) -> (i32, u64) {
    let mut number = 77;
    let status = c!(function(resource.0, &raw mut number));
    (status, number)
}

fn pool_handle(resource: &Owned) -> (i32, *mut c_void) {
    let mut handle = ptr::dangling_mut();
    (c!(rmm_rs_resource_pool_handle(resource.0, &raw mut handle)), handle)
}

fn async_options() -> AsyncOptions {
    AsyncOptions {
        size: size_of::<AsyncOptions>(),
        initial_size: 0,
        maximum_size: 0,
        release_threshold: 0,
        export_handle_types: 0,
        flags: 0,
    }
}

#[test]
fn a_pool_of_the_driver_has_options_and_a_handle() {
    let shares = CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES;
    let _machine = Machine::builder().attribute(shares, 1).enter();
    let with = |options: AsyncOptions| {
        made(|out| c!(rmm_rs_async_resource_new_with_options(&raw const options, out)))
    };
    let exported = AsyncOptions {
        initial_size: 1 << 20,
        maximum_size: 4 << 20,
        export_handle_types: RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR,
        ..async_options()
    };
    let pool = with(exported).unwrap_or_else(|_| panic!("{}", last_error()));
    assert!(allocate(&pool, LEGACY, 8 << 20).is_err(), "the maximum counts");
    let (status, handle) = pool_handle(&pool);
    assert!(status == RMM_RS_OK && !handle.is_null());

    // The same pool through an adaptor, and as the caller's.
    let counted = made(|out| c!(rmm_rs_statistics_new(pool.0, out))).expect("an adaptor");
    assert_eq!(pool_handle(&counted), (RMM_RS_OK, handle));
    let view = made(|out| c!(rmm_rs_async_view_resource_new(handle, out))).expect("a view");
    assert_eq!(pool_handle(&view), (RMM_RS_OK, handle));
    for make in [rmm_rs_async_managed_resource_new, rmm_rs_async_pinned_resource_new] {
        let other = made(|out| c!(make(out))).expect("a resource");
        let (status, of_other) = pool_handle(&other);
        assert!(status == RMM_RS_OK && of_other != handle && !of_other.is_null());
    }
    assert_eq!(pool_handle(&cuda()), (RMM_RS_REFUSED, ptr::null_mut()));
    assert_eq!(c!(rmm_rs_resource_pool_handle(pool.0, ptr::null_mut())), RMM_RS_INVALID_ARGUMENT);
    let mut handle = ptr::dangling_mut();
    let null = c!(rmm_rs_resource_pool_handle(ptr::null(), &raw mut handle));
    assert!(null == RMM_RS_INVALID_ARGUMENT && handle.is_null());

    let none = made(|out| c!(rmm_rs_async_resource_new_with_options(ptr::null(), out)));
    assert!(none.is_ok());
    for wrong in [
        AsyncOptions { size: 0, ..async_options() },
        AsyncOptions { flags: 4, ..async_options() },
        AsyncOptions { export_handle_types: 16, ..async_options() },
        AsyncOptions { initial_size: 2, maximum_size: 1, ..async_options() },
    ] {
        assert_eq!(with(wrong).err(), Some(RMM_RS_INVALID_ARGUMENT), "{wrong:?}");
    }
    let fabric = AsyncOptions { export_handle_types: RMM_RS_EXPORT_FABRIC, ..async_options() };
    assert_eq!(with(fabric).err(), Some(RMM_RS_REFUSED));
    // One that returns what is free at a synchronization, below a threshold of 0 bytes.
    let returns = AsyncOptions { flags: RMM_RS_ASYNC_RELEASE_ABOVE, ..async_options() };
    let pool = with(returns).expect("a pool");
    let block = allocate(&pool, LEGACY, 1 << 20).expect("memory");
    assert_eq!(free(&pool, LEGACY, block, 1 << 20), RMM_RS_OK);
}

#[test]
fn a_limit_counts_by_an_alignment_and_says_its_figures() {
    let _machine = rmm_sim::enter();
    let cuda = cuda();
    let limiting = made(|out| c!(rmm_rs_limiting_new_with_alignment(cuda.0, 8192, 4096, out)));
    let limiting = limiting.expect("an adaptor");
    let above = made(|out| c!(rmm_rs_statistics_new(limiting.0, out))).expect("an adaptor");
    let block = allocate(&above, LEGACY, 10).expect("memory");
    assert_eq!(number(rmm_rs_limiting_allocated_bytes, &above), (RMM_RS_OK, 4096));
    assert_eq!(number(rmm_rs_limiting_allocation_limit, &above), (RMM_RS_OK, 8192));
    assert_eq!(free(&above, LEGACY, block, 10), RMM_RS_OK);
    assert_eq!(number(rmm_rs_limiting_allocated_bytes, &limiting), (RMM_RS_OK, 0));
    for function in [rmm_rs_limiting_allocated_bytes, rmm_rs_limiting_allocation_limit] {
        assert_eq!(number(function, &cuda), (RMM_RS_REFUSED, 0));
        assert_eq!(c!(function(limiting.0, ptr::null_mut())), RMM_RS_INVALID_ARGUMENT);
    }
    for wrong in [0, 3, usize::MAX] {
        let made = made(|out| c!(rmm_rs_limiting_new_with_alignment(cuda.0, 1, wrong, out)));
        assert_eq!(made.err(), Some(RMM_RS_INVALID_ARGUMENT), "{wrong}");
    }
}

#[test]
fn bins_have_any_size_and_a_resource_of_the_program() {
    let _machine = rmm_sim::enter();
    let cuda = cuda();
    let counted = made(|out| c!(rmm_rs_limiting_new(cuda.0, 1 << 20, out))).expect("an adaptor");
    let (sizes, resources) = ([5000, 1 << 16], [ptr::null(), counted.0]);
    let with = |sizes: &[u64], resources: &[*const ResourceHandle]| {
        let first = if resources.is_empty() { ptr::null() } else { resources.as_ptr() };
        made(|out| {
            c!(rmm_rs_binning_new_with_bins(cuda.0, sizes.as_ptr(), first, sizes.len(), out))
        })
    };
    let binning = with(&sizes, &resources).unwrap_or_else(|_| panic!("{}", last_error()));
    let counts = |bytes: usize| {
        let block = allocate(&binning, LEGACY, bytes).expect("memory");
        let counts = number(rmm_rs_limiting_allocated_bytes, &counted).1;
        assert_eq!(free(&binning, LEGACY, block, bytes), RMM_RS_OK);
        counts
    };
    // A block of the first bin, one of the program's resource, and one of the upstream.
    assert_eq!((counts(5000), counts(6000), counts(70_000)), (0, 6144, 0));
    let described = |resource: &Owned| {
        let mut text = [0_u8; 2000];
        c!(rmm_rs_resource_describe(resource.0, text.as_mut_ptr().cast(), text.len()));
        CStr::from_bytes_until_nul(&text).expect("it ends").to_string_lossy().into_owned()
    };
    assert!(described(&binning).contains("up to 5.0 KiB"), "{}", described(&binning));

    assert!(with(&[], &[]).is_ok(), "no bins: all goes to the upstream");
    assert!(with(&[256, 512], &[]).is_ok(), "without resources");
    for wrong in [&[0][..], &[u64::MAX], &[256, 256], &[100, 200]] {
        assert_eq!(with(wrong, &[]).err(), Some(RMM_RS_INVALID_ARGUMENT), "{wrong:?}");
    }
    let (null, much) = (ptr::null(), usize::MAX);
    for (sizes, count) in [(ptr::null(), 1), (sizes.as_ptr(), much)] {
        let made = made(|out| c!(rmm_rs_binning_new_with_bins(cuda.0, sizes, null, count, out)));
        assert_eq!(made.err(), Some(RMM_RS_INVALID_ARGUMENT));
    }
    let host = made(|out| c!(rmm_rs_host_resource_new(out))).expect("a resource");
    assert_eq!(with(&[256], &[host.0]).err(), Some(RMM_RS_INVALID_ARGUMENT));
}

#[test]
fn a_fixed_size_says_the_bytes_of_a_block() {
    let _machine = rmm_sim::enter();
    let cuda = cuda();
    let fixed = made(|out| c!(rmm_rs_fixed_size_new(cuda.0, 1000, 4, out))).expect("a resource");
    let above = made(|out| c!(rmm_rs_statistics_new(fixed.0, out))).expect("an adaptor");
    assert_eq!(number(rmm_rs_fixed_size_block_size, &above), (RMM_RS_OK, 1024));
    assert_eq!(number(rmm_rs_fixed_size_block_size, &cuda), (RMM_RS_REFUSED, 0));
}

/// What the functions of C below write to.
struct Seen {
    lines: Mutex<Vec<String>>,
    releases: AtomicU32,
    /// What a function asks, if anything.
    resource: Mutex<*const ResourceHandle>,
}

impl Seen {
    fn new() -> Self {
        let (lines, releases) = (Mutex::default(), AtomicU32::default());
        Self { lines, releases, resource: Mutex::new(ptr::null()) }
    }

    fn context(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// # Safety
    /// It is a context that is still there.
    unsafe fn of<'a>(context: *mut c_void) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { &*context.cast::<Self>() }
    }

    fn push(&self, line: String) {
        self.lines.lock().expect("no test panics with it").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no test panics with it"))
    }
}

unsafe extern "C-unwind" fn line(context: *mut c_void, line: *const c_char) {
    // SAFETY: the tests pass one that outlives the resource.
    let seen = unsafe { Seen::of(context) };
    // SAFETY: the line ends with a zero byte, and is there during the call.
    let line = unsafe { CStr::from_ptr(line) };
    seen.push(line.to_string_lossy().into_owned());
    let resource = std::mem::replace(&mut *seen.resource.lock().expect("whole"), ptr::null());
    if !resource.is_null() {
        // The log's own lock would be taken: it is called without.
        assert_eq!(c!(rmm_rs_logging_flush(resource)), RMM_RS_OK);
        let mut block = ptr::null_mut();
        c!(rmm_rs_resource_allocate_sync(resource, 7, 256, &raw mut block));
        c!(rmm_rs_resource_deallocate_sync(resource, block, 7, 256));
    }
}

unsafe extern "C-unwind" fn released(context: *mut c_void) {
    // SAFETY: the tests pass one that outlives the resource.
    unsafe { Seen::of(context) }.releases.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn lines_of_a_log_go_to_a_function_without_a_lock() {
    let _machine = rmm_sim::enter();
    let (cuda, seen) = (cuda(), Seen::new());
    let make = |function, columns| {
        let (context, release) = (seen.context(), Some(released as _));
        made(|out| {
            c!(rmm_rs_logging_new_with_callback(cuda.0, function, context, release, columns, out))
        })
    };
    assert_eq!(make(None, 0).err(), Some(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(make(Some(line as _), 8).err(), Some(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(seen.releases.load(Ordering::Relaxed), 0, "what was not taken is not released");

    let logging = make(Some(line as _), RMM_RS_LOG_TAG).expect("an adaptor");
    let header = "Thread,Time,Action,Pointer,Size,Stream,Tag";
    assert_eq!(seen.take(), [header]);
    let above = made(|out| c!(rmm_rs_statistics_new(logging.0, out))).expect("an adaptor");
    let mut text = [0_u8; 100];
    let length = c!(rmm_rs_logging_header(above.0, text.as_mut_ptr().cast(), text.len()));
    assert_eq!(&text[..length], header.as_bytes());
    assert_eq!(c!(rmm_rs_logging_header(cuda.0, text.as_mut_ptr().cast(), text.len())), 0);
    assert_eq!(text[0], 0);

    *seen.resource.lock().expect("whole") = logging.0;
    let block = allocate(&above, LEGACY, 100).expect("memory");
    let lines = seen.take();
    let [own, within, freed] = &lines[..] else { panic!("{lines:?}") };
    assert!(own.contains(",allocate,0x") && own.ends_with(",100,0x1,untagged"), "{own}");
    assert!(within.contains(",allocate,") && freed.contains(",free,"), "{within} {freed}");
    assert_eq!(free(&above, LEGACY, block, 100), RMM_RS_OK);
    assert_eq!(seen.take().len(), 1);
    assert_eq!(c!(rmm_rs_logging_flush(above.0)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_logging_flush(cuda.0)), RMM_RS_REFUSED);
    drop((above, logging));
    assert_eq!(seen.releases.load(Ordering::Relaxed), 1);
    assert!(seen.take().is_empty(), "no mark at its end");
}

unsafe extern "C-unwind" fn visit(block: *const TrackedBlock, context: *mut c_void) {
    // SAFETY: the context is the test's.
    let seen = unsafe { Seen::of(context) };
    // SAFETY: the block is there during the call.
    let block = unsafe { &*block };
    let text = |text: *const c_char| {
        if text.is_null() {
            return "null".to_owned();
        }
        // SAFETY: a text of a block ends with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    assert_eq!(block.size, size_of::<TrackedBlock>());
    let (place, stack) = (text(block.place), text(block.stack));
    seen.push(format!("{}|{}|{place}|{stack}", block.bytes, block.alignment));
}

#[test]
fn every_outstanding_allocation_is_visited_with_its_stack() {
    let _machine = rmm_sim::enter();
    let (cuda, seen) = (cuda(), Seen::new());
    for stacks in [false, true] {
        let tracking = made(|out| c!(rmm_rs_tracking_new(cuda.0, stacks, out)));
        let tracking = tracking.expect("an adaptor");
        // More than a report shows.
        let sizes: Vec<usize> = (1..=30).collect();
        let allocated = sizes.iter().map(|&bytes| (bytes, allocate(&tracking, LEGACY, bytes)));
        let blocks: Vec<_> = allocated.collect();
        assert_eq!(c!(rmm_rs_tracking_walk(tracking.0, Some(visit), seen.context())), RMM_RS_OK);
        let lines = seen.take();
        assert_eq!(lines.len(), 30);
        assert!(lines[0].starts_with("30|256|") && lines[29].starts_with("1|256|"), "{lines:?}");
        for line in lines {
            assert_eq!(
                (line.contains("|null|"), line.ends_with("|null")),
                (!stacks, !stacks),
                "{line}"
            );
            assert_eq!(line.contains("interface/common.rs:"), stacks, "{line}");
        }
        for (bytes, block) in blocks {
            assert_eq!(free(&tracking, LEGACY, block.expect("memory"), bytes), RMM_RS_OK);
        }
        assert_eq!(c!(rmm_rs_tracking_walk(tracking.0, Some(visit), seen.context())), RMM_RS_OK);
        assert!(seen.take().is_empty());
        let none = c!(rmm_rs_tracking_walk(tracking.0, None, ptr::null_mut()));
        assert_eq!(none, RMM_RS_INVALID_ARGUMENT);
    }
    let untracked = c!(rmm_rs_tracking_walk(cuda.0, Some(visit), seen.context()));
    assert_eq!(untracked, RMM_RS_REFUSED);
}

unsafe extern "C-unwind" fn give_up(context: *mut c_void, bytes: usize) -> bool {
    // SAFETY: the tests pass one that outlives the resource.
    unsafe { Seen::of(context) }.push(bytes.to_string());
    false
}

#[test]
fn a_failure_callback_is_called_for_its_kinds_alone() {
    let machine = rmm_sim::enter();
    let (cuda, seen) = (cuda(), Seen::new());
    let make = |kinds| {
        made(|out| {
            c!(rmm_rs_failure_callback_new_with_kinds(
                cuda.0,
                kinds,
                Some(give_up),
                seen.context(),
                Some(released),
                out
            ))
        })
    };
    for wrong in [0, 32, u32::MAX] {
        assert_eq!(make(wrong).err(), Some(RMM_RS_INVALID_ARGUMENT), "{wrong}");
    }
    assert_eq!(seen.releases.load(Ordering::Relaxed), 0, "what was not taken is not released");
    let bad_alloc = RMM_RS_FAILURE_OUT_OF_MEMORY | RMM_RS_FAILURE_CUDA_ERROR;
    for (kinds, called) in [
        (bad_alloc, vec!["10"]),
        (RMM_RS_FAILURE_OUT_OF_MEMORY, vec![]),
        (RMM_RS_FAILURE_NOT_READY | RMM_RS_FAILURE_REFUSED, vec![]),
    ] {
        let resource = make(kinds).expect("an adaptor");
        machine.fail(Fault::from_nth("cuMemAlloc_v2", 1, CuResult::NOT_PERMITTED));
        assert_eq!(allocate(&resource, LEGACY, 10).err(), Some(RMM_RS_ALLOCATION_FAILED));
        assert_eq!(seen.take(), called, "{kinds}");
        machine.clear_faults();
    }
    let resource = make(bad_alloc).expect("an adaptor");
    assert_eq!(allocate(&resource, LEGACY, 1 << 60).err(), Some(RMM_RS_OUT_OF_MEMORY));
    assert_eq!(seen.take(), [(1_u64 << 60).to_string()]);
    drop(resource);
    assert_eq!(seen.releases.load(Ordering::Relaxed), 4);
}
