//! Section 5.1.5 of DLHT: how full the index is when it must grow.

use crate::experiment::figure::Figure;
use crate::keys::KeySpace;
use crate::settings::Settings;
use crate::threads::{CheckFailed, check};
use nunatak::DlhtMap;

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Share of all slots that are taken when the index grows (DLHT, section 5.1.5)";
    let measures = ["least %", "mean %", "most %", "growths"];
    let mut figure = Figure::new(title, &["bins a link"], &measures);
    let space = KeySpace::new(settings.seed, false);
    for link_ratio in [4, 5, 8, 16, 32] {
        let builder = DlhtMap::<u64, u64>::builder().link_ratio(link_ratio);
        let map: DlhtMap<u64, u64> =
            builder.build().map_err(|error| CheckFailed(error.to_string()))?;
        let (mut before, mut loads) = (0.0, Vec::new());
        for index in 0..settings.items {
            check(map.insert(space.key(index), index).is_none(), "a new key was there")?;
            if index.is_multiple_of(64) {
                // A drop of the load factor shows that a larger index was added. Small indexes do
                // not matter.
                let load = map.load_factor();
                if load < 0.8 * before && index > 4096 {
                    loads.push(100.0 * before);
                }
                before = load;
            }
        }
        let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
        let least = loads.iter().copied().reduce(f64::min);
        let most = loads.iter().copied().reduce(f64::max);
        let mean = (!loads.is_empty()).then_some(mean);
        figure.add(&[&link_ratio], vec![least, mean, most, Some(loads.len() as f64)]);
    }
    figure.note("Slots: three a bin, and four for every link. The paper: 61 to 72 % with 5.");
    Ok(figure)
}
