//! Reclamation without a table around it, for models: the code that all maps use.

use super::{GuardPin, Limbo, OpPin, Registry, Shared, operations_ended, retire_tag, thread_index};

/// What a map has to free entries with.
#[derive(Debug)]
pub struct Reclaimer<T> {
    registry: Registry,
    limbo: Limbo<T>,
}

impl<T> Default for Reclaimer<T> {
    fn default() -> Self {
        Self { registry: Registry::new(), limbo: Limbo::new() }
    }
}

impl<T> Reclaimer<T> {
    /// A guard.
    pub fn guard(&self) -> GuardPin<'_> {
        self.registry.guard()
    }

    /// Takes over what the caller has unlinked.
    pub fn retire(&self, item: T) {
        self.limbo.retire(&self.registry, item);
    }

    /// Drops what no guard can see.
    pub fn collect(&self) {
        self.limbo.collect(&self.registry);
    }

    /// Whether no guard can have seen what was unlinked before the call.
    pub fn is_unseen(&self) -> bool {
        self.registry.is_unseen()
    }

    /// Begins a new epoch; the one before.
    pub fn end_epoch(&self) -> u64 {
        self.registry.retire_tag()
    }

    /// Whether every guard of another thread of that epoch or an earlier one is gone.
    pub fn others_ended(&self, epoch: u64) -> bool {
        self.registry.others_ended(epoch)
    }

    /// Counts entries of this thread.
    pub fn count(&self, added: i64) {
        self.registry.count::<Shared>(added);
    }

    /// The sum of all threads.
    pub fn added(&self) -> u64 {
        self.registry.added()
    }
}

/// An operation that is announced until this is dropped.
#[derive(Debug)]
pub struct Operation {
    _pin: OpPin<Shared>,
}

impl Operation {
    /// Announces an operation of this thread.
    #[must_use]
    pub fn announce() -> Self {
        Self { _pin: OpPin::new() }
    }

    /// Begins a new epoch of operations; the one before.
    pub fn end_epoch() -> u64 {
        retire_tag()
    }

    /// Whether every operation of that epoch or an earlier one has ended.
    pub fn all_ended(epoch: u64) -> bool {
        operations_ended(epoch, true)
    }
}

/// What happens when this thread's thread-locals are destroyed.
pub fn end_thread() {
    thread_index::end_thread();
}
