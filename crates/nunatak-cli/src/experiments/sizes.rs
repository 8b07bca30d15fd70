//! Figures 9 and 10 of DLHT: gets, and inserts with deletes, by the size of values and keys.

use super::figure::Figure;
use super::measure::{Mix, Plan};
use super::subjects::{BoxedDashmap, BoxedPapaya, BoxedScc, Inline, Records, Subject, filled};
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::alloc::Global;
use nunatak::entry::Format;

const MIXES: [(&str, Mix); 3] =
    [("get", Mix::Get), ("get-access", Mix::Access), ("insdel", Mix::InsDel)];

fn figure(title: &str) -> Figure {
    let measures = MIXES.map(|(name, _)| [format!("{name} M/s"), format!("{name}/batch M/s")]);
    let measures = measures.concat();
    Figure::new(title, &["bytes", "map"], &measures.iter().map(|name| &**name).collect::<Vec<_>>())
}

/// Measures all mixes on a map, in batches too if it has them.
fn measure<S: Subject>(
    figure: &mut Figure,
    settings: &Settings,
    (bytes, map): (usize, &str),
    has_batches: bool,
    make: impl FnOnce() -> S,
) -> Result<(), CheckFailed> {
    let plan = Plan::of(settings);
    let subject = filled(plan.items, plan.keys(), make)?;
    let mut values = Vec::new();
    for (_, mix) in MIXES {
        for batch in [None, Some(settings.batch)] {
            let plan = plan.batched(batch);
            let applies = batch.is_none() || has_batches;
            let rate = applies.then(|| plan.median(&subject, mix, settings.repetitions));
            values.push(rate.transpose()?);
        }
    }
    figure.add(&[&bytes, &map], values);
    Ok(())
}

/// Measures maps of records whose sizes the compiler knows.
macro_rules! of_sizes {
    ($figure:ident, $settings:ident, $(($key:literal, $value:literal, $bytes:expr),)*) => {
        $(
            measure(&mut $figure, $settings, ($bytes, "records"), true, || {
                Records::<Format<$key, $value>, $key>::new($settings.items, $value, Global)
            })?;
        )*
    };
}

pub(crate) fn by_value(settings: &Settings) -> Result<Figure, CheckFailed> {
    let mut figure = figure("By the size of values, with keys of 8 bytes (DLHT, figure 9)");
    let items = settings.items;
    measure(&mut figure, settings, (8, "inline"), true, || <Inline>::with_capacity(items))?;
    of_sizes!(
        figure,
        settings,
        (8, 16, 16),
        (8, 32, 32),
        (8, 64, 64),
        (8, 128, 128),
        (8, 256, 256),
        (8, 512, 512),
        (8, 1024, 1024),
        (8, 1500, 1500),
    );
    for bytes in [32, 256] {
        let at = |map| (bytes, map);
        measure(&mut figure, settings, at("dashmap"), false, || BoxedDashmap::new(items, bytes))?;
        measure(&mut figure, settings, at("papaya"), false, || BoxedPapaya::new(items, bytes))?;
        measure(&mut figure, settings, at("scc"), false, || BoxedScc::new(items, bytes))?;
    }
    figure.note("Values of 8 bytes are in the slots; the peers' values are boxed byte strings.");
    Ok(figure)
}

pub(crate) fn by_key(settings: &Settings) -> Result<Figure, CheckFailed> {
    let mut figure = figure("By the size of keys, with values of 8 bytes (DLHT, figure 10)");
    let items = settings.items;
    measure(&mut figure, settings, (8, "inline"), true, || <Inline>::with_capacity(items))?;
    of_sizes!(
        figure,
        settings,
        (8, 8, 8),
        (16, 8, 16),
        (32, 8, 32),
        (64, 8, 64),
        (128, 8, 128),
        (256, 8, 256),
    );
    figure.note("Keys of more than 8 bytes are with the value; the slot has a hash of them.");
    Ok(figure)
}
