//! Windows of `SET`s without options: their values are stored together, in order.
//!
//! The locks of all stripes are held meanwhile, so that each command is as alone as if it had run by itself.
//! None is waited for: the window ends where another thread has a lock, and that command runs by itself, when
//! this thread has no other lock.

use super::batch::{Active, Connections, Entry, Run};
use crate::protocol::reply::Reply;
use crate::store::hidden::root_of;
use crate::store::record::{Kind, Record};
use crate::store::stripes::{Seen, Stripes};

/// The most bytes of records that are stored together. They are copied before.
const MOST_BYTES: usize = 256 << 10;

/// Locks of stripes, which end with this.
struct Held<'s> {
    stripes: &'s Stripes,
    held: Vec<u32>,
    is_changed: bool,
}

impl Held<'_> {
    /// Takes the lock of a stripe, unless another thread has it or had it since.
    #[inline(always)]
    fn try_take(&mut self, seen: Seen) -> bool {
        if self.stripes.try_lock(seen) {
            self.held.push(seen.stripe);
            return true;
        }
        self.held.contains(&seen.stripe)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for &stripe in &self.held {
            self.stripes.unlock(stripe, self.is_changed);
        }
    }
}

impl Run<'_> {
    /// Runs the first commands of a window, as far as nothing is in the way, and returns how many. A command
    /// that fails is not among them.
    pub(super) fn run_stores(
        &mut self,
        entries: &[Entry],
        active: &mut [Active],
        connections: &mut Connections,
    ) -> usize {
        self.timing.end_group(self.stats);
        let shared = self.shared;
        let (store, stripes) = (&shared.store, &shared.store.stripes);
        let db = connections[active[entries[0].of].index].session.db;
        // Before any lock is held: it may remove other keys, under their locks.
        let roomy = entries.iter().take_while(|_| shared.has_room()).count();
        let mut scratch = std::mem::take(self.scratch);
        scratch.clear();
        let mut held = Held { stripes, held: Vec::with_capacity(roomy), is_changed: false };
        let mut ends = Vec::with_capacity(roomy);
        // First all words of the stripes, so that their cache misses overlap.
        let looked = entries[..roomy].iter().map(|&entry| {
            let key = self.args(entry, active).at(1);
            let hash = stripes.hash(db, key);
            (key, hash, stripes.look(Stripes::of(hash)))
        });
        let mut keys: Vec<_> = looked.collect();
        for (&(.., seen), &entry) in keys.iter().zip(entries) {
            let value = self.args(entry, active).at(2);
            let fits = scratch.len() + value.len() < MOST_BYTES;
            if !fits || !held.try_take(seen) {
                break;
            }
            Record::push_head(&mut scratch, Kind::String, None);
            scratch.extend_from_slice(value);
            ends.push(scratch.len());
        }
        // A value in segments, or a hidden key, is for a command by itself.
        if store.may_have_segments(db) {
            let of: Vec<&[u8]> = keys[..ends.len()].iter().map(|&(key, ..)| key).collect();
            let plain = store.space(db).read(|guard| {
                let mut found = Vec::with_capacity(of.len());
                guard.get_many(&of, &mut found);
                found.iter().take_while(|record| root_of(**record) == Ok(None)).count()
            });
            ends.truncate(plain);
        }
        keys.truncate(ends.len());
        let cluster = shared.cluster.as_ref();
        // Under the locks, as for each command by itself.
        let may_store = shared.replica.is_open()
            && cluster.is_none_or(|it| keys.iter().all(|&(key, ..)| it.serves([key].into_iter())));
        let mut done = 0;
        if may_store {
            let mut begin = 0;
            let records = keys.iter().zip(&ends).map(|(&(key, ..), &end)| {
                let record = &scratch[begin..end];
                begin = end;
                (key, record)
            });
            let records: Vec<_> = records.collect();
            held.is_changed = true;
            // If one has failed, all run again by themselves: the result is the same.
            if store.space(db).put_many(&records).is_ok() {
                done = keys.len();
            }
            // Also then: those before it are stored.
            for &(key, hash, seen) in &keys {
                if let Some(ages) = self.ages {
                    ages.note(hash, self.now);
                }
                if store.watches.are_any() && stripes.is_watched(seen.stripe) {
                    store.watches.touch(seen.stripe, db, key);
                }
            }
        }
        drop(held);
        drop(keys);
        *self.scratch = scratch;
        for &entry in &entries[..done] {
            let of = &mut active[entry.of];
            (of.done, of.is_changed) = (entry.position, true);
            let connection = &mut connections[of.index];
            let is_resp3 = connection.session.is_resp3;
            Reply { out: &mut connection.out, is_resp3 }.ok();
        }
        self.note_together(&entries[..done], active, connections);
        done
    }
}
