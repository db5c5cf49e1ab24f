//! The order of what streams do to one piece of memory.
//!
//! Nothing here relies on a destructor of what safe code holds: a use is noted in the owner of the
//! memory before its work is enqueued, and whoever comes next waits for it.
#![forbid(unsafe_code)]

mod place;
mod uses;

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rmm_core::{
    Context, CudaEvent, CudaStream, Error, RelaxedCapture, StreamRef, process_is_exiting,
};

use place::{Place, is_capturing};
pub(crate) use uses::{Access, Lasts};
use uses::{Use, Uses};

/// Where a use ends.
#[derive(Debug)]
enum Mark {
    /// At the end that its stream has when somebody has to wait for it.
    EndOfStream,
    /// At an event.
    Event(CudaEvent),
}

impl Mark {
    /// Marks the end of `stream`, with the event of a mark that nobody needs if there is one that
    /// can mark it. A default stream is that of the current context.
    fn set(spare: Option<Self>, stream: StreamRef<'_>) -> Result<Self, Error> {
        let context = stream.context()?;
        match spare {
            Some(Self::Event(event))
                if event.context() == context && event.record(stream).is_ok() =>
            {
                Ok(Self::Event(event))
            }
            _ => stream.record_event().map(Self::Event),
        }
    }
}

impl Use<Place, Mark> {
    /// Whether work of it runs by itself, or may: one that lasts goes on when the capture that it
    /// began in has ended.
    fn is_real(&self) -> bool {
        self.lasts == Lasts::On || !self.stream.is_captured()
    }

    /// Whether a wait for its end would become part of a graph, or spoil one.
    fn is_being_captured(&self) -> Result<bool, Error> {
        match self.mark {
            Mark::Event(_) if !self.stream.is_captured() => Ok(false),
            _ => self.stream.is_capturing(),
        }
    }
}

/// On the heap, since most memory is used nowhere but at home.
type Noted = Option<Box<Uses<Place, Mark>>>;

/// Who uses a piece of memory, and who has to wait for whom.
///
/// Memory of a device has a home: a stream that everybody waits for before they use the memory
/// elsewhere, so that uses at home are not noted, and cost nothing as long as there are no others.
/// Memory of the host has none.
pub(crate) struct Order {
    /// Where the memory belongs. A default stream means that of this context.
    context: Context,
    /// What the program calls the memory.
    name: Option<Box<str>>,
    home: Option<Place>,
    /// The uses on other streams that home has not waited for.
    uses: Mutex<Noted>,
}

impl Order {
    /// For memory that is to be freed in the order of `stream`.
    pub(crate) fn at_home_on(stream: StreamRef<'_>, context: Context) -> Self {
        Self {
            context,
            name: None,
            home: Some(Place::new(stream, context)),
            uses: Mutex::default(),
        }
    }

    /// For memory that is to be freed when all uses have completed.
    pub(crate) fn of_host_memory(context: Context) -> Self {
        Self { context, name: None, home: None, uses: Mutex::default() }
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// What the program calls the memory.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn set_name(&mut self, name: Option<Box<str>>) {
        self.name = name;
    }

    pub(crate) fn take_name(&mut self) -> Option<Box<str>> {
        self.name.take()
    }

    /// Whether the context was reset: pinned and managed memory went with it, and may be another's
    /// by now.
    pub(crate) fn context_has_ended(&self) -> bool {
        !process_is_exiting() && self.context.check().is_err_and(|error| error.is_context_lost())
    }

    /// The home stream, if there is one.
    pub(crate) fn home(&self) -> Option<&CudaStream> {
        self.home.as_ref().map(Place::stream)
    }

    /// Whether something on this stream is behind all that was done at home, without being told.
    fn is_home(&self, stream: StreamRef<'_>, context: Context) -> bool {
        self.home.as_ref().is_some_and(|home| home.is_stream(stream, context))
    }

