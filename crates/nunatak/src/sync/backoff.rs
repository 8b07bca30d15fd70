//! Waiting for a few instructions of another thread.

/// Spins a little, then yields the processor.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    const SPINS: u32 = 6;

    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits, longer each time.
    #[cold]
    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
        #[cfg(not(modelled))]
        if self.is_spinning() {
            for _ in 0..1 << self.rounds {
                core::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
        self.rounds += 1;
    }

    /// Whether the wait has been so short that the other thread was probably not descheduled.
    pub(crate) fn is_spinning(&self) -> bool {
        self.rounds <= Self::SPINS && !cfg!(modelled)
    }
}
