//! Figure 15 of DLHT: the latency of single operations by offered load.

use super::measure::{Mix, Plan};
use super::subjects::{Inline, Scratch, Subject, filled};
use crate::clock::Clock;
use crate::experiment::figure::Figure;
use crate::keys::{Indices, value_of};
use crate::settings::Settings;
use crate::threads::{CheckFailed, throughput};
use hdrhistogram::Histogram;
use std::sync::Mutex;

/// Offered loads, in percents of the highest throughput.
const LOADS: [u64; 6] = [10, 25, 50, 75, 90, 100];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Latency of gets and of inserts with deletes, by load (DLHT, figure 15)";
    let measures = ["M/s", "mean ns", "p50 ns", "p99 ns", "p99.9 ns"];
    let mut figure = Figure::new(title, &["threads", "operation", "% of highest"], &measures);
    let (plan, clock) = (Plan::of(settings), Clock::calibrated());
    let map = filled(plan.items, plan.keys(), || <Inline>::with_capacity(settings.items))?;
    for &threads in &settings.threads {
        for (name, mix) in [("get", Mix::Get), ("insdel", Mix::InsDel)] {
            let plan = Plan { threads, ..plan };
            let highest = timed(&map, plan, mix, &clock, 0.0)?.0;
            for percent in LOADS {
                // Each thread waits for its next turn, even if its last operation was late.
                let rate = highest * percent as f64 / 100.0;
                let interval = if percent == 100 { 0.0 } else { threads as f64 * 1e3 / rate };
                let (rate, histogram) = timed(&map, plan, mix, &clock, interval)?;
                let at = |quantile| Some(histogram.value_at_quantile(quantile) as f64);
                let values = vec![Some(rate), Some(histogram.mean()), at(0.5), at(0.99), at(0.999)];
                figure.add(&[&threads, &name, &percent], values);
            }
        }
    }
    figure.note("Each operation is timed, which takes some 20 ns of each, and is not batched.");
    Ok(figure)
}

/// Runs operations that begin every `interval` nanoseconds, or one after the other. Returns
/// millions of operations a second, and the time of each from its planned begin.
fn timed(
    map: &Inline,
    plan: Plan,
    mix: Mix,
    clock: &Clock,
    interval: f64,
) -> Result<(f64, Histogram<u64>), CheckFailed> {
    let failed = |error: &dyn ToString| CheckFailed(error.to_string());
    let new = || Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).map_err(|error| failed(&error));
    let (all, space) = (Mutex::new(new()?), plan.keys());
    let rate = throughput(plan.threads, |worker| {
        let (mut own, mut scratch) = (new()?, Scratch::default());
        let mut indices = Indices::uniform(plan.items, plan.seed ^ worker.number as u64);
        let mut absent = plan.items + ((worker.number as u64 + 1) << 40);
        let start = clock.now();
        let mut due = 0.0;
        let span = worker.repeat(plan.time, || {
            for _ in 0..64 {
                // Late operations are not made up for in a burst: a missed turn is skipped.
                let mut now = clock.nanoseconds(clock.ticks_since(start));
                due = f64::max(due + interval, now - interval);
                while now < due {
                    std::hint::spin_loop();
                    now = clock.nanoseconds(clock.ticks_since(start));
                }
                let begun = clock.now();
                if mix == Mix::Get {
                    map.get(space.key(indices.next()), &mut scratch);
                } else {
                    // Each turn times either an insert or the delete of the same key.
                    if absent.is_multiple_of(2) {
                        let key = space.key(absent / 2);
                        map.insert(key, value_of(key), &mut scratch);
                    } else {
                        map.delete(space.key(absent / 2), &mut scratch);
                    }
                    absent += 1;
                }
                own.saturating_record(clock.nanoseconds(clock.ticks_since(begun)) as u64);
            }
            64
        });
        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.add(&own).map_err(|error| failed(&error))?;
        Ok(span)
    })?;
    Ok((rate, all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)))
}
