//! Names and descriptions of workloads, experiments and maps, taken from the command line.

use clap::ValueEnum;

/// A type whose values are chosen on the command line.
pub(crate) trait Named: ValueEnum {
    /// Returns the name, as on the command line and in reports.
    fn name(&self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the help text, without a full stop.
    fn description(&self) -> String {
        let value = self.to_possible_value();
        let help = value.and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }
}

impl<T: ValueEnum> Named for T {}
