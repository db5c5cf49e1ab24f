//! What is tried: stacks of resources that are given an amount of memory.

use rmm_spec::{ResourceSpec, SpecError};

use super::memory::{PAGE, memory_text};

/// Stands for the memory in the text of a configuration.
pub const MEMORY_PLACEHOLDER: &str = "{memory}";

/// A stack of resources that is given an amount of memory.
///
/// ```
/// use rmm_report::tune::Configuration;
///
/// let pool = Configuration::new("pool", "pool(virtual, max={memory})")?;
/// assert_eq!(pool.text(24 << 30), "pool(virtual, max=24576MiB)");
/// assert!(Configuration::new("no such", "pol(virtual)").is_err());
/// # Ok::<(), rmm_spec::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    name: String,
    template: String,
}

/// Our own pools, from few bytes to little time. Those with `initial` hold all their memory from
/// the start, and call the driver no more.
const OURS: [(&str, &str); 9] = [
    ("compact pool", "pool(virtual, max={memory}, preset=compact)"),
    ("pool", "pool(virtual, max={memory})"),
    ("deterministic pool", "pool(virtual, max={memory}, preset=deterministic)"),
    ("low-latency pool", "pool(virtual, max={memory}, preset=low-latency)"),
    ("pool, all at start", "pool(virtual, initial={memory}, max={memory})"),
    ("pool over cudaMalloc", "pool(cuda, max={memory})"),
    ("the same, at start", "pool(cuda, initial={memory}, max={memory})"),
    ("arena", "arena(cuda, size={memory})"),
    ("binning over pool", "binning(pool(virtual, max={memory}), bins=18..20)"),
];

impl Configuration {
    /// A stack by the text of its specification, in which [`MEMORY_PLACEHOLDER`] stands for the
    /// memory.
    ///
    /// # Errors
    /// If the text is no specification.
    pub fn new(name: impl Into<String>, template: impl Into<String>) -> Result<Self, SpecError> {
        let configuration = Self { name: name.into(), template: template.into() };
        configuration.text(PAGE).parse::<ResourceSpec>()?;
        Ok(configuration)
    }

    /// Those that are tried where none are named.
    pub fn ours() -> Vec<Self> {
        OURS.iter()
            .map(|&(name, template)| Self { name: name.to_owned(), template: template.to_owned() })
            .collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of its specification with this memory.
    pub fn text(&self, memory: u64) -> String {
        self.template.replace(MEMORY_PLACEHOLDER, &memory_text(memory))
    }

    /// The same, with the memory left open.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Its specification with this memory.
    ///
    /// # Errors
    /// None that [`new`](Self::new) has not found.
    pub fn resource(&self, memory: u64) -> Result<ResourceSpec, SpecError> {
        self.text(memory).parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_ours_are_specifications() {
        for ours in Configuration::ours() {
            let made = Configuration::new(ours.name(), ours.template());
            assert_eq!(made.as_ref(), Ok(&ours));
            assert!(ours.text(PAGE).contains("2MiB") && ours.name().len() <= 20, "{ours:?}");
        }
    }
}
