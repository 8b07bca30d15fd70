//! Measurements in processes of their own. Such a process does not count memory that an earlier map
//! left to the allocator.

use crate::experiments::{blobs, duplicates};
use crate::threads::CheckFailed;
use crate::workloads::space;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// The subcommand of a process that measures.
pub(crate) const SUBCOMMAND: &str = "measure";

/// The request to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    Space(space::Request),
    Blobs(blobs::Request),
    Duplicates(duplicates::Request),
}

impl Request {
    /// Measures in a new process.
    pub(crate) fn in_new_process<A: DeserializeOwned>(&self) -> Result<A, CheckFailed> {
        let failed = |error: &dyn std::fmt::Display| CheckFailed(format!("not measured: {error}"));
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let request = serde_json::to_string(self).map_err(|error| failed(&error))?;
        let output = Command::new(program).args([SUBCOMMAND, &request]).output();
        let output = output.map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }

    /// Measures in this process, which must have measured nothing before, and returns the answer as
    /// JSON.
    pub(crate) fn in_this_process(&self) -> Result<String, CheckFailed> {
        let answer = match self {
            Self::Space(request) => serde_json::to_string(&space::measure(request)?),
            Self::Blobs(request) => serde_json::to_string(&blobs::measure(request)?),
            Self::Duplicates(request) => serde_json::to_string(&duplicates::measure(request)?),
        };
        answer.map_err(|error| CheckFailed(error.to_string()))
    }
}

impl std::str::FromStr for Request {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(json)
    }
}
