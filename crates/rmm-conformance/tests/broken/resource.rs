//! A resource with one injected fault.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, PoisonError};

use rmm_core::{
    CudaStream, DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource, StreamFlags,
    StreamRef, SynchronousResource, copy,
};
use rmm_resources::CudaMemoryResource;

/// How a resource breaks the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It does not.
    None,
    /// Every second block is a live one, if one is large enough.
    HandsOutTwice,
    /// Freed blocks go to the next request of any stream, while the device may still work on them.
    IgnoresStreamOrder,
    /// Blocks lie one behind the other in a piece of memory, which starts anew when all are freed,
    /// whatever still works on it.
    JoinsWithoutOrder,
    /// New memory is set to zero on a stream that nothing is ordered with.
    ClearsOutOfOrder,
    /// Addresses are off by 8 bytes.
    Misaligns,
    /// Zero bytes lie somewhere.
    AllocatesNothing,
    /// Freed memory is lost.
    NeverFrees,
    /// Running out of memory is reported as an invalid argument.
    HidesExhaustion,
    /// No two handles are equal.
    EqualsNobody,
    /// A property that its type declares is not reported at run time.
    TellsNothing,
}

/// A resource over the driver's allocator, with a fault.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    fault: Fault,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    live: Mutex<Vec<Live>>,
    /// Free blocks.
    free: Mutex<Vec<(DevicePtr, Layout)>>,
    arena: Mutex<Arena>,
}

/// A range of memory that is allocated from its start to its end.
#[derive(Debug, Default)]
struct Arena {
    base: Option<DevicePtr>,
    used: usize,
    live: usize,
}

#[derive(Debug)]
struct Live {
    pointer: DevicePtr,
    bytes: usize,
    owners: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const UPSTREAM: CudaMemoryResource = CudaMemoryResource::new();
const SHIFT: usize = 8;
const ARENA: Layout = Layout::new::<[u64; 1 << 20]>();

impl Broken {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, state: Arc::default() }
    }

    fn wider(layout: Layout) -> Result<Layout, Error> {
        Layout::from_size_align(layout.size() + SHIFT, layout.align())
            .map_err(|_| Error::out_of_memory("broken").with_layout(layout))
    }

    fn allocate_twice(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut live = lock(&self.state.live);
        let shared =
            live.iter_mut().find(|block| block.owners == 1 && block.bytes >= layout.size());
        if let Some(block) = shared {
            block.owners += 1;
            return Ok(block.pointer);
        }
        let pointer = UPSTREAM.allocate_sync(layout)?;
        live.push(Live { pointer, bytes: layout.size(), owners: 1 });
        Ok(pointer)
    }

    /// Takes one owner away; whether it was the last.
    fn is_last_owner(&self, pointer: DevicePtr) -> bool {
        let mut live = lock(&self.state.live);
        let Some(place) = live.iter().position(|block| block.pointer == pointer) else {
            return false;
        };
        live[place].owners -= 1;
        let is_last = live[place].owners == 0;
        if is_last {
            live.swap_remove(place);
        }
        is_last
    }

    fn allocate_freed(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut free = lock(&self.state.free);
        let fits = free.iter().position(|(_, known)| *known == layout);
        match fits {
            Some(place) => Ok(free.swap_remove(place).0),
            None => UPSTREAM.allocate_sync(layout),
        }
    }

    fn allocate_joined(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut arena = lock(&self.state.arena);
        let base = match arena.base {
            Some(base) => base,
            None => UPSTREAM.allocate_sync(ARENA)?,
        };
        arena.base = Some(base);
        let end = arena.used + layout.size().next_multiple_of(256);
        if end > ARENA.size() {
            return Err(Error::out_of_memory("broken").with_layout(layout));
        }
        let pointer = DevicePtr(base.0 + arena.used as u64);
        arena.used = end;
        arena.live += 1;
        Ok(pointer)
    }

    fn free_joined(&self) {
        let mut arena = lock(&self.state.arena);
        arena.live -= 1;
        if arena.live == 0 {
            arena.used = 0;
        }
    }

    fn allocate_cleared(layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = UPSTREAM.allocate_sync(layout)?;
        let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
        // SAFETY: the memory was allocated just now, so long; that the order is wrong is the fault
        // that is wanted.
        unsafe { copy::fill(pointer, 0, layout.size(), &stream) }?;
        Ok(pointer)
    }
}

impl PartialEq for Broken {
    fn eq(&self, other: &Self) -> bool {
        self.fault != Fault::EqualsNobody && Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for (pointer, layout) in lock(&self.free).drain(..) {
            // SAFETY: the block came from upstream with this layout, and no caller has it.
            unsafe { UPSTREAM.deallocate_sync(pointer, layout) };
        }
        if let Some(base) = lock(&self.arena).base {
            // SAFETY: as above.
            unsafe { UPSTREAM.deallocate_sync(base, ARENA) };
        }
    }
}

// SAFETY: not kept, which is the point. What is broken is the contents of the device's memory,
// nothing that the host relies on: the checks read it as plain words.
unsafe impl SynchronousResource for Broken {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        match self.fault {
            Fault::HandsOutTwice => self.allocate_twice(layout),
            Fault::IgnoresStreamOrder => self.allocate_freed(layout),
            Fault::JoinsWithoutOrder => self.allocate_joined(layout),
            Fault::ClearsOutOfOrder => Self::allocate_cleared(layout),
            Fault::Misaligns => {
                let pointer = UPSTREAM.allocate_sync(Self::wider(layout)?)?;
                Ok(DevicePtr(pointer.0 + SHIFT as u64))
            }
            Fault::HidesExhaustion => UPSTREAM
                .allocate_sync(layout)
                .map_err(|_| Error::invalid_argument("broken", "no memory").with_layout(layout)),
            _ => UPSTREAM.allocate_sync(layout),
        }
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let is_kept = match self.fault {
            Fault::HandsOutTwice => !self.is_last_owner(pointer),
            Fault::NeverFrees => true,
            Fault::IgnoresStreamOrder => {
                lock(&self.state.free).push((pointer, layout));
                true
            }
            Fault::JoinsWithoutOrder => {
                self.free_joined();
                true
            }
            _ => false,
        };
        if is_kept {
            return;
        }
        let shift = if self.fault == Fault::Misaligns { SHIFT as u64 } else { 0 };
        // SAFETY: the memory starts so far before what was handed out, and the upstream does not
        // need its size.
        unsafe { UPSTREAM.deallocate_sync(DevicePtr(pointer.0 - shift), layout) };
    }

    // Not for overriding, which is the fault.
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        match layout.size() {
            0 if self.fault == Fault::AllocatesNothing => Ok(DevicePtr(256)),
            0 => Ok(DevicePtr::NULL),
            _ => self.do_allocate_sync(layout),
        }
    }

    fn name(&self) -> &'static str {
        "broken"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        if self.fault != Fault::TellsNothing {
            query.properties(self).has::<DeviceAccessible>();
        }
    }
}

// SAFETY: as above.
unsafe impl Resource for Broken {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; upstream waits for the device.
        unsafe { self.do_deallocate_sync(pointer, layout) }
    }
}

// SAFETY: the upstream's memory is the device's.
unsafe impl HasProperty<DeviceAccessible> for Broken {}
