//! Latency events: what took `latency-monitor-threshold` milliseconds or longer, as `LATENCY` tells it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

/// How many samples of an event are kept.
const MOST_SAMPLES: usize = 160;
/// How many samples a line of a graph has.
const COLUMNS: usize = 80;
/// How many lines a graph has, beside the labels.
const ROWS: usize = 4;
/// How full a place of a graph is.
const LEVELS: &[u8] = b"_o#";

/// The longest time of an event in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spike {
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) millis: u64,
}

/// The last samples of an event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// The oldest first.
    pub(crate) spikes: VecDeque<Spike>,
    /// The longest time of all, also of those that are not kept.
    pub(crate) longest: u64,
}

/// The events of a server.
#[derive(Debug, Default)]
pub(crate) struct Spikes(Mutex<BTreeMap<&'static str, Series>>);

impl Spikes {
    pub(crate) fn add(&self, event: &'static str, spike: Spike) {
        let mut events = self.0.lock();
        let series = events.entry(event).or_default();
        series.longest = series.longest.max(spike.millis);
        match series.spikes.back_mut() {
            Some(last) if last.at == spike.at => last.millis = last.millis.max(spike.millis),
            _ => series.spikes.push_back(spike),
        }
        if series.spikes.len() > MOST_SAMPLES {
            series.spikes.pop_front();
        }
    }

    /// Returns all events that have samples.
    pub(crate) fn all(&self) -> Vec<(&'static str, Series)> {
        self.0.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Returns an event's samples.
    pub(crate) fn of(&self, event: &[u8]) -> Option<Series> {
        self.0.lock().iter().find(|(name, _)| name.as_bytes() == event).map(|it| it.1.clone())
    }

    /// Forgets events of which this is true, and returns how many.
    pub(crate) fn forget(&self, mut is_one: impl FnMut(&str) -> bool) -> usize {
        let mut events = self.0.lock();
        let before = events.len();
        events.retain(|event, _| !is_one(event));
        before - events.len()
    }
}

impl Series {
    /// Draws the samples, with how long ago each was, as Redis does.
    pub(crate) fn graph(&self, event: &str, now: u64) -> String {
        let times = || self.spikes.iter().map(|spike| spike.millis);
        let (high, low) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{event} - high {high} ms, low {low} ms (all time high {} ms)",
            self.longest
        );
        text += &"-".repeat(COLUMNS);
        text.push('\n');
        let spikes: Vec<Spike> = self.spikes.iter().copied().collect();
        let range = (high - low).max(1);
        let steps = LEVELS.len() * ROWS;
        for (number, spikes) in spikes.chunks(COLUMNS).enumerate() {
            if number > 0 {
                text.push('\n');
            }
            for row in 0..ROWS {
                let below = (ROWS - row - 1) * LEVELS.len();
                let line = spikes.iter().map(|spike| {
                    let step =
                        ((spike.millis - low) as usize * steps / range as usize).min(steps - 1);
                    match step.checked_sub(below) {
                        None => ' ',
                        Some(level) => LEVELS.get(level).map_or('|', |&it| char::from(it)),
                    }
                });
                text.extend(line);
                text.push('\n');
            }
            text += &" ".repeat(spikes.len());
            text.push('\n');
            let labels: Vec<String> =
                spikes.iter().map(|it| ago(now.saturating_sub(it.at))).collect();
            for row in 0..labels.iter().map(String::len).max().unwrap_or(0) {
                text.extend(
                    labels
                        .iter()
                        .map(|it| it.as_bytes().get(row).map_or(' ', |&it| char::from(it))),
                );
                text.push('\n');
            }
        }
        text
    }
}

/// Writes how long ago something was.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample() {
        let spikes = Spikes::default();
        for (at, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            spikes.add("command", Spike { at, millis });
        }
        let series = spikes.of(b"command").unwrap();
        let expected = [Spike { at: 1, millis: 9 }, Spike { at: 2, millis: 3 }];
        assert_eq!((series.spikes, series.longest), (expected.into(), 9));
        for at in 3..200 {
            spikes.add("command", Spike { at, millis: 1 });
        }
        let series = spikes.of(b"command").unwrap();
        assert_eq!(
            (series.spikes.len(), series.spikes[0].at, series.longest),
            (MOST_SAMPLES, 40, 9)
        );
        assert!(spikes.of(b"fast-command").is_none());
        assert_eq!(spikes.forget(|event| event == "fork"), 0);
        assert_eq!(spikes.forget(|_| true), 1);
        assert!(spikes.all().is_empty());
    }

    /// As a Redis 7.0 has drawn it.
    #[test]
    fn graphs_have_labels() {
        let mut series = Series { longest: 99, ..Series::default() };
        for (at, millis) in [(10, 10), (95, 40), (100, 29)] {
            series.spikes.push_back(Spike { at, millis });
        }
        let head =
            format!("command - high 40 ms, low 10 ms (all time high 99 ms)\n{}\n", "-".repeat(80));
        let lines = [" # ", " |o", " ||", "_||", "   ", "255", "m50", " ss"];
        assert_eq!(series.graph("command", 150), head + &lines.join("\n") + "\n");
    }
}
