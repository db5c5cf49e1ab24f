//! The bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of this many steps, which are events.
pub(crate) fn bar_of_events(steps: u64) -> ProgressBar {
    bar(steps, "{msg:.32} [{bar:20}] {human_pos}/{human_len} events, {eta} left")
}

/// A bar of the steps of something with a name, whose number is not known yet.
pub(crate) fn bar_of_steps(name: &str) -> ProgressBar {
    let bar = bar(1, "{prefix:.32}: [{bar:20}] {msg}");
    bar.set_prefix(name.to_owned());
    bar
}

fn bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
