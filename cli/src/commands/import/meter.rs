//! How far an import is: a bar for a person, a line every few seconds for a log.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::progress::Progress;
use crate::output;

/// Time between two lines when nobody looks at a terminal.
const LINE_PAUSE: Duration = Duration::from_secs(5);

const BAR: &str = "{bar:30} {percent:>3}% of {total_bytes}  {msg}  {eta} left";

/// Shows progress on standard error.
pub(super) struct Meter {
    bar: Option<ProgressBar>,
    total_bytes: u64,
    /// Rows that an earlier run had done: they say nothing about this run's pace.
    earlier_rows: u64,
    started: Instant,
    last_line: Instant,
}

impl Meter {
    /// Begins where the progress is.
    pub(super) fn new(total_bytes: u64, progress: &Progress) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total_bytes).with_position(progress.place.byte);
            bar.set_style(ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        Self { bar, total_bytes, earlier_rows: progress.counts.rows, started: now, last_line: now }
    }

    /// A batch is done.
    pub(super) fn update(&mut self, progress: &Progress) {
        let text = self.text(progress);
        if let Some(bar) = &self.bar {
            bar.set_position(progress.place.byte);
            bar.set_message(text);
        } else if self.last_line.elapsed() >= LINE_PAUSE {
            self.last_line = Instant::now();
            let percent = progress.place.byte * 100 / self.total_bytes.max(1);
            output::note(&format!("{percent}% of the file: {text}"));
        }
    }

    /// Makes room for the summary.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn text(&self, progress: &Progress) -> String {
        let rows = progress.counts.rows;
        let millis = self.started.elapsed().as_millis().max(1);
        let pace = u128::from(rows - self.earlier_rows) * 1000 / millis;
        let pace = HumanCount(u64::try_from(pace).unwrap_or(u64::MAX));
        format!("{} rows, {pace} rows/s, {} rejected", HumanCount(rows), HumanCount(progress.counts.rejected))
    }
}
