//! Figures 9 and 10 of DLHT: gets, and inserts with deletes, by the size of values and keys.

use super::measure::Mix;
use super::subjects::{Boxed, Inline, Peer, Records, Wide};
use super::turns::Turns;
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::targets::Hasher;
use crate::threads::CheckFailed;
use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::{Dlht, Iceberg};

const MIXES: [(&str, Mix); 3] =
    [("get", Mix::Get), ("get-access", Mix::Access), ("insdel", Mix::InsDel)];

fn figure(title: &str) -> Figure {
    let measures = MIXES.map(|(name, _)| [format!("{name} M/s"), format!("{name}/batch M/s")]);
    let measures = measures.concat();
    Figure::new(title, &["bytes", "map"], &measures.iter().map(|name| &**name).collect::<Vec<_>>())
}

fn measure(figure: &mut Figure, turns: Turns<'_>) -> Result<(), CheckFailed> {
    let mixes = MIXES.map(|(_, mix)| [(mix, false), (mix, true)]);
    turns.measure(figure, mixes.as_flattened())
}

fn inline(figure: &mut Figure, settings: &Settings) -> Result<(), CheckFailed> {
    let mut turns = Turns::new(settings);
    turns.add(&[&8, &"inline"], || <Inline>::with_capacity(settings.items))?;
    measure(figure, turns)
}

fn wide(figure: &mut Figure, settings: &Settings) -> Result<(), CheckFailed> {
    let mut turns = Turns::new(settings);
    turns.add(&[&16, &"wide"], || <Wide<Dlht>>::with_capacity(settings.items))?;
    turns.add(&[&16, &"wide-iceberg"], || <Wide<Iceberg>>::with_capacity(settings.items))?;
    measure(figure, turns)
}

/// Adds the maps of other libraries, with values of `bytes` bytes.
fn peers(turns: &mut Turns<'_>, items: u64, bytes: usize) -> Result<(), CheckFailed> {
    type Dashmap = Peer<u64, dashmap::DashMap<u64, Boxed, Hasher>>;
    type Papaya = Peer<u64, papaya::HashMap<u64, Boxed, Hasher>>;
    type Scc = Peer<u64, scc::HashMap<u64, Boxed, Hasher>>;
    turns.add(&[&bytes, &"dashmap"], || Dashmap::new(items, 8, bytes))?;
    turns.add(&[&bytes, &"papaya"], || Papaya::new(items, 8, bytes))?;
    turns.add(&[&bytes, &"scc"], || Scc::new(items, 8, bytes))
}

/// Measures maps of records whose sizes the compiler knows, and the peers if asked for.
macro_rules! of_sizes {
    ($figure:ident, $settings:ident, $(($key:literal, $value:literal, $bytes:expr, $peers:literal),)*) => {
        $(
            let mut turns = Turns::new($settings);
            turns.add(&[&$bytes, &"records"], || {
                Records::<Format<$key, $value>, $key>::new($settings.items, $value, Global)
            })?;
            if $peers {
                peers(&mut turns, $settings.items, $bytes)?;
            }
            measure(&mut $figure, turns)?;
        )*
    };
}

pub(crate) fn by_value(settings: &Settings) -> Result<Figure, CheckFailed> {
    let mut figure = figure("By the size of values, with keys of 8 bytes (DLHT, figure 9)");
    inline(&mut figure, settings)?;
    wide(&mut figure, settings)?;
    of_sizes!(
        figure,
        settings,
        (8, 16, 16, false),
        (8, 32, 32, true),
        (8, 64, 64, false),
        (8, 128, 128, false),
        (8, 256, 256, true),
        (8, 512, 512, false),
        (8, 1024, 1024, false),
        (8, 1500, 1500, false),
    );
    figure.note("Values of 8 bytes are in the slots, and those of the wide maps; the peers' values are boxed byte strings.");
    Ok(figure)
}

pub(crate) fn by_key(settings: &Settings) -> Result<Figure, CheckFailed> {
    let mut figure = figure("By the size of keys, with values of 8 bytes (DLHT, figure 10)");
    inline(&mut figure, settings)?;
    of_sizes!(
        figure,
        settings,
        (8, 8, 8, false),
        (16, 8, 16, false),
        (32, 8, 32, false),
        (64, 8, 64, false),
        (128, 8, 128, false),
        (256, 8, 256, false),
    );
    figure.note("Keys of more than 8 bytes are with the value; the slot has a hash of them.");
    Ok(figure)
}
