//! Events that libraries report to a checker that stands in for the driver.
//!
//! The functions have C's calling convention, so that a checker in a library of its own, which
//! another compiler may have built, can be told as one in this program is.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::sync::{Mutex, PoisonError};

use crate::{CuDevicePtr, CuStream};

/// The layout of [`Annotations`] and of what its functions take.
const VERSION: u32 = 1;

/// The function of a driver's library that returns its annotations.
type Lookup = unsafe extern "C" fn(version: u32) -> *const Annotations;

/// The symbol of a driver's library for [`Lookup`]. A real driver has none.
pub(crate) const LOOKUP_SYMBOL: &str = "rmm_sim_annotations";

/// What a checker does with annotations.
pub trait AnnotationChecker {
    /// A number for an allocator, unique in the process.
    fn new_owner() -> u64;
    /// A range is about to be returned to the caller.
    fn allocated(event: AllocationEvent);
    /// A range was freed, and cannot be allocated again yet.
    fn freed(event: AllocationEvent);
    /// The program named a stream, which exists during the call (`nvtxNameCuStreamA`).
    fn stream_named(stream: CuStream, name: &str);
    /// The program knows that all work enqueued on a stream so far is complete.
    fn stream_completed(stream: CuStream);
    /// The program named `bytes` bytes of memory, or they have no name any more. Memory that is
    /// freed or allocated again loses its name by itself.
    fn memory_named(memory: CuDevicePtr, bytes: usize, name: Option<&str>);
    /// An allocator is about to copy, unmap and map `bytes` bytes of its memory, with the blocks
    /// that are allocated there (`true`), or it is done and the blocks are as before (`false`).
    fn suspended(memory: CuDevicePtr, bytes: usize, is_suspended: bool);
}

/// Functions of a [`AnnotationChecker`], in [`Driver::annotations`](crate::Driver::annotations).
///
/// A suballocator splits one driver allocation into many ranges, which the driver cannot see. It
/// reports each range here, so that a checker can treat it as an allocation, as the client requests
/// of Valgrind and `AddressSanitizer` do. Names of streams and of memory are for its reports, as
/// those of NVTX are for a profiler.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Annotations {
    new_owner: extern "C" fn() -> u64,
    allocated: extern "C" fn(Event<'_>),
    freed: extern "C" fn(Event<'_>),
    stream_named: extern "C" fn(CuStream, Text<'_>),
    stream_completed: extern "C" fn(CuStream),
    memory_named: extern "C" fn(CuDevicePtr, usize, Text<'_>),
    suspended: extern "C" fn(CuDevicePtr, usize, bool),
}

impl Annotations {
    /// The functions of a checker.
    pub const fn of<C: AnnotationChecker>() -> Self {
        Self {
            new_owner: new_owner::<C>,
            allocated: allocated::<C>,
            freed: freed::<C>,
            stream_named: stream_named::<C>,
            stream_completed: stream_completed::<C>,
            memory_named: memory_named::<C>,
            suspended: suspended::<C>,
        }
    }

    /// These functions, for a program that asks for this version of them; null for another version.
    pub fn for_version(&'static self, version: u32) -> *const Self {
        if version == VERSION { ptr::from_ref(self) } else { ptr::null() }
    }

    /// The functions of a driver's library.
    ///
    /// # Safety
    /// `lookup` is null or the address of a [`Lookup`] that returns null or annotations of the
    /// version that it is passed, which are valid for the rest of the process.
    pub(crate) unsafe fn of_library(lookup: *mut c_void) -> Option<&'static Self> {
        if lookup.is_null() {
            return None;
        }
        // SAFETY: a data pointer and a function pointer have one size on the platforms that CUDA
        // supports, and by the caller's contract this address is a function of that type.
        let lookup = unsafe { std::mem::transmute::<*mut c_void, Lookup>(lookup) };
        // SAFETY: it takes no pointer.
        let found = unsafe { lookup(VERSION) };
        // SAFETY: by the caller's contract it is null, or valid for the rest of the process.
        unsafe { found.as_ref() }
    }

    /// A number for an allocator, unique in the process.
    pub fn new_owner(&self) -> u64 {
        (self.new_owner)()
    }

    /// Reports that a range is about to be returned to the caller:
    /// [`AnnotationChecker::allocated`].
    pub fn allocated(&self, event: AllocationEvent) {
        (self.allocated)(Event::of(event));
    }

    /// Reports that a range was freed, and cannot be allocated again yet:
    /// [`AnnotationChecker::freed`].
    pub fn freed(&self, event: AllocationEvent) {
        (self.freed)(Event::of(event));
    }

    /// Reports that the program named a stream: [`AnnotationChecker::stream_named`].
    pub fn stream_named(&self, stream: CuStream, name: &str) {
        (self.stream_named)(stream, Text::of(Some(name)));
    }

    /// Reports that all work enqueued on a stream so far is complete:
    /// [`AnnotationChecker::stream_completed`].
    pub fn stream_completed(&self, stream: CuStream) {
        (self.stream_completed)(stream);
    }

    /// Reports that the program named memory, or that it has no name any more:
    /// [`AnnotationChecker::memory_named`].
    pub fn memory_named(&self, memory: CuDevicePtr, bytes: usize, name: Option<&str>) {
        (self.memory_named)(memory, bytes, Text::of(name));
    }

    /// Reports that an allocator is about to suspend its memory, or is done:
    /// [`AnnotationChecker::suspended`].
    pub fn suspended(&self, memory: CuDevicePtr, bytes: usize, is_suspended: bool) {
        (self.suspended)(memory, bytes, is_suspended);
    }
}

/// A range that is allocated or freed.
#[derive(Clone, Copy, Debug)]
pub struct AllocationEvent {
    /// A number for the allocator, unique in the process: [`Annotations::new_owner`]. One allocator
    /// does not allocate a byte twice at a time; layered allocators do, once each.
    pub owner: u64,
    /// The allocator's name, for reports.
    pub name: &'static str,
    /// Where the range starts.
    pub pointer: CuDevicePtr,
    /// Its length in bytes, as requested.
    pub bytes: usize,
    /// The stream in whose order it is allocated or freed; `None` if all streams may use it on
    /// return, or all uses of it have completed.
    pub stream: Option<CuStream>,
}

/// An [`AllocationEvent`] between two libraries.
#[derive(Clone, Copy)]
#[repr(C)]
struct Event<'a> {
    owner: u64,
    name: Text<'a>,
    pointer: CuDevicePtr,
    bytes: usize,
    stream: CuStream,
    has_stream: bool,
}

impl Event<'_> {
    fn of(event: AllocationEvent) -> Self {
        let AllocationEvent { owner, name, pointer, bytes, stream } = event;
        Self {
            owner,
            name: Text::of(Some(name)),
            pointer,
            bytes,
            stream: stream.unwrap_or(CuStream::NULL),
            has_stream: stream.is_some(),
        }
    }

    /// The event with a name that outlives the library which reports it.
    fn kept(self) -> AllocationEvent {
        let Self { owner, name, pointer, bytes, stream, has_stream } = self;
        let name = kept(name.as_str().unwrap_or_default());
        AllocationEvent { owner, name, pointer, bytes, stream: has_stream.then_some(stream) }
    }
}

