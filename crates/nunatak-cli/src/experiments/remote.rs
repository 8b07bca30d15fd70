//! Section 5.3.2 of DLHT: memory that is farther away. Waits emulate its latency.

use super::measure::Plan;
use crate::backing::back_free_memory;
use crate::clock::Clock;
use crate::experiment::figure::Figure;
use crate::keys::{Indices, value_of};
use crate::medium::SlowMemory;
use crate::settings::Settings;
use crate::targets::{MapName, Target, with_target};
use crate::threads::{CheckFailed, check, throughput};

/// How many lookups are under way at a time in the overlapped mode.
const AHEAD: usize = 32;

/// Nanoseconds that a line takes to arrive, if no latency is asked for.
const LATENCIES: [f64; 5] = [0.0, 100.0, 200.0, 400.0, 1000.0];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Gets from memory that is farther away, emulated by waits (DLHT, section 5.3.2)";
    let measures = ["overlapped M/s", "one by one M/s", "ratio"];
    let mut figure = Figure::new(title, &["map", "latency ns"], &measures);
    let latencies = match settings.medium.device_latency {
        Some(latency) => vec![0.0, latency.read],
        None => LATENCIES.to_vec(),
    };
    let clock = Clock::calibrated();
    for &map in settings.maps.iter().filter(|map| map.is_own()) {
        with_target!(map, Map, Words => {
            of_map::<Map>(&mut figure, map, settings, (&latencies, clock))
        })?;
    }
    check(!figure.points.is_empty(), "this is for maps of this project, which have prefetches")?;
    figure.note(
        "An emulation: each lookup prefetches the lines that it reads first, and goes on when the \
         latency has passed since: with 32 of them under way at a time, or with one. Other lines are as \
         fast as this machine's, and so are all with a latency of zero. Reading the clock is part of it.",
    );
    Ok(figure)
}

fn of_map<T: Target>(
    figure: &mut Figure,
    name: MapName,
    settings: &Settings,
    (latencies, clock): (&[f64], Clock),
) -> Result<(), CheckFailed> {
    let plan = Plan::of(settings);
    back_free_memory(plan.items);
    let map = T::with_capacity(name, plan.items as usize);
    for index in 0..plan.items {
        let key = plan.keys().key(index);
        check(map.insert(key, value_of(key)).is_none(), "a new key was there")?;
    }
    for &latency in latencies {
        let memory = SlowMemory::new(clock, latency);
        let overlapped = gets::<T, AHEAD>(&map, plan, &memory)?;
        let single = gets::<T, 1>(&map, plan, &memory)?;
        let values = vec![Some(overlapped), Some(single), Some(overlapped / single)];
        figure.add(&[&name, &latency], values);
    }
    Ok(())
}

/// Measures gets of which so many are under way at a time.
fn gets<T: Target, const UNDER_WAY: usize>(
    map: &T,
    plan: Plan,
    memory: &SlowMemory,
) -> Result<f64, CheckFailed> {
    let space = plan.keys();
    throughput(1, |worker| {
        let mut indices = Indices::uniform(plan.items, plan.seed);
        // Prefetched keys, with the times of their prefetches.
        let mut under_way = [(0, 0); UNDER_WAY];
        let mut next = || {
            let (key, asked) = (space.key(indices.next()), memory.ask());
            map.prefetch(key);
            (key, asked)
        };
        under_way.fill_with(&mut next);
        let (mut at, mut found, mut asked_for) = (0, 0, 0);
        let span = worker.repeat(plan.time, || {
            for _ in 0..1024 {
                let (key, asked) = under_way[at];
                memory.wait(asked);
                found += usize::from(map.get(key).is_some());
                under_way[at] = next();
                at = if at + 1 < UNDER_WAY { at + 1 } else { 0 };
            }
            asked_for += 1024;
            1024
        });
        check(found == asked_for, "a get did not find its key")?;
        Ok(span)
    })
}
