//! Forks of a test's process.

/// Runs a function in a fork, which must return true; calls `meanwhile` while the fork lives.
pub(crate) fn in_fork(run: impl FnOnce() -> bool, meanwhile: impl FnOnce()) {
    let (mut from_fork, to_parent) = std::io::pipe().unwrap();
    let (from_parent, to_fork) = std::io::pipe().unwrap();
    // SAFETY: the fork uses what this thread has and nothing that another thread may have locked,
    // but for the allocator, whose locks glibc makes whole. It ends without destructors.
    match unsafe { libc::fork() } {
        0 => {
            drop((from_fork, to_fork));
            let is_right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let _ = std::io::Write::write(&mut &to_parent, &[u8::from(is_right.unwrap_or(false))]);
            // Lives until the parent has ended its work.
            let _ = std::io::Read::read(&mut &from_parent, &mut [0]);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0);
            drop((to_parent, from_parent));
            let mut is_right = [0];
            std::io::Read::read_exact(&mut from_fork, &mut is_right).unwrap();
            assert_eq!(is_right, [1], "the fork has failed");
            meanwhile();
            drop(to_fork);
            // SAFETY: waits for the process that was made above.
            unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
        }
    }
}
