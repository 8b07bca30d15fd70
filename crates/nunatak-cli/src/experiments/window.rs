//! How far a processor runs ahead of a read that waits for memory: the limit of operations
//! that are not in batches.

use super::figure::Figure;
use crate::probe::{HAS_INSTRUCTIONS, Probe};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Span, Worker, throughput};
use std::time::Duration;

type Reads = fn(&Probe, &Worker<'_>, Duration) -> Span;

/// Two loops: whose instructions beside the read have no results, and whose have.
type Loops = (usize, [Reads; 2]);

macro_rules! loops {
    ($($count:literal),*) => {
        [$(($count, [Probe::reads_beside::<$count, false>, Probe::reads_beside::<$count, true>])),*]
    };
}

const LOOPS: [Loops; 8] = loops![0, 10, 20, 40, 60, 80, 100, 140];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Random reads, not prefetched, by how many instructions are beside each";
    let measures = ["M/s, no results", "M/s, integer results"];
    let mut figure = Figure::new(title, &["threads", "instructions"], &measures);
    if !HAS_INSTRUCTIONS {
        figure.note("Not measured: for x86-64 and aarch64 only.");
        return Ok(figure);
    }
    let probe =
        Probe::new(settings.probe_size()).map_err(|error| CheckFailed(error.to_string()))?;
    for &threads in &settings.threads {
        let mut samples = LOOPS.map(|_| [const { Vec::new() }; 2]);
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
        "The loop has 12 instructions of its own. A lookup of any map is one or more reads and \
         all of its instructions; only in batches, which prefetch, do more reads wait side by \
         side than fit here.",
    );
    Ok(figure)
}
