//! How many addresses a table or an arena may reserve.

use core::sync::atomic::Ordering::Relaxed;

/// The addresses that tables of this process have reserved.
#[derive(Debug)]
pub(crate) struct Addresses {
    bytes: u64,
}

impl Addresses {
    /// Half of the addresses that processors give a process.
    const ALL: u64 = 1 << 46;

    /// Returns how many bytes of addresses a new table may reserve: more than the machine has
    /// memory, but a small part of what is left, so that thousands of tables find some.
    pub(crate) fn share() -> u64 {
        if cfg!(modelled) {
            return 1 << 11;
        }
        // Miri allocates reserved memory, and goes through all of it when it is freed: room for a
        // few thousand entries.
        if cfg!(miri) {
            return 1 << 20;
        }
        // Without reservations memory is allocated at once, so a table grows to a fixed size.
        if cfg!(not(unix)) {
            return 256 << 20;
        }
        let reserved = RESERVED.load(Relaxed);
        let left = Self::ALL.saturating_sub(reserved);
        // A table with all its parts takes a few shares.
        let left_of_limit = limit().saturating_sub(reserved) / 8;
        (left / 64).min(2 * physical_memory()).min(left_of_limit.max(LEAST))
    }

    /// Returns for how many elements a part that may have so many reserves addresses: no more than
    /// a share holds.
    pub(crate) fn at_most<T>(elements: usize) -> usize {
        // The words of models are larger than those that they stand for.
        if cfg!(modelled) {
            elements
        } else {
            elements.min(Self::share() as usize / size_of::<T>())
        }
    }

    pub(crate) fn count(bytes: u64) -> Self {
        RESERVED.fetch_add(bytes, Relaxed);
        Self { bytes }
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.bytes, Relaxed);
    }
}

static RESERVED: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// The smallest share, if the system lets the process have even that.
const LEAST: u64 = 1 << 20;

/// Returns how many addresses the system lets this process have.
fn limit() -> u64 {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: the call writes to the structure. If it fails, nothing is written.
        let _ = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
        if limit.rlim_cur != libc::RLIM_INFINITY {
            return limit.rlim_cur;
        }
    }
    u64::MAX
}

fn physical_memory() -> u64 {
    #[cfg(unix)]
    // SAFETY: the call only reads a constant of the system.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    #[cfg(not(unix))]
    let pages = 0;
    // The system does not tell: as much as a large machine has.
    u64::try_from(pages).ok().filter(|&pages| pages > 0).unwrap_or(1 << 26) * 4096
}
