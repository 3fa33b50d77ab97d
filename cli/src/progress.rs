//! Progress on a terminal, and the line at the end.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of a run over graphs.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    graphs: u64,
    start: Instant,
    quiet: bool,
}

impl Progress {
    /// Starts the clock. The bar shows on standard error when that is a terminal, and not beside
    /// results that are written to the same terminal.
    pub(crate) fn start(quiet: bool, results_on_stdout: bool) -> Self {
        let visible = !quiet
            && std::io::stderr().is_terminal()
            && !(results_on_stdout && std::io::stdout().is_terminal());
        let bar = if visible {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style("{spinner} {msg} [{elapsed}]"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            bar,
            graphs: 0,
            start: Instant::now(),
            quiet,
        }
    }

    /// Follows how much of a stream of `bytes` has been read.
    pub(crate) fn follow<R: Read + Send + 'static>(
        &self,
        reader: R,
        bytes: u64,
    ) -> impl Read + Send + 'static {
        self.bar.set_length(bytes);
        self.bar.set_style(style(
            "{bar:30} {percent:>3} % {msg} [{elapsed}, {eta} left]",
        ));
        self.bar.wrap_read(reader)
    }

    /// Counts graphs that are done.
    pub(crate) fn add(&mut self, graphs: usize) {
        self.graphs += graphs as u64;
        self.bar.set_message(format!("{} graphs", self.graphs));
    }

    /// A line that is shown quiet or not.
    pub(crate) fn warn(&self, text: &str) {
        self.bar
            .suspend(|| crate::console::message(&format!("warning: {text}")));
    }

    /// Ends the bar and tells what was done: `did` follows the number of graphs.
    pub(crate) fn finish(self, did: &str) {
        self.bar.finish_and_clear();
        if !self.quiet {
            let seconds = self.start.elapsed().as_secs_f64();
            let noun = if self.graphs == 1 { "graph" } else { "graphs" };
            let rate = self.graphs as f64 / seconds.max(1e-9);
            crate::console::message(&format!(
                "{} {noun} {did}; {seconds:.2} s, {rate:.0} graphs/s",
                self.graphs
            ));
        }
    }
}

/// A template of ours; one that is wrong shows as the plain bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
