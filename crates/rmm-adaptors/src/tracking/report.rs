//! What is allocated, for people.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::backtrace::Backtrace;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::sync::Arc;

use rmm_core::{DevicePtr, format_bytes};

use super::call_site::call_site;

/// A block that is allocated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutstandingAllocation {
    /// Its address.
    pub pointer: DevicePtr,
    /// What was asked for.
    pub layout: Layout,
    /// The calls that allocated it, if stacks are captured.
    pub stack: Option<Arc<Backtrace>>,
}

/// A place in the program, and what it allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallSite {
    /// The function that called into these crates, and the line if it is known. Where debug
    /// information is of lines alone (`debug = "line-tables-only"`), functions are named without
    /// their path, and closures have no name: the line tells.
    pub place: String,
    /// Blocks.
    pub blocks: u64,
    /// Bytes, as asked for.
    pub bytes: u64,
}

/// What is allocated. Displays the sum, the call sites if stacks were captured, and the largest
/// blocks.
#[derive(Clone, Debug)]
pub struct TrackingReport {
    blocks: Vec<OutstandingAllocation>,
}

/// Blocks and call sites that a report shows.
const SHOWN: usize = 20;

impl TrackingReport {
    pub(super) fn new(blocks: Vec<OutstandingAllocation>) -> Self {
        Self { blocks }
    }

    /// The blocks, the largest first.
    pub fn blocks(&self) -> &[OutstandingAllocation] {
        &self.blocks
    }

    /// Bytes of all blocks, as asked for.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.layout.size() as u64).sum()
    }

    /// Where the blocks come from, the most bytes first; nothing if stacks are not captured. Looks
    /// up names, which takes milliseconds.
    pub fn call_sites(&self) -> Vec<CallSite> {
        // Without one, every place is shown as a whole.
        let folder = env::current_dir().unwrap_or_default();
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for block in &self.blocks {
            if let Some(stack) = &block.stack {
                let (blocks, bytes) =
                    sums.entry(call_site(&stack.to_string(), &folder)).or_default();
                *blocks += 1;
                *bytes += block.layout.size() as u64;
            }
        }
        let sites = sums.into_iter();
        let sites = sites.map(|(place, (blocks, bytes))| CallSite { place, blocks, bytes });
        let mut sites: Vec<CallSite> = sites.collect();
        sites.sort_by_key(|site| Reverse(site.bytes));
        sites
    }
}

impl fmt::Display for OutstandingAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: {} B", self.pointer.0, self.layout.size())?;
        match &self.stack {
            Some(stack) => write!(f, " : callstack:\n{stack}"),
            None => Ok(()),
        }
    }
}

/// `1 block`, `2 blocks`.
fn blocks(number: u64) -> String {
    format!("{number} block{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for TrackingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", format_bytes(self.bytes()), blocks(self.blocks.len() as u64))?;
        for site in self.call_sites().into_iter().take(SHOWN) {
            write!(f, "\n{} B in {} from {}", site.bytes, blocks(site.blocks), site.place)?;
        }
        for block in self.blocks.iter().take(SHOWN) {
            write!(f, "\n{:#x}: {} B", block.pointer.0, block.layout.size())?;
        }
        match self.blocks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n... and {more} more"),
        }
    }
}
