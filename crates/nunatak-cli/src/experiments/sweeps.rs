//! Figures 11 to 13 of DLHT: throughput by the size of the index, by the size of batches, and by
//! skew.

use super::measure::{Mix, Plan};
use super::subjects::{Inline, filled};
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::DlhtMap;

/// The columns of figures that measure each operation with batches and without.
const MEASURES: [&str; 4] = ["get/batch M/s", "get M/s", "insdel/batch M/s", "insdel M/s"];

fn measure(plan: Plan, settings: &Settings, map: &Inline) -> Result<Vec<Option<f64>>, CheckFailed> {
    let mut values = Vec::new();
    for mix in [Mix::Get, Mix::InsDel] {
        for batch in [Some(settings.batch), None] {
            values.push(Some(plan.batched(batch).median(map, mix, settings.repetitions)?));
        }
    }
    Ok(values)
}

pub(crate) fn by_index(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "By the size of the index, from one that fits a cache (DLHT, figure 11)";
    let mut figure = Figure::new(title, &["keys", "index MiB"], &MEASURES);
    let mut items = 8192.min(settings.items);
    loop {
        let plan = Plan { items, ..Plan::of(settings) };
        let map = filled(items, plan.keys(), || <Inline>::with_capacity(items))?;
        let mebibytes = format!("{:.1}", map.0.memory_usage().mapped as f64 / f64::from(1 << 20));
        figure.add(&[&items, &mebibytes], measure(plan, settings, &map)?);
        if items == settings.items {
            return Ok(figure);
        }
        items = (items * 8).min(settings.items);
    }
}

pub(crate) fn by_batch(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "By the number of operations in a batch (DLHT, figure 12)";
    let measures = ["get M/s", "insdel M/s", "get, no growth M/s", "insdel, no growth M/s"];
    let mut figure = Figure::new(title, &["batch"], &measures);
    let plan = Plan::of(settings);
    let map = filled(plan.items, plan.keys(), || <Inline>::with_capacity(settings.items))?;
    let fixed = DlhtMap::<u64, u64>::builder().capacity(settings.items as usize).grows(false);
    let fixed = fixed.build().map_err(|error| CheckFailed(error.to_string()))?;
    let fixed = filled(plan.items, plan.keys(), || Inline(fixed))?;
    let sizes = [1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 1024].map(Some);
    for batch in [None].into_iter().chain(sizes) {
        let plan = plan.batched(batch);
        let rate = |map: &Inline, mix| plan.median(map, mix, settings.repetitions).map(Some);
        let name = batch.map_or("none".to_owned(), |batch| batch.to_string());
        let rates = |map| Ok([rate(map, Mix::Get)?, rate(map, Mix::InsDel)?]);
        figure.add(&[&name], [rates(&map)?, rates(&fixed)?].concat());
    }
    figure.note(
        "The paper's index does not grow unless it was compiled so (Get-Resizing). A map here that was \
         built not to grow announces its operations as others do, since snapshots need that.",
    );
    Ok(figure)
}

pub(crate) fn by_skew(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "By the percentage of accesses that go to 1000 hot keys (DLHT, figure 13)";
    let mut figure = Figure::new(title, &["threads", "% hot"], &MEASURES);
    let plan = Plan::of(settings);
    let map = filled(plan.items, plan.keys(), || <Inline>::with_capacity(settings.items))?;
    for &threads in &settings.threads {
        for hot in [0, 20, 40, 60, 80, 90, 100] {
            let plan = Plan { threads, hot: Some(hot), ..plan };
            figure.add(&[&threads, &hot], measure(plan, settings, &map)?);
        }
    }
    Ok(figure)
}
