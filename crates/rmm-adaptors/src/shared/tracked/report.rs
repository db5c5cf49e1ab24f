//! Human-readable leak report.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::backtrace::Backtrace;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rmm_core::{DevicePtr, format_bytes};

use super::caller::Caller;

/// A live block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutstandingAllocation {
    /// The address.
    pub pointer: DevicePtr,
    /// The layout that was requested.
    pub layout: Layout,
    /// The backtrace of the allocation, if backtraces are captured, and `lines` are not known.
    pub stack: Option<Arc<Backtrace>>,
    /// The lines of the program that allocated it, one for each frame, the innermost first, if they
    /// were captured in a program of another language, such as Python.
    pub lines: Option<Arc<str>>,
}

impl OutstandingAllocation {
    pub(crate) fn new(pointer: DevicePtr, layout: Layout, caller: Option<&Caller>) -> Self {
        let (stack, lines) = match caller {
            Some(Caller::Stack(stack)) => (Some(Arc::clone(stack)), None),
            Some(Caller::Named(lines)) => (None, Some(Arc::clone(lines))),
            None => (None, None),
        };
        Self { pointer, layout, stack, lines }
    }

    /// The line of the program that allocated it, or the function that called into these crates,
    /// with the line if it is known; `None` if backtraces are not captured. Resolves symbols, which
    /// takes milliseconds.
    pub fn call_site(&self) -> Option<String> {
        self.caller().map(|caller| caller.to_string())
    }

    /// The stack of the allocation as text, the innermost frame first; `None` if backtraces are not
    /// captured. Resolves symbols, which takes milliseconds.
    pub fn callstack(&self) -> Option<String> {
        let stack = self.stack.as_ref().map(ToString::to_string);
        stack.or_else(|| self.lines.as_ref().map(ToString::to_string))
    }

    fn caller(&self) -> Option<Caller> {
        let stack = self.stack.clone().map(Caller::Stack);
        stack.or_else(|| self.lines.clone().map(Caller::Named))
    }
}

/// A call site and the live blocks that it allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallSite {
    /// The function that called into these crates, with the line if it is known. With `debug =
    /// "line-tables-only"`, functions have no path and closures have no name: look at the line.
    pub place: String,
    /// The number of live blocks.
    pub blocks: u64,
    /// Their bytes, as requested.
    pub bytes: u64,
}

/// The live blocks. Displays their sum, the call sites if backtraces were captured, and the largest
/// blocks.
#[derive(Clone, Debug)]
pub struct TrackingReport {
    blocks: Vec<OutstandingAllocation>,
}

/// The most blocks and call sites that a report displays.
const SHOWN: usize = 20;

impl TrackingReport {
    pub(crate) fn new(blocks: Vec<OutstandingAllocation>) -> Self {
        Self { blocks }
    }

    /// The blocks, the largest first.
    pub fn blocks(&self) -> &[OutstandingAllocation] {
        &self.blocks
    }

    /// Bytes of all blocks, as requested.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.layout.size() as u64).sum()
    }

    /// The call sites of the blocks, by bytes, the largest first; empty without backtraces.
    /// Resolves symbols, which takes milliseconds.
    pub fn call_sites(&self) -> Vec<CallSite> {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for block in &self.blocks {
            if let Some(caller) = block.caller() {
                let (blocks, bytes) = sums.entry(caller.to_string()).or_default();
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
        match (&self.stack, &self.lines) {
            (Some(stack), _) => write!(f, " : callstack:\n{stack}"),
            (None, Some(lines)) => write!(f, " : callstack:\n{lines}"),
            (None, None) => Ok(()),
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
