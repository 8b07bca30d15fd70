//! What a user writes: levels of durability, and latencies.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What an operation on a map in a file survives when it returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Level {
    /// The process.
    #[default]
    Process,
    /// The process; a power cut after such a time.
    Interval(Duration),
    /// A power cut: it returns after a sync.
    Synced,
    /// A power cut: it writes its lines back.
    PersistentMemory,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "process" => Ok(Self::Process),
            "synced" => Ok(Self::Synced),
            "persistent-memory" => Ok(Self::PersistentMemory),
            other => match other.strip_prefix("interval:").map(str::parse) {
                Some(Ok(ms)) if ms > 0 => Ok(Self::Interval(Duration::from_millis(ms))),
                Some(_) => Err("the interval is a number of milliseconds, at least 1".to_owned()),
                None => Err("must be process, interval:MS, synced or persistent-memory".to_owned()),
            },
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Interval(time) => write!(f, "interval:{}", time.as_millis()),
            Self::Synced => f.write_str("synced"),
            Self::PersistentMemory => f.write_str("persistent-memory"),
        }
    }
}

/// The latencies of memory that is emulated, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeviceLatency {
    /// Until the first line of an operation arrives.
    pub(crate) read: f64,
    /// How much longer a line takes that is written back.
    pub(crate) write: f64,
}

impl DeviceLatency {
    /// Says in words what waits.
    pub(crate) fn said(&self) -> String {
        format!(
            "the first line of a single operation arrives {} ns after it was asked for, lines beside \
             it wait for nothing, and a line that is written back takes {} ns longer",
            self.read, self.write
        )
    }
}

impl FromStr for DeviceLatency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (read, write) = text.split_once(',').unwrap_or((text, "0"));
        let nanoseconds = |text: &str| match text.trim().parse() {
            Ok(number) if (0.0..=1e9).contains(&number) => Ok(number),
            _ => Err(format!("`{text}` is no number of nanoseconds from 0 to a second")),
        };
        Ok(Self { read: nanoseconds(read)?, write: nanoseconds(write)? })
    }
}

impl fmt::Display for DeviceLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.read, self.write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_latencies_are_read() {
        for text in ["process", "interval:100", "synced", "persistent-memory"] {
            assert_eq!(text.parse::<Level>().map(|level| level.to_string()).as_deref(), Ok(text));
        }
        assert!(
            ["", "interval", "interval:0", "interval:x"]
                .iter()
                .all(|t| Level::from_str(t).is_err())
        );
        assert_eq!("305, 94".parse(), Ok(DeviceLatency { read: 305.0, write: 94.0 }));
        assert_eq!("150".parse(), Ok(DeviceLatency { read: 150.0, write: 0.0 }));
        for wrong in ["", "-1", "1,", "NaN", "1,2,3", "2e9"] {
            assert!(wrong.parse::<DeviceLatency>().is_err(), "{wrong}");
        }
    }
}
