//! How far a processor runs ahead of a read that waits for memory. This is the limit of unbatched
//! operations; the experiment also measures prefetched reads, as in batches.

use crate::experiment::figure::Figure;
use crate::probe::{HAS_INSTRUCTIONS, Probe};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Span, Worker, throughput};
use std::time::Duration;

type Reads = fn(&Probe, &Worker<'_>, Duration) -> Span;

/// A number of instructions, and four loops with that many beside each read: without results; with
/// results; with results and prefetches, of memory; the same, of the caches.
type Loops = (usize, [Reads; 4]);

macro_rules! loops {
    ($($count:literal),*) => {
        [$(($count, [
            Probe::reads_beside::<$count, false>,
            Probe::reads_beside::<$count, true>,
            Probe::reads_in_groups::<$count, false>,
            Probe::reads_in_groups::<$count, true>,
        ])),*]
    };
}

const LOOPS: [Loops; 8] = loops![0, 10, 20, 40, 60, 80, 100, 140];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Random reads, by how many instructions are beside each";
    let measures =
        ["M/s, no results", "integer results", "prefetched in groups", "the same in the caches"];
    let mut figure = Figure::new(title, &["threads", "instructions"], &measures);
    if !HAS_INSTRUCTIONS {
        figure.note("Not measured: for x86-64 and aarch64 only.");
        return Ok(figure);
    }
    let probe =
        Probe::new(settings.probe_size()).map_err(|error| CheckFailed(error.to_string()))?;
    for &threads in &settings.threads {
        let mut samples = LOOPS.map(|_| [const { Vec::new() }; 4]);
        for _ in 0..settings.repetitions {
            for ((_, loops), samples) in LOOPS.iter().zip(&mut samples) {
                for (reads, samples) in loops.iter().zip(samples) {
                    let read = |worker: &Worker<'_>| Ok(reads(&probe, worker, settings.time));
                    samples.push(throughput(threads, read)?);
                }
            }
        }
        for ((count, _), samples) in LOOPS.iter().zip(&samples) {
            let medians = samples.iter().map(|s| Summary::of(s).map(|s| s.median));
            figure.add(&[&threads, count], medians.collect());
        }
    }
    figure.note(
        "M/s all. The loops have about a dozen instructions of their own. A lookup of any map is \
         one or more reads and all of its instructions; only in batches, which prefetch, do more \
         reads wait side by side than fit beside these. But a prefetch waits for the address of \
         its page, and what follows it waits, too, so that a batch takes about the sum of what \
         its instructions take in the caches and of what its reads take without any.",
    );
    Ok(figure)
}
