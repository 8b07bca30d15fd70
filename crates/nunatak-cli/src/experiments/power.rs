//! Figure 4 of DLHT: gets for each joule, on machines that count their energy.

use super::measure::{Mix, Plan};
use super::subjects::{Inline, filled};
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use std::path::PathBuf;
use std::time::Instant;

/// Where Linux reports the energy that processor packages have used.
const COUNTERS: &str = "/sys/class/powercap";

/// Energy counters of whole packages, with the ranges at which they wrap.
struct Energy {
    packages: Vec<(PathBuf, u64)>,
}

impl Energy {
    fn counters() -> Self {
        let read = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let entries = std::fs::read_dir(COUNTERS).into_iter().flatten().flatten();
        // Names of packages contain one number (`intel-rapl:0`), those of their parts two.
        let packages = entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().matches(':').count() == 1)
        });
        let packages = packages.filter_map(|path| {
            read(path.join("energy_uj"))?;
            Some((path.join("energy_uj"), read(path.join("max_energy_range_uj"))?))
        });
        Self { packages: packages.collect() }
    }

    /// Returns the present value of every counter, in microjoules.
    fn now(&self) -> Vec<u64> {
        let read = |path: &PathBuf| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        self.packages.iter().map(|(path, _)| read(path).unwrap_or(0)).collect()
    }

    /// Returns the joules used since `before`.
    fn joules_since(&self, before: &[u64]) -> f64 {
        let used = self.packages.iter().zip(self.now()).zip(before);
        let microjoules = used.map(|(((_, range), now), &before)| {
            now.checked_sub(before).unwrap_or(now + range - before)
        });
        microjoules.sum::<u64>() as f64 / 1e6
    }
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Gets for the energy that they take (DLHT, figure 4)";
    let measures = ["M/s", "watts", "M/s a watt", "no batch M/s", "watts", "M/s a watt"];
    let mut figure = Figure::new(title, &["threads"], &measures);
    let energy = Energy::counters();
    let is_known = !energy.packages.is_empty();
    let plan = Plan::of(settings);
    let map = filled(plan.items, plan.keys(), || <Inline>::with_capacity(settings.items))?;
    for &threads in &settings.threads {
        let mut values = Vec::new();
        for batch in [Some(settings.batch), None] {
            let plan = Plan { threads, ..plan }.batched(batch);
            let (before, start) = (energy.now(), Instant::now());
            let rate = plan.measure(&map, Mix::Get)?;
            let watts = energy.joules_since(&before) / start.elapsed().as_secs_f64();
            let watts = is_known.then_some(watts);
            values.extend([Some(rate), watts, watts.map(|watts| rate / watts)]);
        }
        figure.add(&[&threads], values);
    }
    if !is_known {
        figure.note(format!(
            "This machine tells nobody here of its energy: there is no counter in {COUNTERS} that \
             can be read (a virtual machine has none; others may need privileges)."
        ));
    }
    Ok(figure)
}
