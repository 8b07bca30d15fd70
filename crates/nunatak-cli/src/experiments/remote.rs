//! Section 5.3.2 of DLHT: memory that is farther away. A wait emulates the added latency.

use super::figure::Figure;
use super::measure::Plan;
use super::subjects::{Inline, filled};
use crate::clock::Clock;
use crate::keys::Indices;
use crate::settings::Settings;
use crate::threads::{CheckFailed, check, throughput};

/// How many lookups are under way at a time in the overlapped mode.
const AHEAD: usize = 32;

/// Nanoseconds to add to the latency of a line.
const ADDED: [f64; 5] = [0.0, 100.0, 200.0, 400.0, 1000.0];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Gets from memory that is farther away (DLHT, section 5.3.2)";
    let measures = ["overlapped M/s", "one by one M/s", "ratio"];
    let mut figure = Figure::new(title, &["added ns"], &measures);
    let (plan, clock) = (Plan::of(settings), Clock::calibrated());
    let map = filled(plan.items, plan.keys(), || <Inline>::with_capacity(settings.items))?;
    for added in ADDED {
        let overlapped = gets(&map, plan, &clock, (added, AHEAD))?;
        let single = gets(&map, plan, &clock, (added, 1))?;
        figure.add(&[&added], vec![Some(overlapped), Some(single), Some(overlapped / single)]);
    }
    figure.note(
        "Each lookup prefetches its bin, and goes on when the added time has passed since: with \
         32 of them under way at a time, or with one. Reading the clock is part of it.",
    );
    Ok(figure)
}

fn gets(
    map: &Inline,
    plan: Plan,
    clock: &Clock,
    (added, ahead): (f64, usize),
) -> Result<f64, CheckFailed> {
    let space = plan.keys();
    throughput(1, |worker| {
        let mut indices = Indices::uniform(plan.items, plan.seed);
        // Prefetched keys, with the times of their prefetches.
        let mut under_way = vec![(0, 0); ahead];
        let mut next = || {
            let key = space.key(indices.next());
            map.0.prefetch(&key);
            (key, clock.now())
        };
        under_way.fill_with(&mut next);
        let (mut at, mut found, mut asked) = (0, 0, 0);
        let span = worker.repeat(plan.time, || {
            for _ in 0..1024 {
                let (key, since) = under_way[at];
                while clock.nanoseconds(clock.ticks_since(since)) < added {
                    std::hint::spin_loop();
                }
                found += usize::from(map.0.get(&key).is_some());
                under_way[at] = next();
                at = if at + 1 < ahead { at + 1 } else { 0 };
            }
            asked += 1024;
            1024
        });
        check(found == asked, "a get did not find its key")?;
        Ok(span)
    })
}