    /// Calls `work` with what is noted, which nobody else looks at meanwhile.
    fn with_uses<T>(&self, work: impl FnOnce(&mut Noted) -> T) -> T {
        // What is noted is noted whole or not at all.
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut uses);
        let gone = uses.as_mut().map(|uses| uses.take_gone());
        drop(uses);
        // The last handle of a stream calls whoever watches it, who may use the memory as well.
        drop(gone);
        result
    }

    /// Orders what is enqueued on `stream` from now on behind what was done to the range and
    /// conflicts with `access`. The context that a default stream means is current. Whether one of
    /// those that it waits for is being captured, and the wait part of a graph.
    fn order_behind(
        &self,
        uses: &Noted,
        range: &Range<usize>,
        access: Access,
        (stream, context): (StreamRef<'_>, Context),
    ) -> Result<bool, Error> {
        if let Some(home) = &self.home
            && !home.is_stream(stream, context)
        {
            stream.wait(&home.end()?)?;
        }
        let mut waited: Vec<&Place> = Vec::new();
        let mut is_in_graph = false;
        let uses = uses.iter().flat_map(|uses| uses.conflicting(range, access));
        for earlier in uses {
            let place = &earlier.stream;
            if place.is_stream(stream, context) {
                continue;
            }
            if !earlier.is_real() && !place.is_being_captured() {
                // It is part of a graph that is complete: whoever launches it answers for the order
                // of its work.
                continue;
            }
            match &earlier.mark {
                Mark::Event(event) => {
                    is_in_graph |= place.is_captured();
                    stream.wait(event)?;
                }
                Mark::EndOfStream if waited.contains(&place) => {}
                Mark::EndOfStream => {
                    is_in_graph |= place.is_capturing()?;
                    stream.wait(&place.end()?)?;
                    waited.push(place);
                }
            }
        }
        Ok(is_in_graph)
    }

    /// For a use that has completed when the call that makes it returns: orders it, and notes
    /// nothing. The context is the current one.
    pub(crate) fn before(
        &self,
        range: &Range<usize>,
        access: Access,
        (stream, context): (StreamRef<'_>, Context),
    ) -> Result<(), Error> {
        self.with_uses(|noted| {
            let has_uses = noted.as_ref().is_some_and(|uses| !uses.is_empty());
            if !has_uses && self.is_home(stream, context) {
                return Ok(());
            }
            let waits_in_graph = self.order_behind(noted, range, access, (stream, context))?;
            if self.is_home(stream, context)
                && let Some(uses) = noted
                && !waits_in_graph
                && !is_capturing(stream)?
            {
                uses.settle(range, access);
            }
            Ok(())
        })
    }

    /// Orders a use, and notes it for those who come later. To be called before its work is
    /// enqueued, in the context that is current. Returns a number for [`passed`](Self::passed).
    pub(crate) fn begin(
        &self,
        range: &Range<usize>,
        access: Access,
        lasts: Lasts,
        (stream, context): (StreamRef<'_>, Context),
    ) -> Result<Option<u64>, Error> {
        self.with_uses(|noted| {
            let is_home = self.is_home(stream, context);
            let has_uses = noted.as_ref().is_some_and(|uses| !uses.is_empty());
            if is_home && !has_uses {
                return Ok(None);
            }
            let waits_in_graph = self.order_behind(noted, range, access, (stream, context))?;
            // Then the stream is behind them in the graph only: whoever comes after the capture has
            // to wait for them still.
            let is_captured = waits_in_graph || is_capturing(stream)?;
            let (uses, range) = (noted.get_or_insert_default(), range.clone());
            if is_home {
                if !is_captured {
                    uses.settle(&range, access);
                }
                return Ok(None);
            }
            let place = Place::of_use(stream, context, is_captured);
            if is_captured {
                let number = uses.note_beside(place, range, access, lasts, Mark::EndOfStream);
                return Ok(Some(number));
            }
            Ok(uses.note(place, range, access, lasts, Mark::EndOfStream))
        })
    }

    /// The work of a use that began under this number is enqueued: whoever has to wait for it need
    /// not wait for what is enqueued after it.
    pub(crate) fn passed(&self, number: Option<u64>, stream: StreamRef<'_>) {
        let Some(number) = number else { return };
        // Under one lock, so that the order of the marks in the list is that on the stream.
        self.with_uses(|noted| {
            let Some(uses) = noted else { return };
            let Some(place) = uses.stream_of(number) else { return };
            if place.is_captured() && matches!(stream.is_capturing(), Ok(false)) {
                // Another thread has ended the capture, it may be before the work was enqueued. The
                // mark to come is a real one.
                place.set_real();
            }
            // Without the event those who wait just wait for more.
            if let Ok(mark) = Mark::set(uses.take_spare(), stream) {
                uses.set_mark(number, mark);
            }
        });
    }

    /// Has the home stream wait at once for what has been enqueued on `stream`, so that those who
    /// enqueue work at home by themselves need not know of it.
    pub(crate) fn come_home(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        self.with_uses(|noted| {
            let Some(uses) = noted else { return Ok(()) };
            let context = Context::current()?;
            let is_there = |place: &Place| place.is_stream(stream, context);
            let home = self.home.as_ref().and_then(Place::reachable);
            let has_joined = |other: &Use<Place, Mark>| match &other.mark {
                Mark::Event(event) => home.is_some_and(|home| home.wait(event).is_ok()),
                // One that goes on is noted until somebody needs its end.
                Mark::EndOfStream => !other.is_pending(),
            };
            if !uses.iter().filter(|other| is_there(&other.stream)).all(has_joined) {
                let _relaxed = RelaxedCapture::enter();
                stream.synchronize()?;
            }
            uses.forget_over(is_there);
            Ok(())
        })
    }

    /// Has the home stream wait for all uses. It is the calling thread's if it is the per-thread
    /// default stream.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let _context = self.context.enter()?;
        self.settle_here()
    }

    /// As [`settle`](Self::settle), where the context of the memory is current.
    fn settle_here(&mut self) -> Result<(), Error> {
        self.home().cloned().map_or(Ok(()), |home| self.move_home_here(home.as_ref()))
    }

    /// As [`settle`](Self::settle), where the context of the memory is current, for those who
    /// cannot report an error: where the stream cannot wait the host does. Whether the home stream
    /// is behind all uses; it is not if one is on a stream that is being captured, for which nobody
    /// can wait.
    pub(crate) fn settle_anyhow(&mut self) -> bool {
        self.settle_here().is_ok() || self.settle_on_host()
    }

    /// As [`settle_anyhow`](Self::settle_anyhow), whatever context is current: the host waits for
    /// all uses.
    pub(crate) fn settle_on_host(&mut self) -> bool {
        let _relaxed = RelaxedCapture::enter();
        let home_is_done = self.home.as_ref().is_none_or(|home| {
            // What is done there is in order with what is freed there, and a wait would spoil the
            // capture.
            let is_captured = home.reachable().is_some() && matches!(home.is_capturing(), Ok(true));
            is_captured || home.synchronize().is_ok()
        });
        home_is_done && self.wait_on_host(Access::Write).is_ok()
    }

    /// Has the memory freed in the order of `stream`, which waits for all uses.
    ///
    /// # Errors
    /// `Unsupported` if a capture stands between the stream and one of them; whatever the driver
    /// reports.
    pub(crate) fn move_home(&mut self, stream: StreamRef<'_>) -> Result<(), Error> {
        let _context = self.context.enter()?;
        self.move_home_here(stream)
    }

    /// As [`move_home`](Self::move_home), where the context of the memory is current.
    fn move_home_here(&mut self, stream: StreamRef<'_>) -> Result<(), Error> {
        let stays = self.is_home(stream, self.context);
        let settled = self.with_uses(|noted| {
            if stays && noted.as_ref().is_none_or(|uses| uses.is_empty()) {
                return Ok(None);
            }
            self.check_captures(noted, stream, stays)?;
            let all = 0..usize::MAX;
            let place = (stream, self.context);
            let waits_in_graph = self.order_behind(noted, &all, Access::Write, place)?;
            if waits_in_graph && noted.iter().flat_map(|uses| uses.iter()).any(Use::is_real) {
                return Err(captured("Order::move_home"));
            }
            Ok(noted.take())
        })?;
        drop(settled);
        if !stays {
            self.home = Some(Place::new(stream, self.context));
        }
        Ok(())
    }

    /// Refuses to have `stream` wait for all uses where a capture would make some of the waits part
    /// of a graph, so that work which runs by itself is not waited for, or have the stream take
    /// part without need.
    fn check_captures(
        &self,
        uses: &Noted,
        stream: StreamRef<'_>,
        stays: bool,
    ) -> Result<(), Error> {
        let is_captured = is_capturing(stream)?;
        let mut is_refused = false;
        if let Some(home) = self.home.as_ref().filter(|_| !stays) {
            is_refused = is_captured || home.is_capturing()?;
        }
        for earlier in uses.iter().flat_map(|uses| uses.iter()) {
            is_refused |= match earlier.is_real() {
                true if is_captured => true,
                true => earlier.is_being_captured()?,
                false => !is_captured && earlier.stream.is_being_captured(),
            };
        }
        if is_refused { Err(captured("Order::move_home")) } else { Ok(()) }
    }

    /// Waits on the host until no use goes on that conflicts with `access`. Spoils no capture.
    ///
    /// # Errors
    /// `Unsupported` if a stream with such a use is being captured; whatever the driver reports.
    pub(crate) fn wait_on_host(&self, access: Access) -> Result<(), Error> {
        self.with_uses(|noted| {
            let Some(uses) = noted else { return Ok(()) };
            let all = 0..usize::MAX;
            for earlier in uses.conflicting(&all, access) {
                // To wait for it would spoil the capture.
                if earlier.is_being_captured()? {
                    return Err(captured("Order::wait_on_host"));
                }
            }
            // Nor are the captures of other threads to be spoilt.
            let mut relaxed = None;
            for earlier in uses.conflicting(&all, access).filter(|earlier| earlier.is_real()) {
                relaxed.get_or_insert_with(RelaxedCapture::enter);
                match &earlier.mark {
                    Mark::Event(event) => event.synchronize()?,
                    Mark::EndOfStream => earlier.stream.synchronize()?,
                }
            }
            uses.settle(&all, access);
            Ok(())
        })
    }
}

fn captured(origin: &'static str) -> Error {
    Error::unsupported(origin, "a stream that uses the memory is being captured")
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        self.with_uses(|noted| {
            noted.iter().flat_map(|uses| uses.iter()).for_each(|other| {
                list.entry(other.stream.stream());
            });
        });
        list.finish()
    }
}
