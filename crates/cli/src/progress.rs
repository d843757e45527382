//! Progress bars: on standard error, and only where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total` bytes, or a counter where the total is unknown.
pub(crate) fn bytes(total: Option<u64>, what: &str) -> ProgressBar {
    match total {
        Some(total) => {
            styled(ProgressBar::new(total), what, "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left")
        }
        None => styled(ProgressBar::no_length(), what, "{msg} {spinner} {bytes}, {bytes_per_sec}"),
    }
}

/// A counter of rows.
pub(crate) fn rows(what: &str) -> ProgressBar {
    styled(ProgressBar::no_length(), what, "{msg} {spinner} {human_pos} rows, {per_sec}")
}

fn styled(bar: ProgressBar, what: &str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_message(what.to_owned());
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
