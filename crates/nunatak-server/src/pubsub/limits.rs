//! Limits of what may wait for a connection that gets messages.

use crate::config::bytes;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many bytes may wait for a connection that gets messages; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) hard: usize,
    pub(crate) soft: usize,
    /// How many seconds more than the soft limit may wait.
    pub(crate) soft_seconds: usize,
}

impl Limits {
    /// Those of Redis.
    pub(crate) const DEFAULT: Self = Self { hard: 32 << 20, soft: 8 << 20, soft_seconds: 60 };

    /// Reads the limits of `pubsub` from groups of a class, a hard limit, a soft limit and seconds. Other
    /// classes have no limits here: their clients are not read from while replies wait.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut limits = Self::DEFAULT;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        for group in words.chunks_exact(4) {
            let invalid =
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            let (Ok(hard), Ok(soft), Ok(soft_seconds)) =
                (bytes(group[1]), bytes(group[2]), group[3].parse())
            else {
                return Err(invalid.into());
            };
            let given = Self { hard, soft, soft_seconds };
            match group[0].to_ascii_lowercase().as_str() {
                "pubsub" => limits = given,
                "normal" if (hard, soft) == (0, 0) => {}
                "normal" => {
                    return Err(
                        "the class normal has no limits: no replies are made while many wait"
                            .into(),
                    );
                }
                // There are no replicas.
                "slave" | "replica" => {}
                _ => {
                    return Err(
                        "Invalid client class specified in buffer limit configuration.".into()
                    );
                }
            }
        }
        Ok(limits)
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hard, soft, soft_seconds } = self;
        write!(f, "normal 0 0 0 slave 0 0 0 pubsub {hard} {soft} {soft_seconds}")
    }
}

/// Limits that clients may change.
#[derive(Debug)]
pub(crate) struct AtomicLimits([AtomicUsize; 3]);

impl AtomicLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { hard, soft, soft_seconds } = limits;
        Self([hard, soft, soft_seconds].map(AtomicUsize::new))
    }

    pub(crate) fn load(&self) -> Limits {
        // Relaxed: who reads while they are changed may see some of both, for one message.
        let [hard, soft, soft_seconds] = [0, 1, 2].map(|at| self.0[at].load(Relaxed));
        Limits { hard, soft, soft_seconds }
    }

    pub(crate) fn store(&self, limits: Limits) {
        let Limits { hard, soft, soft_seconds } = limits;
        // Relaxed: see `load`.
        self.0
            .iter()
            .zip([hard, soft, soft_seconds])
            .for_each(|(it, value)| it.store(value, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limits = Limits::parse("normal 0 0 0 PubSub 1mb 2k 3").unwrap();
        assert_eq!(limits, Limits { hard: 1 << 20, soft: 2000, soft_seconds: 3 });
        assert_eq!(limits.to_string(), "normal 0 0 0 slave 0 0 0 pubsub 1048576 2000 3");
        assert_eq!(Limits::parse(&limits.to_string()), Ok(limits));
        assert_eq!(Limits::parse("replica 1 2 3"), Ok(Limits::DEFAULT));
        for text in ["", "pubsub 1 2", "foo 1 2 3", "pubsub x 1 1", "pubsub 1 1 -1", "normal 1 0 0"]
        {
            assert!(Limits::parse(text).is_err(), "{text}");
        }
        let shared = AtomicLimits::new(Limits::DEFAULT);
        shared.store(limits);
        assert_eq!(shared.load(), limits);
    }
}
