//! Figure 8 of DLHT: gets and inserts over time, while a full index moves to a larger one.

use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::{Indices, KeySpace, value_of};
use crate::settings::Settings;
use crate::threads::{CheckFailed, check, share};
use nunatak::DlhtMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The approximate number of windows of time.
const WINDOWS: u64 = 40;
/// How many operations run between two looks at the clock.
const BLOCK: u64 = 256;

/// How many operations one thread has done, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Progress(AtomicU64);

/// What the threads have done so far.
#[derive(Debug)]
struct Done {
    inserted: Vec<Progress>,
    found: Vec<Progress>,
    has_begun: AtomicBool,
    /// How many threads still insert.
    inserting: AtomicUsize,
}

impl Done {
    /// Returns the numbers of inserts and of gets.
    fn counts(&self) -> [u64; 2] {
        [&self.inserted, &self.found].map(|all| all.iter().map(|one| one.0.load(Relaxed)).sum())
    }
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Gets and inserts over time through the growth of a full index (DLHT, figure 8)";
    let measures = ["inserts M/s", "gets M/s", "items M", "load %"];
    let mut figure = Figure::new(title, &["ms"], &measures);
    let (items, space) = (settings.items, KeySpace::new(settings.seed, false));
    let threads = settings.threads.iter().max().map_or(1, |&most| most.div_ceil(2));
    back_free_memory(2 * items);
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(items as usize);
    let half = items / 2;
    (0..half).for_each(|at| drop_value(map.insert(space.key(at), value_of(space.key(at)))));
    let progress = || (0..threads).map(|_| Progress::default()).collect();
    let done = Done {
        inserted: progress(),
        found: progress(),
        has_begun: AtomicBool::new(false),
        inserting: AtomicUsize::new(threads),
    };
    let is_right = std::thread::scope(|scope| {
        for (number, inserted) in done.inserted.iter().enumerate() {
            let part = share(2 * items - half, number, threads);
            let (done, map) = (&done, &map);
            scope.spawn(move || {
                // Together they insert until the map has twice as many items as it was made for.
                done.has_begun.store(true, Relaxed);
                for from in part.clone().step_by(BLOCK as usize) {
                    let block = from..(from + BLOCK).min(part.end);
                    let count = block.end - block.start;
                    for key in block.map(|at| space.key(half + at)) {
                        drop_value(map.insert(key, value_of(key)));
                    }
                    inserted.0.fetch_add(count, Relaxed);
                }
                done.inserting.fetch_sub(1, Relaxed);
            });
        }
        let readers: Vec<_> = done
            .found
            .iter()
            .zip(0..)
            .map(|(found, number)| {
                let (done, map) = (&done, &map);
                scope.spawn(move || {
                    let mut indices = Indices::uniform(half, settings.seed ^ number);
                    let mut all_found = true;
                    while done.inserting.load(Relaxed) > 0 {
                        for _ in 0..BLOCK {
                            let key = space.key(indices.next());
                            all_found &= map.get(&key) == Some(value_of(key));
                        }
                        found.0.fetch_add(BLOCK, Relaxed);
                    }
                    all_found
                })
            })
            .collect();
        watch(&mut figure, &map, &done, items);
        readers.into_iter().all(|reader| reader.join().unwrap_or(false))
    });
    check(is_right, "a key that is always present was missed")?;
    check(map.len() as u64 == 2 * items, "an insert was lost")?;
    figure.note(format!(
        "Threads that insert: {threads}; threads that look up keys which are there from the \
         beginning: {threads}. The index has no room left when the load falls."
    ));
    Ok(figure)
}

fn drop_value(_: Option<u64>) {}

/// Adds a row for each window of time.
fn watch(figure: &mut Figure, map: &DlhtMap<u64, u64>, done: &Done, items: u64) {
    while !done.has_begun.load(Relaxed) {
        std::thread::yield_now();
    }
    // The expected rate is ten million inserts a second.
    let window = Duration::from_micros((items * 3 / 2 / 10 / WINDOWS).max(1000));
    let (start, mut before, mut since) = (Instant::now(), [0, 0], Instant::now());
    while done.inserting.load(Relaxed) > 0 {
        std::thread::sleep(window);
        let now = done.counts();
        let seconds = since.elapsed().as_secs_f64();
        since = Instant::now();
        let rate = |at: usize| Some((now[at] - before[at]) as f64 / seconds / 1e6);
        let millions = map.len() as f64 / 1e6;
        let values = vec![rate(0), rate(1), Some(millions), Some(100.0 * map.load_factor())];
        figure.add(&[&start.elapsed().as_millis()], values);
        before = now;
    }
}
