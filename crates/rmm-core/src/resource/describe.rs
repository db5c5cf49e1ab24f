//! Descriptions: a tree of a resource and its upstreams, with sizes and counters.

use std::fmt;

use crate::format_bytes;

/// A size, counter or text in a [`Description`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Metric {
    /// Bytes.
    Bytes(u64),
    /// A count.
    Count(u64),
    /// A text.
    Text(String),
}

/// The result of [`Introspect::describe`](crate::Introspect::describe): a resource's name and
/// metrics, and the description of each resource that it takes memory from. Displays as a tree.
///
/// ```
/// use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource};
/// use rmm_core::{Metric, Introspect};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
/// let pool = builder.initial_size(1 << 20).build()?;
/// let stack = LimitingResourceAdaptor::new(pool, 1 << 30);
/// let description = stack.describe();
/// assert_eq!(description.metric("limit"), Some(&Metric::Bytes(1 << 30)));
/// assert_eq!(description.to_string(), "\
/// limiting: allocated 0 B, limit 1.0 GiB
/// └─ pool: live 0 B, peak live 0 B, reserved 1.0 MiB
///    └─ cuda");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    name: &'static str,
    metrics: Vec<(&'static str, Metric)>,
    below: Vec<(Option<String>, Description)>,
}

impl Description {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, metrics: Vec::new(), below: Vec::new() }
    }

    /// Adds the description of a resource below this one, and its purpose.
    pub(super) fn push_below(&mut self, purpose: Option<String>, description: Self) {
        self.below.push((purpose, description));
    }

    /// Adds a number of bytes.
    pub fn bytes(&mut self, what: &'static str, bytes: u64) -> &mut Self {
        self.metrics.push((what, Metric::Bytes(bytes)));
        self
    }

    /// Adds a count.
    pub fn count(&mut self, what: &'static str, count: u64) -> &mut Self {
        self.metrics.push((what, Metric::Count(count)));
        self
    }

    /// Adds a text.
    pub fn text(&mut self, what: &'static str, text: impl Into<String>) -> &mut Self {
        self.metrics.push((what, Metric::Text(text.into())));
        self
    }

    /// The resource's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The resource's metrics, in the order in which it provides them.
    pub fn metrics(&self) -> &[(&'static str, Metric)] {
        &self.metrics
    }

    /// The metric with this name.
    pub fn metric(&self, what: &str) -> Option<&Metric> {
        self.metrics.iter().find(|(known, _)| *known == what).map(|(_, metric)| metric)
    }

    /// The resources that it takes memory from; the upstream comes last.
    pub fn below(&self) -> impl ExactSizeIterator<Item = &Self> {
        self.below.iter().map(|(_, description)| description)
    }

    /// Writes the tree. Every line but the first starts with `indent`.
    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        f.write_str(self.name)?;
        for (index, (what, metric)) in self.metrics.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            write!(f, "{what} {metric}")?;
        }
        for (index, (what, description)) in self.below.iter().enumerate() {
            let is_last = index + 1 == self.below.len();
            write!(f, "\n{indent}{}", if is_last { "└─ " } else { "├─ " })?;
            if let Some(what) = what {
                write!(f, "[{what}] ")?;
            }
            description.write(f, &format!("{indent}{}", if is_last { "   " } else { "│  " }))?;
        }
        Ok(())
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&format_bytes(*bytes)),
            Self::Count(count) => count.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}
