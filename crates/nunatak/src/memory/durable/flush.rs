//! Writing cache lines back to persistent memory.

use core::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The instruction with which the processor writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Instruction {
    Unknown = 0,
    /// CLWB: keeps the line in the cache.
    #[cfg(target_arch = "x86_64")]
    Clwb,
    /// CLFLUSHOPT: drops the line, which is fetched again when it is used next.
    #[cfg(target_arch = "x86_64")]
    Clflushopt,
    /// CLFLUSH: drops the line, and waits for other CLFLUSHes.
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// DC CVAP: to the point of persistence.
    #[cfg(target_arch = "aarch64")]
    Cvap,
    /// DC CVAC: to the point of coherency; older processors have no more.
    #[cfg(target_arch = "aarch64")]
    Cvac,
}

const LINE: usize = 64;

static INSTRUCTION: AtomicU8 = AtomicU8::new(0);

#[inline(always)]
fn instruction() -> Instruction {
    // Relaxed: every thread finds the same instruction.
    let known = INSTRUCTION.load(Ordering::Relaxed);
    if known == 0 {
        return detect();
    }
    from_number(known)
}

#[cfg(target_arch = "x86_64")]
fn from_number(number: u8) -> Instruction {
    match number {
        1 => Instruction::Clwb,
        2 => Instruction::Clflushopt,
        3 => Instruction::Clflush,
        _ => Instruction::Unknown,
    }
}

#[cfg(target_arch = "aarch64")]
fn from_number(number: u8) -> Instruction {
    match number {
        1 => Instruction::Cvap,
        2 => Instruction::Cvac,
        _ => Instruction::Unknown,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn from_number(_number: u8) -> Instruction {
    Instruction::Unknown
}

#[cold]
fn detect() -> Instruction {
    #[cfg(target_arch = "x86_64")]
    let found = {
        #[allow(unused_unsafe, reason = "newer compilers know that these are safe")]
        // SAFETY: every processor of 64 bits has the instruction.
        let features = unsafe {
            let has_leaf = core::arch::x86_64::__cpuid(0).eax >= 7;
            if has_leaf { core::arch::x86_64::__cpuid_count(7, 0).ebx } else { 0 }
        };
        if features >> 24 & 1 != 0 {
            Instruction::Clwb
        } else if features >> 23 & 1 != 0 {
            Instruction::Clflushopt
        } else {
            Instruction::Clflush
        }
    };
    #[cfg(target_arch = "aarch64")]
    let found = {
        // The bit of DC CVAP in the first word of capabilities.
        // SAFETY: only asks the system's loader.
        let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
        if capabilities >> 16 & 1 != 0 { Instruction::Cvap } else { Instruction::Cvac }
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found = Instruction::Unknown;
    INSTRUCTION.store(found as u8, Ordering::Relaxed);
    found
}

/// Whether the processor has an instruction that writes lines back.
pub(super) fn is_supported() -> bool {
    detect() != Instruction::Unknown
}

/// Starts to write the lines of a range back. They are durable after a [`fence`] of
/// this thread. Each line takes `longer` than it does, if that is asked for.
#[inline]
pub(super) fn flush(address: *const u8, bytes: usize, longer: Option<Duration>) {
    let instruction = instruction();
    let first = address.addr() & !(LINE - 1);
    for line in (first..address.addr() + bytes).step_by(LINE) {
        write_back(instruction, line);
        if let Some(longer) = longer {
            wait(longer);
        }
    }
}

/// Waits without giving the processor away: a sleep takes far longer than a line.
#[cold]
fn wait(time: Duration) {
    if !time.is_zero() {
        let begin = Instant::now();
        while begin.elapsed() < time {
            core::hint::spin_loop();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn write_back(instruction: Instruction, line: usize) {
    use core::arch::asm;
    // No `nomem`: earlier stores must come before.
    // SAFETY: the line is the caller's memory, and its contents stay; the processor has the
    // instruction.
    unsafe {
        match instruction {
            Instruction::Clwb => {
                asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
            }
            Instruction::Clflushopt => {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
            }
            Instruction::Clflush | Instruction::Unknown => {
                asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn write_back(instruction: Instruction, line: usize) {
    use core::arch::asm;
    // SAFETY: as on x86-64. The first is DC CVAP; assemblers know it by name only for later
    // versions of the architecture.
    unsafe {
        match instruction {
            Instruction::Cvap => {
                asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
            }
            _ => asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)),
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write_back(_instruction: Instruction, _line: usize) {}

/// Waits until the lines that this thread has started to write back are durable. Later stores come
/// after that.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: changes nothing.
    unsafe {
        core::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: changes nothing.
    unsafe {
        core::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_back_and_stay_as_they_are() {
        let bytes: Vec<u8> = (0..=255).collect();
        flush(bytes.as_ptr(), bytes.len(), None);
        fence();
        assert!(bytes.iter().copied().eq(0..=255));
        if is_supported() {
            // The oldest instruction works on every processor.
            let oldest = if cfg!(target_arch = "x86_64") { 3 } else { 2 };
            write_back(from_number(oldest), bytes.as_ptr().addr());
            fence();
        }
        assert!(bytes.iter().copied().eq(0..=255));
    }
}
