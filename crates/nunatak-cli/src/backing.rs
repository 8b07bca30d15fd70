//! Backs free memory with the hypervisor's memory before a measurement.
//!
//! The hypervisor under a virtual machine may take free pages back and return them at their next
//! use. This took ten to fifty times as long as the guest's own page fault: 1.4 s for a GiB instead
//! of 0.05 s. A map that grows would then measure the hypervisor. So before a map is filled, this
//! module touches as much memory as the map may need and frees it: the pages that the system hands
//! out next are backed.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::null_mut;

/// How many bytes a map may touch for an item while it grows: two generations of a table at its
/// emptiest.
const BYTES_PER_ITEM: u64 = 128;
const PAGE: usize = 4096;

/// Backs free memory for `items` items, up to a quarter of the available memory.
pub(crate) fn back_free_memory(items: u64) {
    let wanted = items.saturating_mul(BYTES_PER_ITEM);
    let bytes = wanted.min(available().unwrap_or(0) / 4) as usize;
    if bytes == 0 {
        return;
    }
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, at an address that the system chooses.
    let Ok(base) = (unsafe { mmap_anonymous(null_mut(), bytes, protection, flags) }) else {
        return;
    };
    #[cfg(target_os = "linux")]
    // SAFETY: the range is mapped, and the advice changes no content.
    let _ = unsafe { rustix::mm::madvise(base, bytes, rustix::mm::Advice::LinuxHugepage) };
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the page is in the mapping, which no other code uses.
        unsafe { base.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: `base` and `bytes` are those of the mapping made above.
    let _ = unsafe { munmap(base, bytes) };
}

/// Waits until the disk has all stores of earlier maps. Otherwise the system writes them during the
/// next measurement, and stores of that map wait.
pub(crate) fn quiet_disk() {
    #[cfg(unix)]
    rustix::fs::sync();
}

/// Returns how many bytes the system says are available.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_available_and_survives_being_backed() {
        let before = available().unwrap_or(0);
        back_free_memory(1 << 16);
        let after = available().unwrap_or(0);
        assert!(after >= before / 2, "{before} bytes before, {after} after");
    }
}
