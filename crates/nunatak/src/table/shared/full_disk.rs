//! What tables do when the disk is full, or when a table in RAM that does not grow is.
//!
//! A change can't fail half-way. So room for it is asked for before, and while some is left, every
//! change finds what it needs. When none is left, most inserts still find a free slot, and only
//! those that would need a slot of the chains must be refused. Which these are is known under the
//! key's lock. So the map *permits* its table to refuse the insert that it runs; then the table
//! changes nothing, and returns as if it had inserted. An attempt that may be repeated decides
//! nothing: an insert is refused where it returns.
//!
//! A shrink writes parts of the table anew. It leaves out parts for which there is no room.

use crate::error::{Error, FileError};
use crate::memory::Medium;
use core::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The operation of this thread may take the slots that are kept for running operations.
    Admitted,
    Permitted,
    Refused,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Admitted) };
}

/// Runs an operation that the table may refuse.
///
/// # Errors
/// If it was refused: nothing was changed.
#[cfg(durable)]
pub(crate) fn permit<R>(run: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    permit_or(FileError::Full.into(), run)
}

/// The same with another error.
///
/// # Errors
/// `full` if the operation was refused: nothing was changed.
pub(crate) fn permit_or<R>(
    full: Error,
    run: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    /// Also if the operation panics, the next one is admitted as usual. (The operation's closure may
    /// use another map, so it has a state of its own.)
    struct Reset(State);
    impl Drop for Reset {
        fn drop(&mut self) {
            STATE.set(self.0);
        }
    }
    let reset = Reset(STATE.replace(State::Permitted));
    let result = run();
    let was_refused = is_refused();
    drop(reset);
    if was_refused { Err(full) } else { result }
}

/// Whether the operation of this thread may be refused.
pub(in crate::table) fn is_permitted() -> bool {
    STATE.get() != State::Admitted
}

/// Refuses the operation of this thread, which is permitted and has changed nothing.
pub(in crate::table) fn refuse() {
    debug_assert!(is_permitted());
    STATE.set(State::Refused);
}

/// Whether the operation of this thread was refused.
pub(crate) fn is_refused() -> bool {
    STATE.get() == State::Refused
}

/// Makes a part of the table smaller. If the disk has no room to write it anew, syncs, which frees
/// what other parts have left, and tries once more. Returns the default if the part is left as it
/// is.
pub(in crate::table) fn shrink_if_room<M: Medium, R: Default>(
    sync: impl Fn() -> Result<(), Error>,
    mut shrink: impl FnMut() -> Result<R, Error>,
) -> Result<R, Error> {
    let is_full = |error: &Error| M::IS_DURABLE && *error == FileError::Full.into();
    match shrink() {
        Err(error) if is_full(&error) => {
            sync()?;
            shrink().or_else(|error| if is_full(&error) { Ok(R::default()) } else { Err(error) })
        }
        other => other,
    }
}

#[cfg(all(test, durable))]
mod tests {
    use super::*;

    const FULL: Error = Error::File(FileError::Full);

    #[test]
    fn only_what_is_permitted_and_refused_fails() {
        assert!(!is_permitted());
        assert_eq!(permit(|| Ok(is_permitted())), Ok(true), "a question decides nothing");
        let refused = || {
            refuse();
            Ok(1)
        };
        assert_eq!(permit(refused), Err(FULL));
        assert!(!is_permitted() && !is_refused());
        // Within a closure of the caller's, on another map.
        assert_eq!(permit(|| Ok((permit(refused), is_refused()))), Ok((Err(FULL), false)));
        let panics = std::panic::catch_unwind(|| permit(|| -> Result<(), Error> { panic!() }));
        assert!(panics.is_err() && !is_permitted());
    }

    #[test]
    fn a_shrink_is_tried_again_after_a_sync_and_then_left_out() {
        let left = |times: usize, error: Error| {
            let (mut tries, syncs) = (0, Cell::new(0));
            let sync = || {
                syncs.set(syncs.get() + 1);
                Ok(())
            };
            let result = shrink_if_room::<crate::memory::Epochs, usize>(sync, || {
                tries += 1;
                if tries <= times { Err(error) } else { Ok(tries) }
            });
            (result, syncs.get())
        };
        assert_eq!(left(0, FULL), (Ok(1), 0));
        assert_eq!(left(1, FULL), (Ok(2), 1));
        assert_eq!(left(2, FULL), (Ok(0), 1));
        assert_eq!(left(1, Error::CapacityOverflow), (Err(Error::CapacityOverflow), 0));
    }
}
