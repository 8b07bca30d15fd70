//! Figure 17 of DLHT: a lock manager, which locks records by inserting them into a set and unlocks
//! them by deleting them.

use super::figure::Figure;
use super::measure::{Mix, Plan};
use super::subjects::{Set, filled};
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::DlhtSet;

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Locks and unlocks of records in a set (DLHT, figure 17)";
    let measures = ["batch M/s", "no batch M/s", "contended/batch M/s", "contended M/s"];
    let mut figure = Figure::new(title, &["threads"], &measures);
    let plan = Plan::of(settings);
    // The locks that other transactions hold.
    let set =
        filled(plan.items, plan.keys(), || Set(DlhtSet::with_capacity(settings.items as usize)))?;
    for &threads in &settings.threads {
        let mut values = Vec::new();
        for hot in [None, Some(100)] {
            for batch in [Some(settings.batch), None] {
                let plan = Plan { threads, hot, ..plan }.batched(batch);
                values.push(Some(plan.median(&set, Mix::InsDel, settings.repetitions)?));
            }
        }
        figure.add(&[&threads], values);
    }
    figure.note("Contended: all threads lock the same 1000 records, and may be refused.");
    Ok(figure)
}
