//! Figure 8 of DLHT: gets and inserts over time, while a full index moves to a larger one.

use super::figure::Figure;
use crate::backing::back_free_memory;
use crate::keys::{Indices, KeySpace, value_of};
use crate::settings::Settings;
use crate::threads::{CheckFailed, check};
use nunatak::DlhtMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The approximate number of windows of time.
const WINDOWS: u64 = 40;
/// How many operations run between two looks at the clock.
const BLOCK: u64 = 256;

/// How many operations one thread has done, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Progress(AtomicU64);

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Gets and inserts over time through a growth (DLHT, figure 8)";
    let measures = ["inserts M/s", "gets M/s", "items M", "load %"];
    let mut figure = Figure::new(title, &["ms"], &measures);
    let (items, space) = (settings.items, KeySpace::new(settings.seed, false));
    back_free_memory(2 * items);
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(items as usize);
    let (inserted, found) = (Progress::default(), Progress::default());
    let (has_begun, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let half = items / 2;
    (0..half).for_each(|at| drop_value(map.insert(space.key(at), value_of(space.key(at)))));
    let is_right = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Inserts until the map has twice as many items as it was created for.
            has_begun.store(true, Relaxed);
            for from in (half..2 * items).step_by(BLOCK as usize) {
                for at in from..(from + BLOCK).min(2 * items) {
                    drop_value(map.insert(space.key(at), value_of(space.key(at))));
                }
                inserted.0.fetch_add(BLOCK, Relaxed);
            }
            is_done.store(true, Relaxed);
        });
        let reader = scope.spawn(|| {
            let mut indices = Indices::uniform(half, settings.seed);
            let mut all_found = true;
            while !is_done.load(Relaxed) {
                for _ in 0..BLOCK {
                    let key = space.key(indices.next());
                    all_found &= map.get(&key) == Some(value_of(key));
                }
                found.0.fetch_add(BLOCK, Relaxed);
            }
            all_found
        });
        watch(&mut figure, &map, (&inserted, &found), (&has_begun, &is_done), items);
        reader.join().unwrap_or(false)
    });
    check(is_right, "a key that is always present was missed")?;
    check(map.len() as u64 == 2 * items, "an insert was lost")?;
    figure.note("One thread inserts, one looks up keys that are there from the beginning.");
    Ok(figure)
}

fn drop_value(_: Option<u64>) {}

/// Adds a row for each window of time.
fn watch(
    figure: &mut Figure,
    map: &DlhtMap<u64, u64>,
    (inserted, found): (&Progress, &Progress),
    (has_begun, is_done): (&AtomicBool, &AtomicBool),
    items: u64,
) {
    while !has_begun.load(Relaxed) {
        std::thread::yield_now();
    }
    // The expected rate is ten million inserts a second.
    let window = Duration::from_micros((items * 3 / 2 / 10 / WINDOWS).max(1000));
    let (start, mut before, mut since) = (Instant::now(), [0, 0], Instant::now());
    while !is_done.load(Relaxed) {
        std::thread::sleep(window);
        let now = [inserted.0.load(Relaxed), found.0.load(Relaxed)];
        let seconds = since.elapsed().as_secs_f64();
        since = Instant::now();
        let rate = |at: usize| Some((now[at] - before[at]) as f64 / seconds / 1e6);
        let millions = map.len() as f64 / 1e6;
        let values = vec![rate(0), rate(1), Some(millions), Some(100.0 * map.load_factor())];
        figure.add(&[&start.elapsed().as_millis()], values);
        before = now;
    }
}
