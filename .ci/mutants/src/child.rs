//! Runs one test as a process. Its limit is processor time, so that a busy machine is no reason to
//! call a mutant killed.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A process that uses next to no processor time for so long waits for something that never comes.
const BLOCKED: Duration = Duration::from_secs(8);
const NEXT_TO_NONE: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Passed,
    Failed,
    /// It used more processor time than it may.
    Late,
    /// It used none for a while.
    Blocked,
}

/// Runs a command in a process group of its own, which ends with it. Returns how it ended, and the
/// processor time that it used.
pub fn run(command: &mut Command, limit: Duration) -> (End, Duration) {
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let id = loop {
        match command.spawn() {
            Ok(child) => break child.id() as i32,
            // A build is replacing the program.
            Err(_) => std::thread::sleep(Duration::from_secs(1)),
        }
    };
    let (mut status, mut used) = (0, empty_usage());
    let (mut time, mut moved, mut pause) = (Duration::ZERO, Instant::now(), 200);
    let mut when_moved = Duration::ZERO;
    loop {
        // SAFETY: the child of this process; both places are of this function.
        if unsafe { libc::wait4(id, &mut status, libc::WNOHANG, &mut used) } == id {
            break;
        }
        time = time.max(clock_of(id));
        if time > when_moved + NEXT_TO_NONE {
            (when_moved, moved) = (time, Instant::now());
        }
        if time > limit || moved.elapsed() > BLOCKED {
            // SAFETY: the group that was made for this child; the child is not waited for yet.
            unsafe {
                libc::kill(-id, libc::SIGKILL);
                libc::wait4(id, &mut status, 0, &mut used);
            }
            return (if time > limit { End::Late } else { End::Blocked }, time);
        }
        std::thread::sleep(Duration::from_micros(pause));
        pause = (pause + pause / 4).min(20_000);
    }
    // What the test may have left behind in its group.
    // SAFETY: the group has the number of this child. If nothing is left, there is no such group.
    unsafe { libc::kill(-id, libc::SIGKILL) };
    let of = |it: libc::timeval| Duration::new(it.tv_sec as u64, it.tv_usec as u32 * 1000);
    let end = if status == 0 { End::Passed } else { End::Failed };
    (end, of(used.ru_utime) + of(used.ru_stime))
}

fn empty_usage() -> libc::rusage {
    // SAFETY: a struct of numbers.
    unsafe { std::mem::zeroed() }
}

/// Returns the processor time of all threads of a process.
fn clock_of(id: i32) -> Duration {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both places are of this function. A process that has ended leaves them as they are.
    unsafe {
        if libc::clock_getcpuclockid(id, &mut clock) == 0 {
            libc::clock_gettime(clock, &mut time);
        }
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
