//! Measurements in processes of their own. Such a process does not count memory that an earlier map
//! left to the allocator.

use crate::medium::Medium;
use crate::threads::CheckFailed;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::process::Command;

/// The subcommand of a process that measures.
pub(crate) const SUBCOMMAND: &str = "measure";

/// A request to a process.
pub(crate) trait Request: Serialize {
    /// The name of its kind, by which the process finds the [measurement](crate::measurement).
    const KIND: &str;
    type Answer: DeserializeOwned;

    /// Returns the command that measures in a new process.
    fn command(&self) -> Result<Command, CheckFailed> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let request = BTreeMap::from([(Self::KIND, self)]);
        let request = serde_json::to_string(&request).map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        command.args([SUBCOMMAND, &request, "--medium", &Medium::used().to_argument()]);
        Ok(command)
    }

    /// Measures in a new process.
    fn in_new_process(&self) -> Result<Self::Answer, CheckFailed> {
        let output = self.command()?.output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }
}

fn failed(error: &dyn std::fmt::Display) -> CheckFailed {
    CheckFailed(format!("not measured: {error}"))
}
