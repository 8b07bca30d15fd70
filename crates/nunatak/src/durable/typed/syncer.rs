//! [`Syncer`]: a thread that syncs a file for futures that wait.
//!
//! A future puts a ticket into the queue. The thread takes all tickets that wait, syncs once, and
//! wakes their tasks. A sync that began before a ticket came does not serve it, since the thread
//! takes the tickets first.

use crate::durable::content::MapInFile;
use crate::durable::session::Group;
use crate::durable::table::FileTable;
use crate::error::{Error, FileError};
use crate::seeded::{Bug, seeded};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

/// What a future waits for.
#[derive(Debug, Default)]
struct Ticket {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Waits(Waker),
    Ended(Result<(), Error>),
}

impl Ticket {
    fn end(&self, result: Result<(), Error>) {
        let before = core::mem::replace(&mut *self.state.lock(), State::Ended(result));
        // Without the lock: a waker may run anything. If it panics, that is not heard, so that the
        // other futures end.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if let State::Waits(waker) = before {
                waker.wake();
            }
        }));
    }
}

#[derive(Debug, Default)]
struct Queue {
    tickets: Vec<Arc<Ticket>>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    /// The process that has the thread. A fork has none.
    process: u32,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start<T: MapInFile>(map: Arc<T>, group: Arc<Group>) -> Result<Self, Error> {
        Self::start_with(move || group.sync(|| map.table().sync()))
    }

    fn start_with(sync: impl FnMut() -> Result<(), Error> + Send + 'static) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let thread = thread::Builder::new().name("nunatak-async".into());
        let thread = thread.spawn(move || serve(&told, sync)).map_err(|error| FileError::Io {
            action: "start a thread",
            code: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self { shared, process: std::process::id(), thread: Some(thread) })
    }

    /// Ends after a sync that began later than this was polled first.
    pub(super) fn synced(&self) -> Synced<'_> {
        Synced { syncer: self, ticket: None }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if std::process::id() != self.process {
            // The thread, and who holds its locks, are in the other process.
            core::mem::forget((thread, Arc::clone(&self.shared)));
            return;
        }
        self.shared.queue.lock().is_over = true;
        self.shared.changed.notify_all();
        // The thread itself drops this if a waker drops the last handle of the map.
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared, mut sync: impl FnMut() -> Result<(), Error>) {
    loop {
        let tickets = {
            let mut queue = shared.queue.lock();
            while queue.tickets.is_empty() && !queue.is_over {
                shared.changed.wait(&mut queue);
            }
            if queue.tickets.is_empty() {
                return;
            }
            core::mem::take(&mut queue.tickets)
        };
        let synced = catch_unwind(AssertUnwindSafe(&mut sync));
        let result = synced.unwrap_or(Err(FileError::Poisoned.into()));
        tickets.iter().for_each(|ticket| ticket.end(result));
        if seeded(Bug::TicketsTakenAfterSync) {
            shared.queue.lock().tickets.drain(..).for_each(|ticket| ticket.end(result));
        }
    }
}

/// A future that ends after a sync.
#[derive(Debug)]
pub(super) struct Synced<'s> {
    syncer: &'s Syncer,
    ticket: Option<Arc<Ticket>>,
}

impl Future for Synced<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let is_new = self.ticket.is_none();
        let ticket = Arc::clone(self.ticket.get_or_insert_default());
        // Wakers are cloned and dropped without the lock: they may run anything.
        let waker = context.waker().clone();
        let before = {
            let mut state = ticket.state.lock();
            if let State::Ended(result) = *state {
                return Poll::Ready(result);
            }
            core::mem::replace(&mut *state, State::Waits(waker))
        };
        drop(before);
        if is_new {
            self.syncer.shared.queue.lock().tickets.push(ticket);
            self.syncer.shared.changed.notify_one();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// What the thread has of the map, so also its file, is given back before the map is closed.
    #[test]
    fn the_thread_has_ended_when_its_handle_is_gone() {
        struct Slow(Arc<AtomicBool>);
        impl Drop for Slow {
            fn drop(&mut self) {
                thread::sleep(Duration::from_millis(50));
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let is_given_back = Arc::new(AtomicBool::new(false));
        let map = Slow(Arc::clone(&is_given_back));
        let syncer = Syncer::start_with(move || {
            let _ = &map;
            Ok(())
        });
        drop(syncer.unwrap());
        assert!(is_given_back.load(Ordering::SeqCst));
    }
}
