//! Attribution: bytes per tag, that is, per part of a program.

mod counters;
#[cfg(feature = "tracing")]
mod layer;
mod tag;

use rmm_core::{Description, DevicePtr, Error, Query};

use super::layer::handle;
use super::observer::{AllocatedAs, Call, Observer};
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::Access;

pub(crate) use counters::TagSource;
use counters::Usage;
#[cfg(feature = "tracing")]
pub use layer::TagLayer;
pub use tag::{Tag, TagScope, TagUsage};

handle! {
    /// Counts memory by tag: the current and peak use of each part of a program.
    ///
    /// A block counts for the [tag](Tag) that the allocating thread is [in](Tag::enter), until it
    /// is freed, on whichever thread and under whichever tag. Bytes are those requested.
    ///
    /// A call costs a few nanoseconds more: about 8 when measured, with one thread as with two.
    /// Each thread has its own counters, and the table of blocks is written without a lock, so
    /// threads write to the same cache line only if addresses collide in the table. In return,
    /// [`usage`](Self::usage) reports the peak of a tag that several threads use at the same time
    /// with an error of up to [1 MiB](Self::PEAK_ERROR) per thread; the peak of a tag that one
    /// thread uses at a time is exact.
    ///
    /// An error for lack of memory names the three tags that hold the most.
    ///
    /// It is a handle: clones share the counters. Host memory: 64 KiB, up to 250 bytes for each
    /// block beyond the first 500, and 1 KiB for each thread and 32 tags. A free allocates
    /// host memory only if it is a thread's first call, or the thread's first for a tag.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::{Tag, TaggedResourceAdaptor};
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let tagged = TaggedResourceAdaptor::new(CudaMemoryResource::new());
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let block = {
    ///     let _scope = Tag::named("loader").enter();
    ///     tagged.allocate_sync(layout)?
    /// };
    /// let of_loader = tagged.usage_of(Tag::named("loader"));
    /// assert_eq!((of_loader.live_bytes, of_loader.live_blocks), (1000, 1));
    /// // SAFETY: allocated above with this layout, and not used.
    /// unsafe { tagged.deallocate_sync(block, layout) }; // out of the scope, and still the loader's
    /// let of_loader = tagged.usage_of(Tag::named("loader"));
    /// assert_eq!((of_loader.live_bytes, of_loader.peak_bytes), (0, 1000));
    /// # Ok(())
    /// # }
    /// ```
    TaggedResourceAdaptor(Tagged)
}

/// The most tags that an error names.
const TAGS_NAMED: usize = 3;

#[derive(Debug, Default)]
struct Tagged {
    /// The number of each block's tag.
    tags: AddressTable,
    usage: Usage,
}

impl<U> TaggedResourceAdaptor<U> {
    /// The largest error of a tag's reported peak, in bytes for each thread that uses the tag at
    /// the same time.
    pub const PEAK_ERROR: u64 = counters::BATCH.unsigned_abs();

    /// Counts from zero.
    pub fn new(upstream: U) -> Self {
        Self::over(upstream, Tagged::default())
    }

    /// The usage of each tag that has ever had memory, the largest first.
    pub fn usage(&self) -> Vec<TagUsage> {
        self.inner.layer.usage.all()
    }

    /// The usage of one tag.
    pub fn usage_of(&self, tag: Tag) -> TagUsage {
        self.inner.layer.usage.of(tag)
    }
}

impl Observer for Tagged {
    const NAME: &'static str = "tagged";

    #[inline]
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        let tag = Tag::current();
        self.tags.insert_new(&Access::SHARED, pointer, tag.number().into());
        self.usage.add(tag, call.layout.size());
        Ok(())
    }

    #[cold]
    fn failed(&self, error: Error, _: Call<'_>) -> Error {
        if !error.is_out_of_memory() {
            return error;
        }
        let with_some = self.usage.all().into_iter().filter(|usage| usage.live_bytes > 0);
        let named = with_some.map(|usage| (usage.tag.name(), usage.live_bytes));
        error.with_largest_tags(named.take(TAGS_NAMED).collect())
    }

    #[inline]
    fn freeing(&self, pointer: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        let number = self.tags.remove_own(pointer);
        if let Some(number) = number.and_then(|number| u16::try_from(number).ok()) {
            self.usage.subtract(Tag::numbered(number), call.layout.size());
        }
        None
    }

    fn describe(&self, description: &mut Description) {
        for TagUsage { tag, live_bytes, .. } in self.usage.all() {
            description.bytes(tag.name(), live_bytes);
        }
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| self.usage.source());
    }
}
