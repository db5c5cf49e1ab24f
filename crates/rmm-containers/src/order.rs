//! The order of what streams do to one piece of memory.
//!
//! Nothing here relies on a destructor of what safe code holds: a use is noted in the owner of the memory before its work is
//! enqueued, and whoever comes next waits for it.
#![forbid(unsafe_code)]

mod place;
mod uses;

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_core::{Context, CudaEvent, CudaStream, Error, StreamRef};

use place::Place;
use uses::Uses;
pub(crate) use uses::{Access, Lasts};

/// Where a use ends.
#[derive(Debug)]
enum Mark {
    /// At the end that its stream has when somebody has to wait for it.
    EndOfStream,
    /// At an event.
    Event(CudaEvent),
}

impl Mark {
    /// Marks the end of `stream`, with the event of a mark that nobody needs if there is one.
    fn set(spare: Option<Self>, stream: StreamRef<'_>) -> Result<Self, Error> {
        match spare {
            Some(Self::Event(event)) if event.record(stream).is_ok() => Ok(Self::Event(event)),
            _ => stream.record_event().map(Self::Event),
        }
    }
}

/// On the heap, since most memory is used nowhere but at home.
type Noted = Option<Box<Uses<Place, Mark>>>;

/// Who uses a piece of memory, and who has to wait for whom.
///
/// Memory of a device has a home: a stream that everybody waits for before they use the memory elsewhere, so that uses at home
/// are not noted, and cost nothing as long as there are no others. Memory of the host has none.
pub(crate) struct Order {
    /// Where the memory belongs. A default stream means that of this context.
    context: Context,
    home: Option<Place>,
    /// The uses on other streams that home has not waited for.
    uses: Mutex<Noted>,
}

impl Order {
    /// For memory that is to be freed in the order of `stream`.
    pub(crate) fn at_home_on(stream: StreamRef<'_>, context: Context) -> Self {
        Self { context, home: Some(Place::new(stream, context)), uses: Mutex::default() }
    }

