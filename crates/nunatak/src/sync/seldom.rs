//! Work that one call of several does.

use super::{Mode, Registry};

/// One call in so many of a thread does what each call need not do.
const CALLS: u32 = 32;

/// Whether this call of the thread is one that does what each call need not do.
///
/// The thread counts its calls. (Not its entries: a thread that keeps their number as it is would do the work
/// always or never.) In a model all threads are one, and each execution must be like the one before, so there
/// the entries decide.
pub(crate) fn is_seldom<Y: Mode>(registry: &Registry) -> bool {
    if cfg!(modelled) {
        return registry.count::<Y>(0).is_multiple_of(CALLS.into());
    }
    // Without a destructor, so that it can be used while the thread exits.
    thread_local! {
        static CALL: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
    }
    let call = CALL.get().wrapping_add(1);
    CALL.set(call);
    call.is_multiple_of(CALLS)
}
