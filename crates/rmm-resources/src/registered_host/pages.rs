//! Whole pages of the program's global allocator, which threads have touched.

use std::alloc::Layout;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::thread;

use crate::numa;

/// The largest page of the systems that CUDA runs on, but for huge ones: that of Grace.
const PAGE: usize = 64 << 10;
/// A huge page, on which blocks of this size and more begin.
const HUGE: usize = 2 << 20;
/// The smallest page, each of which is touched.
const SMALLEST: usize = 4 << 10;
/// Bytes that are worth a thread: it starts in 20 us, and touches a GiB in 100 ms.
const PER_THREAD: usize = 16 << 20;

/// Pages, which are freed when this is dropped.
pub(super) struct Pages {
    /// # Invariant
    /// From the global allocator with `layout`, and not freed.
    start: *mut u8,
    layout: Layout,
}

impl Pages {
    /// The layout of the pages for a block; `None` if no pages are that large.
    fn layout(block: Layout) -> Option<Layout> {
        let page = if block.size() >= HUGE { HUGE } else { PAGE };
        let bytes = block.size().checked_next_multiple_of(page)?;
        Layout::from_size_align(bytes, page).ok()
    }

    /// Allocates pages for a block that is not empty, and touches each, by as many threads as it is
    /// worth, on processors of the node. `None` if there is too little memory.
    pub(super) fn allocate(
        block: Layout,
        threads: NonZero<usize>,
        node: Option<u32>,
    ) -> Option<Self> {
        let layout = Self::layout(block).filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout is not of zero bytes.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            return None;
        }
        let pages = Self { start, layout };
        numa::prefer_huge_pages(pages.start, pages.layout.size());
        pages.touch(threads, node);
        Some(pages)
    }

    /// The pages that [`keep`](Self::keep) was called for.
    ///
    /// # Safety
    /// [`allocate`](Self::allocate) made them for this block; they were kept, and are not freed.
    pub(super) unsafe fn kept(start: *mut u8, block: Layout) -> Self {
        let layout = Self::layout(block).expect("it was allocated with this layout");
        Self { start, layout }
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.start.cast()
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Leaves the pages to the caller, who has their address.
    pub(super) fn keep(self) {
        let _leaked = ManuallyDrop::new(self);
    }

    /// Writes to each page, so that the system gives it memory: by the rule of the first touch, on
    /// the node of the processor that writes.
    fn touch(&self, threads: NonZero<usize>, node: Option<u32>) {
        let count = threads.get().min(self.layout.size() / PER_THREAD).max(1);
        let processors = node.filter(|_| count > 1).and_then(numa::processors_of);
        let each = (self.layout.size() / count).next_multiple_of(HUGE);
        // Addresses, since pointers do not go to other threads.
        let (start, end) = (self.start.expose_provenance(), self.layout.size());
        let parts = (0..end).step_by(each).map(|from| (start + from, each.min(end - from)));
        thread::scope(|scope| {
            for (part, bytes) in parts {
                let processors = processors.as_ref();
                let work = move || {
                    if let Some(processors) = processors {
                        numa::run_on(processors);
                    }
                    // SAFETY: a part of the pages, which no one else uses yet.
                    unsafe { touch_part(part, bytes) };
                };
                if count == 1 || thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    // The thread that is left does it, wherever it runs.
                    // SAFETY: as above.
                    unsafe { touch_part(part, bytes) };
                }
            }
        });
    }
}

/// Writes to each page of a part.
///
/// # Safety
/// The part is allocated, its provenance is exposed, and nothing else uses it.
unsafe fn touch_part(start: usize, bytes: usize) {
    for at in (start..start + bytes).step_by(SMALLEST) {
        let page: *mut u8 = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: it lies in the part.
        unsafe { page.write_volatile(0) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the field's invariant.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_of_whole_pages_that_no_other_block_has() {
        let layout = |bytes| Layout::from_size_align(bytes, 256).expect("a layout");
        let of = |bytes| Pages::layout(layout(bytes)).map(|layout| (layout.size(), layout.align()));
        assert_eq!(of(1), Some((PAGE, PAGE)));
        assert_eq!(of(PAGE + 1), Some((2 * PAGE, PAGE)));
        assert_eq!(of(HUGE), Some((HUGE, HUGE)));
        assert_eq!(of(HUGE + 1), Some((2 * HUGE, HUGE)));
        assert_eq!(of(isize::MAX as usize - 255), None);
    }

    #[test]
    fn every_page_is_touched_by_one_thread_or_many() {
        for (bytes, threads) in [(PAGE, 4), (HUGE, 1), (70 << 20, 3), (100 << 20, 64)] {
            let block = Layout::from_size_align(bytes, 256).expect("a layout");
            let threads = NonZero::new(threads).expect("not 0");
            let pages = Pages::allocate(block, threads, Some(0)).expect("there is memory");
            for at in (0..pages.bytes()).step_by(SMALLEST) {
                // SAFETY: within the pages.
                let page = unsafe { pages.start.add(at) };
                // SAFETY: as above, and `touch` wrote to it.
                assert_eq!(unsafe { page.read() }, 0);
            }
        }
    }
}
