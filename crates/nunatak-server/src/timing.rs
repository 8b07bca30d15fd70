//! How long commands take.
//!
//! Reading the clock takes as long as a tenth of a command of a long pipeline. So only batches of a few
//! commands are timed exactly. In others, commands that take a short time form groups, which are timed as
//! a whole: each command of a group counts with an equal part. If a group was slow, the thread times all
//! commands for a second, so that the slow log names the command that is slow again. Then it does not for
//! some seconds: a group is slow, too, if other processes had the core meanwhile.

use crate::commands::table::Command;
use crate::stats::{CallTime, WorkerStats};
use std::time::{Duration, Instant};

/// A batch of at most so many commands is timed exactly.
const FEW: usize = 8;
/// The most commands of a group.
const GROUP: usize = 16;
/// How long all commands are timed after a slow group.
const EXACT: Duration = Duration::from_secs(1);
/// How long slow groups have no effect afterwards.
const REST: Duration = Duration::from_secs(9);
/// A limit of the slow log, or of events, below this many microseconds needs exact times.
const LEAST_GROUPED: i64 = 10_000;

/// A thread's clock.
#[derive(Debug)]
pub(crate) struct Timing {
    begin: Instant,
    last: Instant,
    is_exact: bool,
    /// Whether times go into the histograms.
    is_tracked: bool,
    /// The end of the last second in which all commands are timed.
    exact_until: Option<Instant>,
    /// The slots of commands that were not timed yet.
    group: Vec<u16>,
    /// What takes longer is slow.
    pub(crate) limit: Option<Duration>,
    /// What takes longer is an event.
    spike: Option<Duration>,
}

impl Default for Timing {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            last: now,
            is_exact: true,
            is_tracked: true,
            exact_until: None,
            group: Vec::with_capacity(GROUP),
            limit: None,
            spike: None,
        }
    }
}

impl Timing {
    /// Begins a batch. `limit`: what the slow log's is in microseconds, if not negative. `spike`: that of
    /// events in milliseconds, if positive.
    pub(crate) fn begin(&mut self, commands: usize, (limit, spike): (i64, i64), is_tracked: bool) {
        let now = Instant::now();
        (self.begin, self.last) = (now, now);
        self.is_tracked = is_tracked;
        self.limit = u64::try_from(limit).ok().map(Duration::from_micros);
        self.spike = u64::try_from(spike).ok().filter(|&it| it > 0).map(Duration::from_millis);
        self.is_exact = commands <= FEW
            || (0..LEAST_GROUPED).contains(&limit)
            || (1..LEAST_GROUPED / 1000).contains(&spike)
            || self.exact_until.is_some_and(|until| now < until);
    }

    /// Ends a batch, and returns how long it took.
    pub(crate) fn end(&mut self, stats: &WorkerStats) -> Duration {
        self.end_group(stats);
        self.begin.elapsed()
    }

    pub(crate) fn is_slow(&self, time: Duration) -> bool {
        self.limit.is_some_and(|limit| time >= limit)
    }

    /// Whether a time is an event of `LATENCY`.
    pub(crate) fn is_spike(&self, time: Duration) -> bool {
        self.spike.is_some_and(|spike| time >= spike)
    }

    /// Makes a time of calls of what each took.
    pub(crate) fn of_calls(&self, time: Duration) -> CallTime {
        CallTime::new(time, self.is_tracked)
    }

    /// Returns the time since the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let time = now - self.last;
        self.last = now;
        time
    }

    /// Whether a slow group may make the thread exact again.
    fn has_rested(&self, now: Instant) -> bool {
        self.exact_until.is_none_or(|until| now > until + REST)
    }

    /// Ends a group of commands that were not timed by themselves.
    pub(crate) fn end_group(&mut self, stats: &WorkerStats) {
        if self.group.is_empty() {
            return;
        }
        let time = self.lap();
        if (self.is_slow(time) || self.is_spike(time)) && self.has_rested(self.last) {
            self.exact_until = Some(self.last + EXACT);
        }
        let part = self.of_calls(time / self.group.len() as u32);
        self.group.drain(..).for_each(|slot| stats.command(slot).add_time(part));
    }

    /// Tells that a command begins.
    #[inline(always)]
    pub(crate) fn begin_command(&mut self, command: &Command, stats: &WorkerStats) {
        if !self.is_exact && command.may_take_long() {
            self.end_group(stats);
        }
    }

    /// Tells that a command has ended. Returns its time, if it was timed by itself.
    #[inline(always)]
    pub(crate) fn end_command(
        &mut self,
        command: &Command,
        slot: u16,
        stats: &WorkerStats,
    ) -> Option<Duration> {
        if self.is_exact || command.may_take_long() {
            let time = self.lap();
            stats.command(slot).add_time(self.of_calls(time));
            return Some(time);
        }
        self.group.push(slot);
        if self.group.len() == GROUP {
            self.end_group(stats);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table;
    use crate::stats::Stats;

    /// Runs some commands, and returns how many were timed by themselves.
    fn timed(timing: &mut Timing, name: &str, count: usize, limit: (i64, i64)) -> usize {
        let stats = Stats::default().add_worker();
        let command = table::find(name.as_bytes()).unwrap();
        timing.begin(count, limit, true);
        let mut timed = 0;
        for _ in 0..count {
            timing.begin_command(command, &stats);
            timed += usize::from(timing.end_command(command, command.slot, &stats).is_some());
        }
        assert!(
            timing.end(&stats) >= Duration::from_nanos(stats.command(command.slot).nanos.get())
        );
        assert!(timing.group.is_empty());
        timed
    }

    #[test]
    fn pipelines_are_timed_in_groups() {
        for (name, count, limit, expected) in [
            ("set", FEW, (10_000, 0), FEW),
            ("set", 100, (10_000, 0), 0),
            ("set", 100, (-1, 0), 0),
            ("set", 100, (9999, 0), 100),
            ("set", 100, (-1, 10), 0),
            ("set", 100, (-1, 9), 100),
            ("keys", 100, (10_000, 0), 100),
        ] {
            let timed = timed(&mut Timing::default(), name, count, limit);
            assert_eq!(timed, expected, "{name} {count} {limit:?}");
        }
    }

    /// A slow group makes the next batches exact.
    #[test]
    fn slow_groups_are_looked_at() {
        let mut timing = Timing::default();
        let stats = Stats::default().add_worker();
        let command = table::find(b"set").unwrap();
        let slow_group = |timing: &mut Timing| {
            timing.is_exact = false;
            timing.last = Instant::now() - Duration::from_millis(11);
            for _ in 0..GROUP {
                assert_eq!(timing.end_command(command, command.slot, &stats), None);
            }
        };
        timing.begin(100, (10_000, 0), true);
        slow_group(&mut timing);
        let first = timing.exact_until.expect("a slow group");
        // Long enough for a thread that has to wait for the processor.
        timing.exact_until = Some(first + Duration::from_secs(1000));
        assert_eq!(timed(&mut timing, "set", 100, (10_000, 0)), 100);
        timing.exact_until = Some(first);
        assert!(!timing.has_rested(first + REST));
        assert!(timing.has_rested(first + REST + Duration::from_nanos(1)));
        timing.exact_until = Some(first - EXACT - REST);
        assert_eq!(timed(&mut timing, "set", 100, (10_000, 0)), 0);
        slow_group(&mut timing);
        assert!(timing.exact_until >= Some(first));
    }
}
