//! Figure 14 of DLHT: the costs of features, one at a time and stacked.

use super::measure::Mix;
use super::subjects::Records;
use super::turns::Turns;
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::alloc::{Arena, Global};
use nunatak::entry::{Format, Named, VARIABLE};
use nunatak::{Modulo, RandomState};

/// The length of every value.
const BYTES: usize = 32;

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "The cost of features, with values of 32 bytes (DLHT, figure 14)";
    let measures = ["get/batch M/s", "get M/s", "insdel/batch M/s", "insdel M/s"];
    let mut figure = Figure::new(title, &["how", "feature"], &measures);
    let mut turns = Turns::new(settings);
    let arena = || Arena::new().expect("addresses");
    macro_rules! row {
        ($how:literal, $feature:literal, $format:ty, $hash:ty, $allocator:expr) => {
            turns.add(&[&$how, &$feature], || {
                Records::<$format, 8, _, $hash>::new(settings.items, BYTES, $allocator)
            })?;
        };
    }
    turns.add(&[&"", &"no growth"], || {
        Records::<Format<8, BYTES>, 8, _, Modulo>::fixed(settings.items, BYTES, arena())
    })?;
    row!("", "default", Format<8, BYTES>, Modulo, arena());
    row!("single", "hashing", Format<8, BYTES>, RandomState, arena());
    row!("single", "variable values", Format<8, VARIABLE>, Modulo, arena());
    row!("single", "variable keys", Format<VARIABLE, BYTES>, Modulo, arena());
    row!("single", "namespaces", Format<8, BYTES, Named>, Modulo, arena());
    row!("single", "system's allocator", Format<8, BYTES>, Modulo, Global);
    row!("stacked", "+ hashing", Format<8, BYTES>, RandomState, arena());
    row!("stacked", "+ variable values", Format<8, VARIABLE>, RandomState, arena());
    row!("stacked", "+ variable keys", Format<VARIABLE, VARIABLE>, RandomState, arena());
    row!("stacked", "+ namespaces", Format<VARIABLE, VARIABLE, Named>, RandomState, arena());
    row!("stacked", "+ system's allocator", Format<VARIABLE, VARIABLE, Named>, RandomState, Global);
    let mixes = [Mix::Get, Mix::InsDel].map(|mix| [(mix, true), (mix, false)]);
    turns.measure(&mut figure, mixes.as_flattened())?;
    figure.note(
        "The default hashes by modulo, and keeps records in an arena of huge pages, where the \
         paper has mimalloc. The paper's default does not grow (`no growth`), ours does.",
    );
    Ok(figure)
}
