//! Reclamation without a table, for models: the code that all maps use.

use super::{GuardPin, Limbo, OpPin, Registry, Shared, operations_ended, retire_tag, thread_index};

/// A map's parts that free entries.
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
    /// Takes a guard.
    pub fn guard(&self) -> GuardPin<'_> {
        self.registry.guard()
    }

    /// Takes an entry that the caller has unlinked.
    pub fn retire(&self, item: T) {
        self.limbo.retire(&self.registry, item, 0);
    }

    /// Tags the retired entries with the epoch.
    pub fn tag(&self) {
        self.limbo.tag(&self.registry);
    }

    /// Drops entries that no guard can see.
    pub fn collect(&self) {
        self.limbo.collect(&self.registry);
    }

    /// Whether no guard can have seen an entry that was unlinked before the call.
    pub fn is_unseen(&self) -> bool {
        self.registry.is_unseen()
    }

    /// Begins a new epoch and returns the one before.
    pub fn end_epoch(&self) -> u64 {
        self.registry.retire_tag()
    }

    /// Whether all guards of other threads of that epoch or an earlier one have ended.
    pub fn others_ended(&self, epoch: u64) -> bool {
        self.registry.others_ended(epoch)
    }

    /// Counts entries of this thread.
    pub fn count(&self, added: i64) {
        self.registry.count::<Shared>(added);
    }

    /// Returns the sum over all threads.
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

    /// Begins a new epoch of operations and returns the one before.
    pub fn end_epoch() -> u64 {
        retire_tag()
    }

    /// Whether all operations of that epoch or an earlier one have ended.
    pub fn all_ended(epoch: u64) -> bool {
        operations_ended(epoch, true)
    }
}

/// Does what the destruction of this thread's thread-locals does.
pub fn end_thread() {
    thread_index::end_thread();
}
