//! A clock that is cheap enough to time single operations.

use std::time::{Duration, Instant};

/// The processor's time stamp counter if it ticks at a constant rate, else the system's monotonic
/// clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    counter: bool,
    nanoseconds_per_tick: f64,
}

impl Clock {
    /// Measures how fast the counter ticks.
    pub(crate) fn calibrated() -> Self {
        let counter = counter::is_constant();
        let mut clock = Self { origin: Instant::now(), counter, nanoseconds_per_tick: 1.0 };
        if counter {
            let (start, ticks) = (Instant::now(), counter::read());
            while start.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let nanoseconds = start.elapsed().as_nanos() as f64;
            clock.nanoseconds_per_tick = nanoseconds / clock.ticks_since(ticks).max(1) as f64;
        }
        clock
    }

    /// Returns the present time in ticks.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.counter { counter::read() } else { self.origin.elapsed().as_nanos() as u64 }
    }

    /// Returns how many ticks have passed since `start`. Counters of two cores may differ a little.
    #[inline]
    pub(crate) fn ticks_since(&self, start: u64) -> u64 {
        self.now().saturating_sub(start)
    }

    pub(crate) fn nanoseconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanoseconds_per_tick
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// Returns whether the counter's rate is independent of the processor's frequency.
    pub(super) fn is_constant() -> bool {
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT
            && __cpuid(POWER_MANAGEMENT).edx & (1 << 8) != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction. A system setting can forbid it to
        // programs, but no system uses that setting.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn is_constant() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_system() {
        let clock = Clock::calibrated();
        let (start, ticks) = (Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(30));
        let measured = clock.nanoseconds(clock.ticks_since(ticks));
        let expected = start.elapsed().as_nanos() as f64;
        assert!((measured / expected - 1.0).abs() < 0.2, "{measured} against {expected}");
    }
}
