//! The measurements that a process makes alone, by the [request](crate::process::Request) of another.

#[cfg(all(durable, feature = "experiments"))]
use crate::experiments::after_kill;
#[cfg(feature = "experiments")]
use crate::experiments::{blobs, duplicates, strings};
use crate::threads::CheckFailed;
use crate::workloads::space;
use serde::Deserialize;

/// A measurement. The names are the kinds of the requests.
#[derive(Debug, Clone, Deserialize)]
pub(crate) enum Measurement {
    Space(space::Request),
    #[cfg(feature = "experiments")]
    Blobs(strings::Request),
    #[cfg(feature = "experiments")]
    Duplicates(duplicates::Request),
    #[cfg(all(durable, feature = "experiments"))]
    Fill(after_kill::Fill),
    #[cfg(all(durable, feature = "experiments"))]
    Open(after_kill::Open),
}

impl Measurement {
    /// Measures in this process, which must have measured nothing before, and returns the answer as
    /// JSON.
    pub(crate) fn in_this_process(&self) -> Result<String, CheckFailed> {
        let answer = match self {
            Self::Space(request) => serde_json::to_string(&space::measure(request)?),
            #[cfg(feature = "experiments")]
            Self::Blobs(request) => serde_json::to_string(&blobs::measure(request)?),
            #[cfg(feature = "experiments")]
            Self::Duplicates(request) => serde_json::to_string(&duplicates::measure(request)?),
            #[cfg(all(durable, feature = "experiments"))]
            Self::Fill(request) => serde_json::to_string(&after_kill::fill(request)?),
            #[cfg(all(durable, feature = "experiments"))]
            Self::Open(request) => serde_json::to_string(&after_kill::open(request)?),
        };
        answer.map_err(|error| CheckFailed(error.to_string()))
    }
}

impl std::str::FromStr for Measurement {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(json)
    }
}
