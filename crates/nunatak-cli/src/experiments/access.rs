//! Sequential against random access, by the size of a group: figure 2 of TurboHash, in RAM.

use crate::experiment::figure::Figure;
use crate::probe::Probe;
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Span, Worker, throughput};
use std::time::Duration;

type Groups = fn(&Probe, &Worker<'_>, (usize, bool), Duration) -> Span;

/// A column: its name, the loop, whether a group waits for the last one, and whether the column has
/// the nanoseconds of a group instead of millions of accesses a second.
const COLUMNS: [(&str, Groups, bool, bool); 8] = [
    ("random reads M/s", Probe::groups::<false, false>, false, false),
    ("sequential reads M/s", Probe::groups::<true, false>, false, false),
    ("random ns", Probe::groups::<false, false>, true, true),
    ("sequential ns", Probe::groups::<true, false>, true, true),
    ("random writes M/s", Probe::groups::<false, true>, false, false),
    ("sequential writes M/s", Probe::groups::<true, true>, false, false),
    ("random ns", Probe::groups::<false, true>, false, true),
    ("sequential ns", Probe::groups::<true, true>, false, true),
];

/// The numbers of lines of a group: 64 bytes to 4 KiB. The paper has 1 to 32.
const GROUPS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Random and sequential accesses in groups, in RAM (TurboHash, figure 2)";
    let measures = COLUMNS.map(|(name, ..)| name);
    let mut figure = Figure::new(title, &["threads", "lines", "bytes"], &measures);
    let probe =
        Probe::new(settings.probe_size()).map_err(|error| CheckFailed(error.to_string()))?;
    for &threads in &settings.threads {
        for group in GROUPS {
            let column = |(_, groups, waits, is_time): (&str, Groups, bool, bool)| {
                let once = || {
                    throughput(threads, |worker| {
                        Ok(groups(
                            &probe,
                            worker,
                            (group, waits),
                            settings.time / GROUPS.len() as u32,
                        ))
                    })
                };
                let samples =
                    (0..settings.repetitions).map(|_| once()).collect::<Result<Vec<_>, _>>()?;
                let value = Summary::of(&samples).map(|summary| match is_time {
                    true => 1e3 * threads as f64 / summary.median,
                    false => summary.median * group as f64,
                });
                Ok(value)
            };
            let values =
                COLUMNS.into_iter().map(column).collect::<Result<Vec<_>, CheckFailed>>()?;
            figure.add(&[&threads, &group, &(group * 64)], values);
        }
    }
    figure.note(
        "A group accesses 8 bytes in each of its lines of 64 bytes, and begins at a random line. The \
         nanoseconds are those of a group: of reads that begin where the last group has read, and of \
         stores with a fence after each group. The paper measures Optane memory, writes each line back, \
         and sees factors of 4 to 7 at 16 lines; RAM has no blocks of 256 bytes.",
    );
    Ok(figure)
}