/// A text of UTF-8 between two libraries, or none. It can only be made of an `Option<&'a str>`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Text<'a> {
    start: *const u8,
    length: usize,
    of: PhantomData<&'a str>,
}

impl<'a> Text<'a> {
    fn of(text: Option<&'a str>) -> Self {
        let start = text.map_or(ptr::null(), str::as_ptr);
        Self { start, length: text.map_or(0, str::len), of: PhantomData }
    }

    fn as_str(self) -> Option<&'a str> {
        if self.start.is_null() {
            return None;
        }
        // SAFETY: `of` made it of a `&'a str`: `length` bytes are valid for reads and unchanged
        // during 'a.
        let bytes = unsafe { slice::from_raw_parts(self.start, self.length) };
        // SAFETY: they are those of a `str`.
        Some(unsafe { str::from_utf8_unchecked(bytes) })
    }
}

/// The same text for the rest of the process. Names of allocators are few.
fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = all.get(text) {
        return same;
    }
    let text = String::leak(text.to_owned());
    all.insert(text);
    text
}

extern "C" fn new_owner<C: AnnotationChecker>() -> u64 {
    C::new_owner()
}

extern "C" fn allocated<C: AnnotationChecker>(event: Event<'_>) {
    C::allocated(event.kept());
}

extern "C" fn freed<C: AnnotationChecker>(event: Event<'_>) {
    C::freed(event.kept());
}

extern "C" fn stream_named<C: AnnotationChecker>(stream: CuStream, name: Text<'_>) {
    C::stream_named(stream, name.as_str().unwrap_or_default());
}

extern "C" fn stream_completed<C: AnnotationChecker>(stream: CuStream) {
    C::stream_completed(stream);
}

extern "C" fn memory_named<C: AnnotationChecker>(
    memory: CuDevicePtr,
    bytes: usize,
    name: Text<'_>,
) {
    C::memory_named(memory, bytes, name.as_str());
}

extern "C" fn suspended<C: AnnotationChecker>(
    memory: CuDevicePtr,
    bytes: usize,
    is_suspended: bool,
) {
    C::suspended(memory, bytes, is_suspended);
}
