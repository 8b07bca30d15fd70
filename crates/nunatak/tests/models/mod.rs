//! How models run under loom: each has a name, and is a property of a few operations of two
//! threads.

#[path = "../effort/mod.rs"]
mod effort;

use effort::effort;
use loom::thread;
use std::sync::{Arc, PoisonError, RwLock};

/// A step is left out in the whole process, so no other test runs meanwhile.
static LEFT_OUT: RwLock<()> = RwLock::new(());

/// Whether `NUNATAK_EFFORT` is below 1 and no step is left out: with one preemption less, a model would miss some
/// of these steps.
static IS_SHORT: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

pub(crate) type Model = (&'static str, fn());

/// Runs a model on every interleaving with at most so many preemptions.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    // Not the checker's atomic: it counts across executions.
    static EXECUTIONS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
    EXECUTIONS.store(0, core::sync::atomic::Ordering::Relaxed);
    builder.check(move || {
        EXECUTIONS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        model();
    });
    let executions = EXECUTIONS.load(core::sync::atomic::Ordering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 1, "nothing was explored");
}

/// Runs a model of ten thousands of executions: with one preemption less while the models are short.
#[allow(dead_code, reason = "few tables have such models")]
pub(crate) fn check_at_length(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let is_short = IS_SHORT.load(core::sync::atomic::Ordering::Relaxed);
    check(preemptions - usize::from(is_short && preemptions > 1), model);
}

pub(crate) fn spawn<M: 'static, T: 'static>(
    map: &Arc<M>,
    operation: impl FnOnce(&M) -> T + 'static,
) -> thread::JoinHandle<T> {
    let map = Arc::clone(map);
    thread::spawn(move || operation(&map))
}

pub(crate) fn every_property_holds(models: &[Model]) {
    let _nothing = LEFT_OUT.read().unwrap_or_else(PoisonError::into_inner);
    IS_SHORT.store(effort() < 1.0, core::sync::atomic::Ordering::Relaxed);
    for (name, model) in models {
        let start = std::time::Instant::now();
        model();
        println!("{name}: {:?}", start.elapsed());
    }
}

/// Whether the model of this name fails for each step that is left out.
#[cfg(nunatak_seeded_bugs)]
pub(crate) fn every_seeded_bug_is_found(bugs: &[(nunatak::seeded::Bug, &str)], models: &[Model]) {
    use nunatak::seeded::seed;
    let _something = LEFT_OUT.write().unwrap_or_else(PoisonError::into_inner);
    IS_SHORT.store(false, core::sync::atomic::Ordering::Relaxed);
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for &(bug, finder) in bugs {
        let model = models.iter().find(|(name, _)| *name == finder);
        seed(Some(bug));
        // A task that the checker drops while it unwinds leaves its thread panicking, where no hook
        // may be set.
        let is_found = model.is_some_and(|&(_, model)| std::thread::spawn(model).join().is_err());
        seed(None);
        if is_found {
            println!("{bug:?}: {finder}");
        } else {
            missed.push((bug, finder));
        }
    }
    std::panic::set_hook(silent);
    assert!(missed.is_empty(), "these models don't find {missed:?}");
}