    /// For memory that is to be freed when all uses have completed.
    pub(crate) fn of_host_memory(context: Context) -> Self {
        Self { context, home: None, uses: Mutex::default() }
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// The home stream, if there is one.
    pub(crate) fn home(&self) -> Option<&CudaStream> {
        self.home.as_ref().map(Place::stream)
    }

    /// Whether something on this stream is behind all that was done at home, without being told.
    fn is_home(&self, stream: StreamRef<'_>, context: Context) -> bool {
        self.home.as_ref().is_some_and(|home| home.is_stream(stream, context))
    }

    fn uses(&self) -> MutexGuard<'_, Noted> {
        // What is noted is noted whole or not at all.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders what is enqueued on `stream` from now on behind what was done to the range and conflicts with `access`. The context
    /// that a default stream means is current.
    fn order_behind(
        &self,
        uses: &Noted,
        range: &Range<usize>,
        access: Access,
        (stream, context): (StreamRef<'_>, Context),
    ) -> Result<(), Error> {
        if let Some(home) = &self.home
            && !home.is_stream(stream, context)
        {
            stream.wait(&home.end()?)?;
        }
        let mut waited: Vec<&Place> = Vec::new();
        let uses = uses.iter().flat_map(|uses| uses.conflicting(range, access));
        for earlier in uses {
            let place = &earlier.stream;
            if place.is_stream(stream, context) || place.is_in_graph() {
                continue;
            }
            match &earlier.mark {
                Mark::Event(event) => stream.wait(event)?,
                Mark::EndOfStream if waited.contains(&place) => {}
                Mark::EndOfStream => {
                    stream.wait(&place.end()?)?;
                    waited.push(place);
                }
            }
        }
        Ok(())
    }

    /// For a use that has completed when the call that makes it returns: orders it, and notes nothing.
    pub(crate) fn before(
        &self,
        range: &Range<usize>,
        access: Access,
        stream: StreamRef<'_>,
    ) -> Result<(), Error> {
        let mut uses = self.uses();
        let has_uses = uses.as_ref().is_some_and(|uses| !uses.is_empty());
        if self.home.is_some() && !has_uses && self.is_home(stream, self.context) {
            return Ok(());
        }
        let context = Context::current()?;
        self.order_behind(&uses, range, access, (stream, context))?;
        if self.is_home(stream, context)
            && let Some(uses) = uses.as_mut()
        {
            uses.settle(range, access);
        }
        Ok(())
    }

    /// Orders a use, and notes it for those who come later. To be called before its work is enqueued. Returns a number for
    /// [`passed`](Self::passed).
    pub(crate) fn begin(
        &self,
        range: &Range<usize>,
        access: Access,
        lasts: Lasts,
        stream: StreamRef<'_>,
    ) -> Result<Option<u64>, Error> {
        let mut uses = self.uses();
        let context = Context::current()?;
        let is_home = self.is_home(stream, context);
        let has_uses = uses.as_ref().is_some_and(|uses| !uses.is_empty());
        if is_home && !has_uses {
            return Ok(None);
        }
        self.order_behind(&uses, range, access, (stream, context))?;
        let uses = uses.get_or_insert_default();
        if is_home {
            uses.settle(range, access);
            return Ok(None);
        }
        let place = Place::of_use(stream, context);
        if place.is_captured() {
            return Ok(Some(uses.note_beside(
                place,
                range.clone(),
                access,
                lasts,
                Mark::EndOfStream,
            )));
        }
        Ok(uses.note(place, range.clone(), access, lasts, Mark::EndOfStream))
    }

    /// The work of a use that began under this number is enqueued: whoever has to wait for it need not wait for what is enqueued
    /// after it.
    pub(crate) fn passed(&self, number: Option<u64>, stream: StreamRef<'_>) {
        // Without the event those who wait just wait for more.
        let Some(number) = number else { return };
        let spare = self.uses().as_mut().and_then(|uses| uses.take_spare());
        if let Ok(mark) = Mark::set(spare, stream)
            && let Some(uses) = self.uses().as_mut()
        {
            uses.set_mark(number, mark);
        }
    }

    /// Has the home stream wait at once for what has been enqueued on `stream`, so that those who enqueue work at home by themselves
    /// need not know of it.
    pub(crate) fn come_home(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        let mut uses = self.uses();
        let Some(uses) = uses.as_mut() else { return Ok(()) };
        let context = Context::current()?;
        let is_there = |place: &Place| place.is_stream(stream, context);
        let joined =
            uses.iter().filter(|other| is_there(&other.stream)).try_for_each(|other| match &other
                .mark
            {
                Mark::Event(event) => {
                    let home = self.home.as_ref().and_then(Place::reachable);
                    home.is_some_and(|home| home.wait(event).is_ok()).then_some(())
                }
                // One that goes on is noted until somebody needs its end.
                Mark::EndOfStream => (!other.is_pending()).then_some(()),
            });
        if joined.is_none() {
            stream.synchronize()?;
        }
        uses.forget_over(is_there);
        Ok(())
    }

    /// Has the home stream wait for all uses. It is the calling thread's if it is the per-thread default stream.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.home().cloned().map_or(Ok(()), |home| self.move_home(home.as_ref()))
    }

    /// As [`settle`](Self::settle), for those who can not report an error: where the stream can not wait the host does. Whether the
    /// home stream is behind all uses.
    pub(crate) fn settle_anyhow(&mut self) -> bool {
        if self.settle().is_ok() {
            return true;
        }
        let home_is_done = self.home.as_ref().is_none_or(|home| home.synchronize().is_ok());
        home_is_done && self.wait_on_host(Access::Write).is_ok()
    }

    /// Has the memory freed in the order of `stream`, which waits for all uses.
    pub(crate) fn move_home(&mut self, stream: StreamRef<'_>) -> Result<(), Error> {
        let _context = self.context.enter()?;
        self.order_behind(&self.uses(), &(0..usize::MAX), Access::Write, (stream, self.context))?;
        *self.uses() = None;
        if !self.is_home(stream, self.context) {
            self.home = Some(Place::new(stream, self.context));
        }
        Ok(())
    }

    /// Waits on the host until no use goes on that conflicts with `access`.
    pub(crate) fn wait_on_host(&self, access: Access) -> Result<(), Error> {
        let mut uses = self.uses();
        let Some(uses) = uses.as_mut() else { return Ok(()) };
        let all = 0..usize::MAX;
        uses.conflicting(&all, access).try_for_each(|earlier| match &earlier.mark {
            _ if earlier.stream.is_in_graph() => Ok(()),
            // To wait for it would spoil the capture.
            _ if earlier.stream.is_being_captured() => {
                let message = "a stream that uses the memory is being captured";
                Err(Error::unsupported("Order::wait_on_host", message))
            }
            Mark::Event(event) => event.synchronize(),
            Mark::EndOfStream => earlier.stream.synchronize(),
        })?;
        uses.settle(&all, access);
        Ok(())
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        self.uses().iter().flat_map(|uses| uses.iter()).for_each(|other| {
            list.entry(other.stream.stream());
        });
        list.finish()
    }
}
