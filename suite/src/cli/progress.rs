//! Progress while a plan runs: bars on a terminal, lines elsewhere.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::out;
use crate::engine::Progress;
use crate::measure::{IoKind, Measurement};
use crate::session::{self, Event};
use crate::units::{Nanos, Percentile, Unit, escaped, human};

/// What the person asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Setting {
    /// Bars on a terminal, lines elsewhere and in CI
    Auto,
    /// Bars
    Bar,
    /// A line for each step, and one every 30 s
    Lines,
    /// Nothing
    None,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bar,
    Lines,
    Silent,
}

/// Decides what is drawn. Some CI systems pretend to be terminals, so CI wins over the terminal.
///
/// | setting | terminal | CI  | drawn  |
/// | ------- | -------- | --- | ------ |
/// | auto    | yes      | no  | bar    |
/// | auto    | yes      | yes | lines  |
/// | auto    | no       | any | lines  |
/// | bar     | yes      | any | bar    |
/// | bar     | no       | any | lines  |
/// | lines   | any      | any | lines  |
/// | none    | any      | any | silent |
fn mode(setting: Setting, terminal: bool, ci: bool) -> Mode {
    match setting {
        Setting::None => Mode::Silent,
        Setting::Bar if terminal => Mode::Bar,
        Setting::Auto if terminal && !ci => Mode::Bar,
        Setting::Lines | Setting::Bar | Setting::Auto => Mode::Lines,
    }
}

/// A heartbeat often enough that no CI system takes the run for dead.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// How many of the latest reports the spark line shows.
const SPARKS: usize = 16;

/// Draws a run's events.
#[derive(Debug)]
pub(super) struct Display {
    mode: Mode,
    bar: ProgressBar,
    started: Instant,
    last_line: Instant,
    speeds: VecDeque<f64>,
    signs: bool,
    current: String,
    /// Whether somebody asked how it is going, whatever else is drawn.
    asked: Arc<AtomicBool>,
    /// The answer.
    state: String,
}

impl Display {
    /// One that tells the state of the run too, as soon as `asked` is set.
    pub(super) fn new(setting: Setting, asked: Arc<AtomicBool>) -> Self {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        let mode = mode(setting, out::talks_to_terminal(), ci);
        let target = match mode {
            Mode::Bar => ProgressDrawTarget::stderr_with_hz(4),
            Mode::Lines | Mode::Silent => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| {
            ProgressStyle::default_spinner() // the template is a constant that is known to parse
        }));
        let now = Instant::now();
        Self {
            mode,
            bar,
            started: now,
            last_line: now,
            speeds: VecDeque::with_capacity(SPARKS),
            signs: speaks_utf8(),
            current: String::new(),
            asked,
            state: String::new(),
        }
    }

    /// Draws one event.
    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Filling { disk, written, total } => {
                let done = written.0 as f64 / (total.0 as f64).max(1.0);
                let line = format!("    FILL {disk} {} {written} of {total}", self.gauge(done));
                self.update(&line, &format!("FILL {disk}"));
            }
            Event::RoundStarted { case, round, position: (done, all), expected } => {
                self.speeds.clear();
                self.current = format!("({}/{all}) {case} round {round}", done + 1);
                let time = expected.map_or("until its amount is done".to_owned(), seconds);
                let line = format!(" MEASURE {} {time}", self.current);
                self.line(&line);
                self.bar.set_message(line.clone());
                self.state = line;
            }
            Event::RoundProgress { expected, done, progress, .. } => {
                self.progress(*expected, *done, progress);
            }
            Event::RoundFinished { case, round, outcome } => {
                self.keep(&finished(case, *round, outcome));
            }
            Event::Skipped { case, reasons } => {
                self.keep(&format!("    SKIP {case}: {}", escaped(&reasons.join("; "))));
            }
            Event::SaveFailed(error) => {
                self.keep(&format!(
                    " WARNING the record is not saved: {}",
                    session::with_causes(*error)
                ));
            }
            Event::Previewed(_) | Event::Begun(_) => {}
        }
        if !self.state.is_empty() && self.asked.swap(false, Ordering::SeqCst) {
            let state = self.state.clone();
            self.bar.suspend(|| self.stamped(&state));
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn progress(&mut self, expected: Option<Nanos>, done: f64, progress: &Progress) {
        let lasted = progress.since_last.as_secs();
        if lasted <= 0.0 {
            return;
        }
        if let Some((read, all)) = progress.read_back {
            let line = format!(
                "  VERIFY {} {} {}  {}",
                self.current,
                self.gauge(read as f64 / (all as f64).max(1.0)),
                seconds(progress.elapsed),
                human(progress.bytes as f64 / lasted, Unit::BytesPerSecond),
            );
            let current = self.current.clone();
            return self.update(&line, &current);
        }
        let (iops, bandwidth) =
            (progress.completed as f64 / lasted, progress.bytes as f64 / lasted);
        if self.speeds.len() == SPARKS {
            self.speeds.pop_front();
        }
        self.speeds.push_back(iops);
        let phase = if progress.measuring { " MEASURE" } else { "  WARMUP" };
        let p99 = progress.p99_ns.map_or(String::new(), |value| {
            format!("  p99 {}", human(value as f64, Unit::Nanoseconds))
        });
        let line = format!(
            "{phase} {} {} {}  {}  {}{p99}  {}",
            self.current,
            self.gauge(done),
            expected.map_or_else(
                || seconds(progress.elapsed),
                |expected| seconds_of(progress.elapsed, expected),
            ),
            human(iops, Unit::Iops),
            human(bandwidth, Unit::BytesPerSecond),
            self.spark(),
        );
        let current = self.current.clone();
        self.update(&line, &current);
    }

    /// A line that is redrawn on a terminal, and appended as a heartbeat elsewhere.
    fn update(&mut self, line: &str, current: &str) {
        line.clone_into(&mut self.state);
        match self.mode {
            Mode::Bar => self.bar.set_message(line.to_owned()),
            Mode::Lines if self.last_line.elapsed() >= HEARTBEAT || self.current != current => {
                current.clone_into(&mut self.current);
                self.line(line);
            }
            Mode::Lines | Mode::Silent => {}
        }
    }

    /// A line that stays.
    fn keep(&mut self, line: &str) {
        match self.mode {
            Mode::Bar => self.bar.suspend(|| out::say(line)),
            Mode::Lines => self.line(line),
            Mode::Silent => {}
        }
    }

    fn line(&mut self, line: &str) {
        if self.mode == Mode::Lines {
            self.stamped(line);
            self.last_line = Instant::now();
        }
    }

    /// A line with the time since the start, however the rest is drawn.
    fn stamped(&self, line: &str) {
        let elapsed = self.started.elapsed().as_secs();
        out::say(&format!("[{:02}:{:02}] {}", elapsed / 60, elapsed % 60, line.trim_start()));
    }

    fn gauge(&self, done: f64) -> String {
        const WIDTH: usize = 16;
        #[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1 just here")]
        let filled = (done.clamp(0.0, 1.0) * WIDTH as f64) as usize;
        let (full, empty) = if self.signs { ("█", "─") } else { ("#", "-") };
        format!("[{}{}]", full.repeat(filled), empty.repeat(WIDTH - filled))
    }

    fn spark(&self) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let top = self.speeds.iter().copied().fold(0.0, f64::max);
        if !self.signs || top <= 0.0 {
            return String::new();
        }
        #[expect(clippy::cast_sign_loss, reason = "speeds and their maximum are not negative")]
        let bar = |speed: &f64| BARS[((speed / top * 7.0).round() as usize).min(7)];
        self.speeds.iter().map(bar).collect()
    }
}

