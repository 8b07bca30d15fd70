//! Memory that is slower than this machine's, emulated by waits.

use crate::clock::Clock;

/// Memory whose lines arrive some time after they were asked for. The caller prefetches a line between
/// the two steps. Reading the clock is part of what is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowMemory {
    clock: Clock,
    nanoseconds: f64,
}

impl SlowMemory {
    pub(crate) fn new(clock: Clock, nanoseconds: f64) -> Self {
        Self { clock, nanoseconds }
    }

    /// Returns the time at which a line is asked for.
    #[inline]
    pub(crate) fn ask(&self) -> u64 {
        self.clock.now()
    }

    /// Waits until the line arrives that was asked for at this time.
    #[inline]
    pub(crate) fn wait(&self, asked: u64) {
        while self.clock.nanoseconds(self.clock.ticks_since(asked)) < self.nanoseconds {
            std::hint::spin_loop();
        }
    }
}
