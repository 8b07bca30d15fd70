//! The thread of an open map that makes snapshots for readers in other processes.

use crate::error::{Error, FileError};
use crate::memory::durable::{Listener, Pool, Request};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often readers are told that their snapshot is being made.
const INTERVAL: Duration = Duration::from_secs(1);

/// Ends a snapshot before it is whole, by an error.
pub(super) type GoOn<'s> = dyn FnMut() -> Result<(), Error> + 's;

/// The thread that answers readers. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    listener: Arc<Listener>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Starts a thread that calls a function for snapshots. The function asks now and then whether
    /// it shall go on.
    pub(super) fn start(
        pool: &Pool,
        snapshot: impl Fn(&mut GoOn<'_>) -> Result<OwnedFd, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let listener = Arc::new(Listener::new(pool)?);
        let shared = Arc::clone(&listener);
        let thread = std::thread::Builder::new().name("nunatak-answer".into());
        let thread = thread.spawn(move || answer(&shared, snapshot));
        let thread = thread.map_err(|error| FileError::Io {
            action: "start a thread",
            code: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.listener.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Makes one snapshot after the other. Each is for all readers that have asked before it begins, so
/// a reader waits for two at most.
fn answer(listener: &Listener, snapshot: impl Fn(&mut GoOn<'_>) -> Result<OwnedFd, Error>) {
    let mut next: Vec<Request> = Vec::new();
    while !listener.is_over() {
        if next.is_empty() {
            listener.wait();
        }
        listener.accept(&mut next);
        let mut current = core::mem::take(&mut next);
        current.retain(Request::put_off);
        if current.is_empty() {
            continue;
        }
        let mut told = Instant::now();
        let made = snapshot(&mut || {
            if told.elapsed() >= INTERVAL {
                told = Instant::now();
                listener.accept(&mut next);
                current.retain(Request::put_off);
                next.retain(Request::put_off);
            }
            // Nobody sees this error: the readers are gone, or are refused.
            let is_wanted = !listener.is_over() && !current.is_empty();
            if is_wanted { Ok(()) } else { Err(FileError::InUse.into()) }
        });
        if !listener.is_over() {
            current.iter().for_each(|request| request.answer(&made));
        }
    }
}