fn finished(case: &str, round: u32, outcome: &Result<&Measurement, &str>) -> String {
    let measurement = match outcome {
        Ok(measurement) => measurement,
        Err(reason) => return format!("   ERROR {case} round {round}: {}", escaped(reason)),
    };
    let lasted = measurement.duration_ns.as_secs().max(1e-9);
    let mut line = format!(
        "    DONE {case} round {round}  {}  {}",
        human(measurement.completed(None) as f64 / lasted, Unit::Iops),
        human(measurement.bytes(None) as f64 / lasted, Unit::BytesPerSecond),
    );
    let p99 = Percentile::parse("99").ok();
    for kind in IoKind::DATA {
        let latency = &measurement.kinds[kind].latency_ns;
        if let Some(value) = p99.and_then(|p99| latency.quotable_percentile(p99)) {
            let p99 = human(value as f64, Unit::Nanoseconds);
            let _ = write!(line, "  {} p99 {p99}", kind.word());
        }
    }
    match measurement.errors(None) {
        0 => line,
        errors => line + &format!("  {errors} I/O errors"),
    }
}

fn seconds(time: Nanos) -> String {
    format!("{:.1} s", time.as_secs())
}

fn seconds_of(elapsed: Nanos, expected: Nanos) -> String {
    format!("{:.1}/{:.1} s", elapsed.as_secs(), expected.as_secs())
}

/// Whether the locale takes more than ASCII.
fn speaks_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_what_happens() {
        for (setting, terminal, ci, drawn) in [
            (Setting::Auto, true, false, Mode::Bar),
            (Setting::Auto, true, true, Mode::Lines),
            (Setting::Auto, false, false, Mode::Lines),
            (Setting::Auto, false, true, Mode::Lines),
            (Setting::Bar, true, true, Mode::Bar),
            (Setting::Bar, false, false, Mode::Lines),
            (Setting::Lines, true, false, Mode::Lines),
            (Setting::None, true, false, Mode::Silent),
        ] {
            assert_eq!(mode(setting, terminal, ci), drawn, "{setting:?} {terminal} {ci}");
        }
    }
}
