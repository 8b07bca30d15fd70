//! The thread that serves nobody: it removes expired keys, makes backups, and reads files again that have changed.

use crate::shared::{Shared, now};
use crate::store::record::Record;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often the thread wakes up.
const PERIOD: Duration = Duration::from_millis(100);
/// How long it looks for expired keys then; longer if a tenth of the keys that it sees has expired.
const LOOK: Duration = Duration::from_millis(5);
const LONG_LOOK: Duration = Duration::from_millis(50);

/// Where the walk over all keys goes on.
#[derive(Debug, Default)]
struct Walk {
    db: usize,
    part: usize,
    /// Keys of the database with a time to live, and the milliseconds that they have left in sum.
    expiring: u64,
    left: u64,
}

/// Works until the server is stopped.
pub(crate) fn run(shared: &Shared) {
    let mut walk = Walk::default();
    while !shared.is_stopping() {
        std::thread::sleep(PERIOD);
        shared.run_backup();
        shared.grow_ages();
        shared.store.make_marks();
        if let Some(cluster) = &shared.cluster
            && let Err(error) = cluster.reload()
        {
            tell!("the map of slots is as before: {error}");
        }
        match shared.certificate.as_ref().map(|certificate| certificate.reload()) {
            Some(Ok(true)) => tell!("the certificate has changed, and new connections get it"),
            Some(Err(error)) => tell!("the certificate is as before: {error}"),
            Some(Ok(false)) | None => {}
        }
        let (begin, mut seen, mut expired, mut ends) = (Instant::now(), 1, 0, 0);
        // At most once around.
        while ends <= shared.store.spaces().len() {
            let (looked, removed, is_end) = walk.step(shared);
            (seen, expired) = (seen + looked, expired + removed);
            ends += usize::from(is_end);
            let limit = if expired * 10 > seen { LONG_LOOK } else { LOOK };
            if begin.elapsed() > limit {
                break;
            }
        }
    }
}

impl Walk {
    /// Removes the expired keys of one part. Returns how many keys it saw, how many it removed, and
    /// whether a database has ended.
    fn step(&mut self, shared: &Shared) -> (usize, usize, bool) {
        let (store, now) = (&shared.store, now().as_millis() as u64);
        let (db, mut seen, mut expired) = (self.db, 0, Vec::new());
        let has_expired = |record: &[u8]| {
            // Keys of a replica are removed by its primary.
            !shared.replica.follows()
                && Record::read_any(record).is_some()
                && Record::read(record, now).is_none()
        };
        let Self { part, expiring, left, .. } = self;
        let are_more = store.may_expire(db)
            && store.space(db).read(|guard| {
                guard.read_part(*part, &mut |_, key, record| {
                    seen += 1;
                    if let Some(expiry) = Record::read_any(record).and_then(|record| record.expiry)
                    {
                        *expiring += 1;
                        *left = left.saturating_add(expiry.saturating_sub(now));
                    }
                    if has_expired(record) {
                        expired.push(key.to_vec());
                    }
                })
            });
        let mut removed = 0;
        for key in &expired {
            // A file that refuses the change keeps the key; readers see that it has expired.
            removed += usize::from(store.remove_if(db, key, has_expired).unwrap_or(false));
        }
        store.expired.fetch_add(removed as u64, Relaxed);
        if are_more {
            self.part += 1;
        } else {
            store.note_walk(db, self.expiring, self.left);
            *self = Self { db: (db + 1) % store.spaces().len(), ..Self::default() };
        }
        (seen, removed, !are_more)
    }
}
