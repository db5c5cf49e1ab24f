//! The page of a resource that is in use: what its stack says of itself, and where its blocks are.

use std::slice;

use rmm_adaptors::monitor::PoolMap;
use rmm_adaptors::{PoolBlock, PoolStatistics};
use rmm_core::Description;

use super::tables::Table;
use super::view::{Ending, NEVER, Names, ViewBlock, ViewCounted, ViewSegment};
use super::{MemoryPage, View};
use crate::format::bytes;
use crate::replay::ranges;
use crate::snapshot::Snapshot;

/// Renders a snapshot.
///
/// ```
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::AnyResource;
/// use rmm_report::{page, snapshot::Snapshot};
/// use rmm_resources::CudaMemoryResource;
///
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
/// let snapshot = Snapshot::take("my pool", &AnyResource::new(pool))?;
/// let page = page::render_live(&snapshot);
/// assert!(page.contains("<h1>my pool</h1>") && page.contains("Of 1.0 MiB held, 0.0 % were live"));
/// # Ok::<(), rmm_core::Error>(())
/// ```
pub fn render_live(snapshot: &Snapshot) -> String {
    MemoryPage::of_snapshot(snapshot).render()
}

impl MemoryPage {
    /// Of a resource that is in use: one moment, and no events.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let mut stack = Vec::new();
        rows(&mut stack, &snapshot.description, 0);
        let number = |index: usize| match snapshot.pools.len() {
            1 => snapshot.title.clone(),
            _ => format!("{}, pool {} from the bottom", snapshot.title, index + 1),
        };
        let views = snapshot
            .pools
            .iter()
            .enumerate()
            .map(|(index, (counters, blocks))| view(number(index), counters, blocks));
        Self {
            title: snapshot.title.clone(),
            about: format!(
                "On {}, {} of {} free, by rmm {}.",
                snapshot.device,
                bytes(snapshot.free_bytes),
                bytes(snapshot.total_bytes),
                env!("CARGO_PKG_VERSION")
            ),
            notices: Vec::new(),
            views: views.collect(),
            tables: vec![Table {
                caption: "The resource, and what it takes its memory from".to_owned(),
                columns: vec!["resource".to_owned(), "figures".to_owned()],
                rows: stack,
                note: String::new(),
            }],
        }
    }
}

impl MemoryPage {
    /// Of pools in use, by their names: one moment, and no events.
    pub fn of_maps(title: impl Into<String>, maps: &[PoolMap]) -> Self {
        let view = |map: &PoolMap| {
            let device = map.device.map(|device| format!(", device {device}"));
            view(
                format!("{}{}", map.pool, device.unwrap_or_default()),
                &map.statistics,
                &map.blocks,
            )
        };
        let notices = match maps {
            [] => vec!["The program has no pool, or has registered none.".to_owned()],
            _ => Vec::new(),
        };
        Self {
            about: format!("Its pools at one moment, by rmm {}.", env!("CARGO_PKG_VERSION")),
            notices,
            ..Self::new(title, maps.iter().map(view).collect())
        }
    }
}

/// A row for each resource, indented by its depth in the stack.
fn rows(rows_so_far: &mut Vec<Vec<String>>, description: &Description, depth: usize) {
    let metrics = description.metrics().iter();
    let figures: Vec<String> = metrics.map(|(what, figure)| format!("{what} {figure}")).collect();
    let name = format!("{}{}", "\u{2003}".repeat(depth), description.name());
    rows_so_far.push(vec![name, figures.join(", ")]);
    for below in description.below() {
        rows(rows_so_far, below, depth + 1);
    }
}

/// The view of a pool: it has no events, and does not say who holds a block.
fn view(log: String, counters: &PoolStatistics, pool: &[PoolBlock]) -> View {
    let block = |block: &PoolBlock| ViewBlock {
        end: NEVER,
        size: block.size,
        address: block.segment_base.0 + block.offset,
        ..ViewBlock::default()
    };
    let segment = |(address, size)| ViewSegment { address, size, start: 0, end: NEVER };
    let stream = |block: &PoolBlock| {
        block.owner_handle.map_or_else(String::new, |handle| format!("{:#x}", handle.addr()))
    };
    let held = pool.iter().map(|block| block.size).sum();
    View {
        log,
        blocks: pool.iter().filter(|block| block.is_live).map(block).collect(),
        names: Names {
            streams: vec!["not known".to_owned()],
            threads: vec!["not known".to_owned()],
            tags: vec![String::new()],
            sites: vec![String::new()],
        },
        reserved: Some(vec![(0, held)]),
        segments: ranges(pool).into_iter().map(segment).collect(),
        ending: Ending::Open,
        counted: vec![ViewCounted::of(0, slice::from_ref(counters), pool, stream)],
        ..View::default()
    }
}
