//! The bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this many steps, which are events.
pub(crate) fn bar_of_events(steps: u64) -> ProgressBar {
    bar(steps, "{msg:.32} [{bar:20}] {human_pos}/{human_len} events, {eta} left")
}

fn bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
