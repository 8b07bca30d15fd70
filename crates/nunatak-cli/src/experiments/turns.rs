//! Maps that are compared. They are filled one after the other, then measured in turn, so that
//! other load on the machine affects all of them.

use super::measure::{Mix, Plan};
use super::subjects::{Subject, filled};
use crate::experiment::figure::Figure;
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::CheckFailed;

/// A map, with the parameters of its row.
struct Turn {
    at: Vec<String>,
    has_batches: bool,
    measure: Box<dyn Fn(Plan, Mix) -> Result<f64, CheckFailed>>,
}

/// The maps of one comparison.
pub(crate) struct Turns<'s> {
    settings: &'s Settings,
    maps: Vec<Turn>,
}

impl<'s> Turns<'s> {
    pub(crate) fn new(settings: &'s Settings) -> Self {
        Self { settings, maps: Vec::new() }
    }

    /// Fills a map and adds it.
    pub(crate) fn add<S: Subject + 'static>(
        &mut self,
        at: &[&dyn ToString],
        make: impl FnOnce() -> S,
    ) -> Result<(), CheckFailed> {
        let plan = Plan::of(self.settings);
        let subject = filled(plan.items, plan.keys(), make)?;
        self.maps.push(Turn {
            at: at.iter().map(|at| at.to_string()).collect(),
            has_batches: S::BATCHED,
            measure: Box::new(move |plan, mix| plan.measure(&subject, mix)),
        });
        Ok(())
    }

    /// Adds a row of medians for each map. A mix with `true` is measured in batches.
    pub(crate) fn measure(
        self,
        figure: &mut Figure,
        mixes: &[(Mix, bool)],
    ) -> Result<(), CheckFailed> {
        let mut rates = vec![vec![Vec::new(); mixes.len()]; self.maps.len()];
        for _ in 0..self.settings.repetitions.max(1) {
            for (number, &(mix, is_batched)) in mixes.iter().enumerate() {
                let plan = Plan::of(self.settings);
                let plan = plan.batched(is_batched.then_some(self.settings.batch));
                for (map, rates) in self.maps.iter().zip(&mut rates) {
                    if map.has_batches || !is_batched {
                        rates[number].push((map.measure)(plan, mix)?);
                    }
                }
            }
        }
        for (map, rates) in self.maps.iter().zip(rates) {
            let at: Vec<&dyn ToString> = map.at.iter().map(|at| at as _).collect();
            let median = |rates: &Vec<f64>| Summary::of(rates).map(|summary| summary.median);
            figure.add(&at, rates.iter().map(median).collect());
        }
        Ok(())
    }
}
