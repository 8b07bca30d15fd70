//! [`ByteMap`]: mixed batches, the transactional client of DLHT's section 3.3.

use super::ByteMap;
use crate::entry::{Entries, KeyOf};
use crate::error::Error;
use crate::map::{Outcome, Request, Stop};
use crate::sync::GuardPin;
use crate::table::{Change, Design};

/// Mixed batches.
impl<E: Entries, D: Design> ByteMap<E, D> {
    /// Executes requests in their order, and calls `each` with the index and the outcome of each.
    /// Keys and values are borrowed, and nothing is copied: the values of an outcome are those of the
    /// map, or those that a change has just taken out of it. Returns how many requests were executed:
    /// all, or those up to the first one that fails if `stop` says so
    /// ([`is_success`](Outcome::is_success)).
    ///
    /// The slots and entries of many keys are fetched before the first request runs, so their cache
    /// misses overlap. The batch as a whole is not atomic. While `each` runs, the memory of entries
    /// that anybody removes waits.
    ///
    /// # Errors
    /// The index of the first request whose value can't be stored, as by [`put`](Self::put). The
    /// requests before it were executed.
    ///
    /// ```
    /// use nunatak::{DlhtRecordMap, Outcome, Request, Stop};
    /// let map: DlhtRecordMap = DlhtRecordMap::new();
    /// map.put(b"paul", b"70")?;
    /// let batch = [
    ///     Request::Update("paul", "60"),
    ///     Request::TryInsert("mary", "10"),
    ///     Request::Remove("nobody"),
    ///     Request::Remove("paul"),
    /// ];
    /// let mut before = Vec::new();
    /// let executed = map.execute(&batch, Stop::AtFirstFailure, |_, outcome| {
    ///     if let Outcome::Replaced(value) = outcome {
    ///         before.extend_from_slice(value);
    ///     }
    /// });
    /// assert_eq!((executed, before.as_slice()), (Ok(3), &b"70"[..]));
    /// assert_eq!(map.get(b"paul"), Some(b"60".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn execute<K: KeyOf<E::Naming>, V: AsRef<[u8]>>(
        &self,
        requests: &[Request<K, V>],
        stop: Stop,
        mut each: impl FnMut(usize, Outcome<E::Value<'_>>),
    ) -> Result<usize, (usize, Error)> {
        let guard = self.guard();
        let (mut executed, mut failed) = (0, None);
        self.for_each_fetched::<true>(requests.iter().map(|request| request.key().key()), |at| {
            let request = &requests[at];
            match self.run(&guard, request) {
                Ok(before) => {
                    executed += 1;
                    let outcome = request.outcome(before);
                    let is_success = outcome.is_success();
                    each(at, outcome);
                    stop == Stop::Never || is_success
                }
                Err(error) => {
                    failed = Some((at, error));
                    false
                }
            }
        });
        failed.map_or(Ok(executed), Err)
    }

    /// Runs a request, and returns the value that the key had before.
    fn run<'g, K: KeyOf<E::Naming>, V: AsRef<[u8]>>(
        &'g self,
        guard: &'g GuardPin<'_>,
        request: &Request<K, V>,
    ) -> Result<Option<E::Value<'g>>, Error> {
        let key = request.key().key();
        let taken_out = match request {
            Request::Get(_) => return Ok(self.find_value(guard, key)),
            Request::TryInsert(_, value) => {
                let present = self.store_if_absent(guard, key, value.as_ref())?;
                return Ok(present.map(|word| self.value(guard, word)));
            }
            Request::Insert(_, value) => self.swap(guard, key, value.as_ref())?,
            Request::Update(_, value) => self.swap_if_present(guard, key, value.as_ref())?,
            Request::Remove(_) => self.apply(guard, key, Change::remove),
        };
        // Retired under the guard, which keeps the value readable (R3).
        Ok(taken_out.map(|word| {
            let value = self.value(guard, word);
            self.retire(word);
            value
        }))
    }
}
