//! A process for each check, and an end for checks that hang.

use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Set in a process that was started to run one check.
const CHILD: &str = "NUNATAK_HOSTILE_CHILD";

static STEPS: AtomicU64 = AtomicU64::new(0);
static LAST_STEP: Mutex<String> = Mutex::new(String::new());

/// Names the step that begins. The report of a hang contains it.
///
/// ```
/// nunatak_harness::hostile::watch::step(|| "the map grows".into());
/// ```
pub fn step(name: impl FnOnce() -> String) {
    *LAST_STEP.lock().unwrap_or_else(PoisonError::into_inner) = name();
    tick();
}

/// Reports progress of the check.
///
/// ```
/// nunatak_harness::hostile::watch::tick();
/// ```
pub fn tick() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Returns how long a check may make no progress: 60 s, or the environment variable
/// `NUNATAK_PATIENCE` in seconds.
fn patience() -> Duration {
    let asked = std::env::var("NUNATAK_PATIENCE").ok();
    let seconds = asked.map(|seconds| seconds.parse().expect("NUNATAK_PATIENCE is in seconds"));
    Duration::from_secs(seconds.unwrap_or(60))
}

/// Runs `check` in a thread, and waits while it makes progress.
///
/// ```
/// nunatak_harness::hostile::watch::watched(|| assert_eq!(1 + 1, 2));
/// ```
///
/// # Panics
/// If the check panics or makes no progress. In the second case all its threads are left running.
pub fn watched(check: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel::<()>();
    let running = thread::Builder::new().name("check".into()).spawn(move || {
        // Dropped at the end, also by a panic.
        let _ended = ended;
        check();
    });
    let running = running.expect("a thread");
    let (mut steps, mut since) = (STEPS.load(Ordering::Relaxed), Instant::now());
    while end.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
        let now = STEPS.load(Ordering::Relaxed);
        if now != steps {
            (steps, since) = (now, Instant::now());
        }
        let last = || LAST_STEP.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(
            since.elapsed() < patience(),
            "no progress for {:?} after {steps} steps; the last one: {}",
            since.elapsed(),
            last()
        );
    }
    if let Err(panic) = running.join() {
        resume_unwind(panic);
    }
}

/// Runs `check` in a process of its own, which runs the test of this name in the present program. A
/// crash of that process becomes a panic of this one.
///
/// # Panics
/// If the check fails, crashes, or makes no progress.
pub fn isolated(test: &str, check: fn()) {
    if cfg!(miri) || std::env::var_os(CHILD).is_some() {
        return watched(check);
    }
    // Without the name of the program's crate.
    let (_, test) = test.split_once("::").expect("a path");
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("a process");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = stderr.lines().collect();
    let tail = lines[lines.len().saturating_sub(40)..].join("\n");
    assert!(output.status.success(), "{test} ended with {}:\n{tail}", output.status);
    assert!(stdout.contains("1 passed"), "{test} is not the name of a test:\n{stdout}");
}

/// Makes a test in a process of its own for each line `name => expression`.
///
/// ```
/// nunatak_harness::hostile_tests! {
///     nothing_happens => drop(());
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! hostile_tests {
    ($($name:ident => $check:expr;)*) => {$(
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            $crate::hostile::watch::isolated(name, || $check);
        }
    )*};
}
