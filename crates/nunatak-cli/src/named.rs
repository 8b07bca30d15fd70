//! The names of what can be chosen, and what it is: as the command line has them.

use clap::ValueEnum;

/// What can be chosen on the command line. (All of it is shown there.)
pub(crate) trait Named: ValueEnum {
    /// Its name, on the command line and in reports.
    fn name(&self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is, without a full stop.
    fn description(&self) -> String {
        let value = self.to_possible_value();
        let help = value.and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }
}

impl<T: ValueEnum> Named for T {}
