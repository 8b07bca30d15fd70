//! The switch of the mutants. The tool copies this file into the crate that it changes.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const RECORDS: u32 = u32::MAX - 1;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
/// A byte for each mutant, in a file.
static REACHED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// Whether this mutant is on.
#[inline(always)]
pub(crate) fn is(mutant: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    if active >= RECORDS { asked(mutant) } else { active == mutant }
}

/// Reads the environment at the first call. Records the mutant if the environment asks for it.
#[cold]
#[inline(never)]
fn asked(mutant: u32) -> bool {
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let active = std::env::var("NUNATAK_MUTANT").map_or(0, |text| text.parse().unwrap());
        match std::env::var_os("NUNATAK_MUTANTS_REACHED").and_then(map) {
            Some(bytes) => {
                REACHED.store(bytes, Relaxed);
                ACTIVE.store(RECORDS, Relaxed);
            }
            None => ACTIVE.store(active, Relaxed),
        }
    }
    let bytes = REACHED.load(Relaxed);
    if bytes.is_null() {
        return ACTIVE.load(Relaxed) == mutant;
    }
    // SAFETY: the file has a byte for each mutant, and is mapped for as long as the process lives.
    unsafe { bytes.add(mutant as usize).write_volatile(1) };
    false
}

/// Maps the file, so that its bytes outlive a process that is killed.
fn map(path: std::ffi::OsString) -> Option<*mut u8> {
    use std::os::fd::AsRawFd;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).ok()?;
    let length = file.metadata().ok()?.len() as usize;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of an open file.
    let bytes = unsafe {
        libc::mmap(core::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    (bytes != libc::MAP_FAILED).then_some(bytes.cast())
}
