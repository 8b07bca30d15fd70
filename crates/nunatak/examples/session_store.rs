//! A session store in a file: struct values by serde, durable inserts from asynchronous tasks.
//!
//! ```sh
//! cargo run --release -p nunatak --example session_store --features serde -- sessions.map
//! ```
//!
//! Each run logs users in, and shows what the runs before have left.

use nunatak::durable::{Options, Postcard, TypedMap};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Session {
    user: u64,
    roles: Vec<String>,
    last_seen: Duration,
}

type Sessions = TypedMap<String, Postcard<Session>>;

/// Wakes the thread that polls.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls all tasks on this thread until they have ended: an executor of a few lines.
fn run_all(mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        tasks.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
        if tasks.is_empty() {
            return;
        }
        std::thread::park();
    }
}

async fn log_in(sessions: &Sessions, user: u64, now: Duration) {
    let session = Session { user, roles: vec!["reader".into()], last_seen: now };
    let token = format!("token-{user}-{}", now.as_millis());
    sessions.insert_async(&token, &session).await.expect("the disk has room");
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = std::env::args_os().nth(1).map(Into::into);
    let path = path.unwrap_or_else(|| directory.path().join("sessions.map"));
    let options = Options::new().schema("sessions", 1);
    let sessions = Sessions::open_or_create_with(&path, &options)?;
    println!("{}: {} sessions, schema {}", path.display(), sessions.len(), sessions.schema());

    let (now, begin) = (SystemTime::now().duration_since(UNIX_EPOCH)?, Instant::now());
    run_all((0..1000).map(|user| Box::pin(log_in(&sessions, user, now)) as _).collect());
    println!("1000 durable logins on one thread in {:.1?}", begin.elapsed());

    let limit = now.saturating_sub(Duration::from_secs(3600));
    sessions.retain(|_, session| session.last_seen >= limit)?;
    println!("{} sessions of the last hour", sessions.len());
    sessions.close()?;
    Ok(())
}
