//! The page of a resource that is in use: what its stack says of itself, and where its blocks are.

use rmm_core::Description;

use super::{Page, heap};
use crate::format::bytes;
use crate::snapshot::Snapshot;

/// Renders a snapshot as HTML, in the style of a replay's page.
///
/// ```
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::AnyResource;
/// use rmm_report::{html, snapshot::Snapshot};
/// use rmm_resources::CudaMemoryResource;
///
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
/// let snapshot = Snapshot::take("my pool", &AnyResource::new(pool))?;
/// let page = html::render_live(&snapshot);
/// assert!(page.contains("<h1>my pool</h1>") && page.contains("free: 1.0 MiB"));
/// # Ok::<(), rmm_core::Error>(())
/// ```
pub fn render_live(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    page.begin(&format!("rmm: {}", snapshot.title));
    page.push("<header>\n");
    page.element("h1", &snapshot.title);
    page.element(
        "p",
        &format!(
            "On {}, {} of {} free, by rmm {}.",
            snapshot.device,
            bytes(snapshot.free_bytes),
            bytes(snapshot.total_bytes),
            env!("CARGO_PKG_VERSION")
        ),
    );
    page.push("</header>\n<section>\n<div class=\"wide\">\n<table>\n<caption>");
    page.push("The resource, and what it takes its memory from.</caption>\n<tbody>\n");
    rows(&mut page, &snapshot.description, 0);
    page.push("</tbody>\n</table>\n</div>\n</section>\n");
    for blocks in &snapshot.pools {
        page.push("<section>\n");
        match heap::figure("the pool", blocks, heap::Moment::Now) {
            Some(figure) => page.figure("The pool's heap", &figure),
            None => page.element("p", "The pool holds no memory."),
        }
        page.push("</section>\n");
    }
    page.end()
}

/// A row for each resource, indented by its depth in the stack.
fn rows(page: &mut Page, description: &Description, depth: usize) {
    page.push(&format!("<tr><th scope=\"row\" style=\"padding-left:{}em\">", depth + 1));
    page.push(&super::escape::escape(description.name()));
    page.push("</th><td style=\"text-align:left\">");
    let metrics = description.metrics().iter();
    let figures: Vec<String> = metrics.map(|(what, figure)| format!("{what} {figure}")).collect();
    page.push(&super::escape::escape(&figures.join(", ")));
    page.push("</td></tr>\n");
    for below in description.below() {
        rows(page, below, depth + 1);
    }
}
