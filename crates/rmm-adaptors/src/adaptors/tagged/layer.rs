//! Spans of `tracing` as tags.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::tag::Tag;

/// The field that names a span's tag.
const FIELD: &str = "tag";

/// A layer of a `tracing` subscriber that makes the current span the current [`Tag`] of its thread.
/// Needs the feature `tracing`.
///
/// A span's tag is the value of its field `tag`, or else its name. A task that awaits leaves its
/// spans and enters them again, on whichever thread it continues, so the tag follows it; the code
/// has to be instrumented, as with `#[instrument]` or `Instrument::instrument`. With a
/// [filter](Layer::with_filter), other spans change nothing.
///
/// A process has up to 1,024 tags: values of the field should be few.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::{Tag, TagLayer, TaggedResourceAdaptor};
/// use rmm_core::SynchronousResource;
/// use rmm_resources::CudaMemoryResource;
/// use tracing_subscriber::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let subscriber = tracing_subscriber::registry().with(TagLayer::new());
/// let _default = tracing::subscriber::set_default(subscriber);
/// let tagged = TaggedResourceAdaptor::new(CudaMemoryResource::new());
/// let layout = Layout::from_size_align(1000, 256)?;
/// let block = tracing::info_span!("load").in_scope(|| tagged.allocate_sync(layout))?;
/// assert_eq!(tagged.usage_of(Tag::named("load")).live_bytes, 1000);
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { tagged.deallocate_sync(block, layout) };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TagLayer;

impl TagLayer {
    /// The layer.
    pub fn new() -> Self {
        Self
    }
}

/// What the layer keeps in a span.
struct SpanTag(Tag);

thread_local! {
    /// The spans that the thread is in, and the tag that each has replaced.
    static ENTERED: RefCell<Vec<(Id, Tag)>> = const { RefCell::new(Vec::new()) };
}

/// The value of the field, as text.
#[derive(Default)]
struct Value(Option<String>);

impl Visit for Value {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == FIELD {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == FIELD {
            let mut text = String::new();
            // Writing to a string fails only if the value does.
            let _ignored = write!(text, "{value:?}");
            self.0 = Some(text);
        }
    }
}

impl<S> Layer<S> for TagLayer
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut value = Value::default();
        attributes.record(&mut value);
        let tag = Tag::named(value.0.as_deref().unwrap_or(span.name()));
        span.extensions_mut().insert(SpanTag(tag));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut value = Value::default();
        values.record(&mut value);
        if let (Some(name), Some(span)) = (value.0, context.span(id)) {
            span.extensions_mut().replace(SpanTag(Tag::named(&name)));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(tag) = span.extensions().get::<SpanTag>().map(|tag| tag.0) else { return };
        // While the thread's values are destroyed, the tag is left alone.
        let _ignored = ENTERED.try_with(|entered| {
            entered.borrow_mut().push((id.clone(), Tag::replace_current(tag)));
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let _ignored = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let Some(place) = entered.iter().rposition(|(other, _)| other == id) else { return };
            let (_, replaced) = entered.remove(place);
            match entered.get_mut(place) {
                // A span that was entered later stays, and will restore what this one has replaced.
                Some((_, later)) => *later = replaced,
                None => _ = Tag::replace_current(replaced),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{Level, info_span};
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::prelude::*;

    fn current() -> &'static str {
        Tag::current().name()
    }

    #[test]
    fn the_innermost_span_is_the_tag_in_whichever_order_spans_end() {
        let layer = TagLayer::new().with_filter(LevelFilter::from_level(Level::INFO));
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let (outer, inner) = (info_span!("outer"), info_span!("x", tag = "inner"));
        let debug = tracing::debug_span!("left out");
        let around = Tag::named("around").enter();
        for inner_first in [true, false] {
            let in_outer = outer.enter();
            assert_eq!(current(), "outer");
            let in_debug = debug.enter();
            let in_inner = inner.enter();
            assert_eq!(current(), "inner");
            drop(in_debug);
            if inner_first {
                drop(in_inner);
                assert_eq!(current(), "outer");
                drop(in_outer);
            } else {
                drop(in_outer);
                assert_eq!(current(), "inner");
                drop(in_inner);
            }
            assert_eq!(current(), "around");
        }
        drop(around);
        assert_eq!(Tag::current(), Tag::UNTAGGED);
    }

    #[test]
    fn a_tag_that_is_recorded_later_counts_from_the_next_entry() {
        let subscriber = tracing_subscriber::registry().with(TagLayer::new());
        let _default = tracing::subscriber::set_default(subscriber);
        let span = info_span!("step", tag = tracing::field::Empty, other = 1);
        assert_eq!(span.in_scope(current), "step");
        span.record("tag", tracing::field::display(17));
        assert_eq!(span.in_scope(current), "17");
        let other_thread = std::thread::spawn(current);
        assert_eq!(other_thread.join().expect("it does not panic"), "untagged");
    }
}
