//! Switches seeded bugs on, one after the other.

use nunatak::seeded::{Bug, seed};
use std::panic::catch_unwind;

/// Runs the check of each bug without the bug, when it must pass, and with it, when it must fail or
/// panic.
pub(crate) fn each_is_found(checks: &[(Bug, fn() -> bool)]) {
    let passes = |check: fn() -> bool| catch_unwind(check).unwrap_or(false);
    for &(bug, check) in checks {
        assert!(passes(check), "the check for {bug:?} fails without it");
        seed(Some(bug));
        let passed = passes(check);
        seed(None);
        assert!(!passed, "{bug:?} is not found");
    }
}
