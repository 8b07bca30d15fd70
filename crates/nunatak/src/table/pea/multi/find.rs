//! Lookups of the values of keys.

use super::{At, Interrupted, LockedBuckets};
use crate::entry::Inline;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Backoff, DATA, OpPin, Ordering, Shared, copy_words, fence};
use crate::table::pea::Table;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use crate::table::pea::multi::values::{Pointer, Values};
use crate::table::pea::multi::version::Version;
use crate::table::shared::bucket::{Bucket, BucketHeader, Flag, Header, Layout};
use core::any::TypeId;

/// The number of attempts before a reader takes the locks.
const ATTEMPTS: usize = if cfg!(modelled) { 2 } else { 64 };

/// A reader's part: what it does with the values of a key.
pub(in crate::table::pea) trait Visitor {
    /// Forgets the values so far.
    fn start(&mut self);

    fn value(&mut self, value: u64);

    /// Reads values in buffers, which may change meanwhile; see [`Values::each`].
    fn buffer<M: Medium>(
        &mut self,
        values: &Values<M>,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    );

    /// Returns whether the visitor needs no more values.
    fn is_done(&self) -> bool {
        false
    }
}

#[derive(Debug, Default)]
pub(in crate::table::pea) struct Count(usize);

impl Count {
    pub(in crate::table::pea) fn total(&self) -> usize {
        self.0
    }
}

impl Visitor for Count {
    fn start(&mut self) {
        self.0 = 0;
    }

    fn value(&mut self, _value: u64) {
        self.0 += 1;
    }

    fn buffer<M: Medium>(
        &mut self,
        values: &Values<M>,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    ) {
        self.0 += values.count(pointer, is_still);
    }
}

#[derive(Debug)]
pub(in crate::table::pea) struct Contains {
    value: u64,
    is_found: bool,
}

impl Visitor for Contains {
    fn start(&mut self) {
        self.is_found = false;
    }

    fn value(&mut self, value: u64) {
        self.is_found |= value == self.value;
    }

    fn buffer<M: Medium>(
        &mut self,
        values: &Values<M>,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    ) {
        self.is_found = self.is_found || values.contains(pointer, self.value, is_still);
    }

    fn is_done(&self) -> bool {
        self.is_found
    }
}

/// Takes the first value that it sees.
#[derive(Debug, Default)]
pub(in crate::table::pea) struct Any(Option<u64>);

impl Visitor for Any {
    fn start(&mut self) {
        self.0 = None;
    }

    fn value(&mut self, value: u64) {
        self.0 = Some(value);
    }

    fn buffer<M: Medium>(
        &mut self,
        values: &Values<M>,
        pointer: Pointer,
        _is_still: impl Fn() -> bool,
    ) {
        self.0 = values.newest(pointer);
    }

    fn is_done(&self) -> bool {
        self.0.is_some()
    }
}

#[derive(Debug)]
pub(in crate::table::pea) struct Copy<'v, V> {
    to: &'v mut Vec<V>,
    /// The length of `to` before.
    kept: usize,
    pairs_load_whole: bool,
}

impl<V: Inline> Copy<'_, V> {
    /// Returns whether a value is stored as its word.
    fn is_word() -> bool {
        // The compiler knows the result.
        let value = TypeId::of::<V>();
        value == TypeId::of::<u64>() || value == TypeId::of::<i64>()
    }
}

impl<V: Inline> Visitor for Copy<'_, V> {
    fn start(&mut self) {
        self.to.truncate(self.kept);
    }

    fn value(&mut self, value: u64) {
        self.to.push(V::from_word(value));
    }

    fn buffer<M: Medium>(
        &mut self,
        values: &Values<M>,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    ) {
        values.each_piece(pointer, is_still, |words| {
            // Words of a line, and the prefetch distance.
            const LINE: usize = 8;
            const AHEAD: usize = 24 * LINE;
            words.iter().take(AHEAD).step_by(LINE).for_each(prefetch_word);
            self.to.reserve(words.len());
            if Self::is_word() {
                let len = self.to.len();
                // SAFETY: `reserve` in this block made room for all of them. A `V` is a `u64` or an
                // `i64` (`is_word`), so any word is a value, of the same size and alignment.
                // `pairs_load_whole` is what this processor can do.
                unsafe {
                    let to = self.to.as_mut_ptr().add(len).cast();
                    copy_words(words, to, self.pairs_load_whole);
                    self.to.set_len(len + words.len());
                }
                return;
            }
            for (at, line) in words.chunks(LINE).enumerate() {
                if let Some(ahead) = words.get(at * LINE + AHEAD) {
                    prefetch_word(ahead);
                }
                self.to.extend(line.iter().map(|word| V::from_word(word.load(DATA))));
            }
        });
    }
}

fn prefetch_word(word: &AtomicU64) {
    prefetch(core::ptr::from_ref(word));
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Returns the number of values of a key.
    #[inline]
    pub(crate) fn count_values(&self, word: u64) -> usize {
        let mut count = Count::default();
        self.visit::<true>(self.codec.hash(word), word, &mut count);
        count.total()
    }

    /// Returns whether a key has a value.
    #[inline]
    pub(crate) fn contains_value(&self, word: u64, value: u64) -> bool {
        let mut contains = Contains { value, is_found: false };
        self.visit::<true>(self.codec.hash(word), word, &mut contains);
        contains.is_found
    }

    /// Returns one of the values of a key.
    #[inline]
    pub(crate) fn any_value(&self, word: u64) -> Option<u64> {
        let mut any = Any::default();
        self.visit::<true>(self.codec.hash(word), word, &mut any);
        any.0
    }

    /// Appends all values of a key. Returns their number.
    #[inline]
    pub(crate) fn copy_values<V: Inline>(&self, word: u64, to: &mut Vec<V>) -> usize {
        let kept = to.len();
        self.copy_hashed::<true, _>(self.codec.hash(word), word, to);
        to.len() - kept
    }

    /// Appends all values of a key whose hash is known. Fetches its buckets if `FETCHES`; otherwise
    /// they are on their way.
    #[inline]
    pub(super) fn copy_hashed<const FETCHES: bool, V: Inline>(
        &self,
        hash: u64,
        word: u64,
        to: &mut Vec<V>,
    ) {
        let pairs_load_whole = self.pairs_load_whole;
        self.visit::<FETCHES>(hash, word, &mut Copy { kept: to.len(), to, pairs_load_whole });
    }

    /// Shows a visitor the values that a key has at one moment. Touches the lines of the version,
    /// the header and the slots of the first bucket; of other buckets if flags say so; and of the
    /// value buffers.
    #[inline(always)]
    pub(in crate::table::pea) fn visit<const FETCHES: bool>(
        &self,
        hash: u64,
        word: u64,
        visitor: &mut impl Visitor,
    ) {
        let tag = self.codec.tag(word, hash);
        for _ in 0..ATTEMPTS {
            if self.try_visit::<FETCHES>(hash, tag, visitor) {
                return;
            }
        }
        self.visit_locked(hash, tag, visitor);
    }

    #[inline(always)]
    fn try_visit<const FETCHES: bool>(
        &self,
        hash: u64,
        tag: u64,
        visitor: &mut impl Visitor,
    ) -> bool {
        visitor.start();
        let recycled = self.medium.recycled();
        let found = self.locate(hash);
        let (segment, place) = (found.entry.segment(), first_bucket(hash, self.mask()));
        if FETCHES {
            self.prefetch_bucket::<false>(segment, place);
        }
        if FETCHES && found.entry.strategy() > Strategy::Single {
            // In most first buckets of such a segment the flag is set, if only for another key.
            self.prefetch_bucket::<false>(segment, second_bucket(hash, self.mask()));
        }
        let (_, version) = self.segments.version(segment, place);
        let Some(number) = version.begin() else { return false };
        let bucket = self.segments.bucket(segment, place);
        let header = bucket.header();
        self.visit_bucket((bucket, header), (hash, tag), (version, number), visitor);
        if !header.has_no_flag() && !visitor.is_done() {
            let seen = (version, number);
            return self.visit_elsewhere(found, (hash, tag), seen, visitor)
                && self.medium.recycled() == recycled;
        }
        // Pairs with the release fence of a thread that has locked the version since.
        fence(Ordering::Acquire);
        // The answer does not count either if a page may have been reused.
        (version.is_same(number) || seeded(Bug::VersionNotAskedAgain))
            && self.directories.is_still(found)
            && self.medium.recycled() == recycled
    }

    #[inline(always)]
    fn visit_bucket(
        &self,
        (bucket, header): (&Bucket, BucketHeader),
        (hash, tag): (u64, u64),
        (version, number): (&Version, u64),
        visitor: &mut impl Visitor,
    ) {
        let marking = self.marking();
        for slot in header.matching(fingerprint(hash)) {
            let (first, second) =
                self.segments.slot(bucket, slot).load_whole(self.pairs_load_whole);
            if marking.tag(first) != tag {
                continue;
            }
            if slot >= header.pointers(marking) && !marking.is_pointer(first) {
                visitor.value(second);
            } else {
                visitor.buffer(self.values(), Pointer(second), || {
                    fence(Ordering::Acquire);
                    version.is_same(number)
                });
            }
            if visitor.is_done() {
                return;
            }
        }
    }

    fn visit_elsewhere(
        &self,
        found: Found<'_>,
        (hash, tag): (u64, u64),
        first: (&Version, u64),
        visitor: &mut impl Visitor,
    ) -> bool {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let header = self.segments.bucket(segment, first_bucket(hash, mask)).header();
        let mut looked_at = [Some(first), None, None];
        if header.has(Flag::Second) {
            let place = second_bucket(hash, mask);
            let (_, version) = self.segments.version(segment, place);
            let Some(number) = version.begin() else { return false };
            if !seeded(Bug::SecondVersionNotAsked) {
                looked_at[1] = Some((version, number));
            }
            let bucket = self.segments.bucket(segment, place);
            self.visit_bucket((bucket, bucket.header()), (hash, tag), (version, number), visitor);
        }
        if header.has(Flag::Stashed) && !visitor.is_done() {
            let version = self.segments.stash_version(segment);
            let Some(number) = version.begin() else { return false };
            looked_at[2] = Some((version, number));
            for bucket in self.segments.stash(segment) {
                let of_bucket = (bucket, bucket.header());
                self.visit_bucket(of_bucket, (hash, tag), (version, number), visitor);
            }
        }
        if header.has(Flag::Chained) && !visitor.is_done() {
            self.visit_chained((hash, tag), first, visitor);
        }
        fence(Ordering::Acquire);
        let is_still = |(version, number): (&Version, u64)| version.is_same(number);
        looked_at.into_iter().flatten().all(is_still) && self.directories.is_still(found)
    }

    fn visit_chained(
        &self,
        (hash, tag): (u64, u64),
        (version, number): (&Version, u64),
        visitor: &mut impl Visitor,
    ) {
        for chained in self.chained_of(hash, tag) {
            if !chained.is_pointer {
                visitor.value(chained.value_word);
                continue;
            }
            visitor.buffer(self.values(), Pointer(chained.value_word), || {
                fence(Ordering::Acquire);
                version.is_same(number)
            });
        }
    }

    /// Reads under the locks, which keep changes out.
    #[cold]
    fn visit_locked(&self, hash: u64, tag: u64, visitor: &mut impl Visitor) {
        let mut backoff = Backoff::new();
        let mut both = false;
        loop {
            let _pin = OpPin::<Shared>::new();
            let found = self.locate(hash);
            let mut held = LockedBuckets::lock(&self.segments, found, (hash, tag), both);
            let is_still = self.directories.is_still(found);
            let visited = is_still.then(|| self.visit_held(&mut held, visitor));
            held.unlock();
            match visited {
                Some(Ok(())) => return,
                Some(Err(_)) => both = true,
                None => {}
            }
            backoff.wait();
        }
    }

    /// Shows a visitor all values of a key that is locked.
    ///
    /// # Errors
    /// If the locks must be taken in another order.
    fn visit_held(
        &self,
        held: &mut LockedBuckets<'_, M>,
        visitor: &mut impl Visitor,
    ) -> Result<(), Interrupted> {
        visitor.start();
        let key = (held.hash, held.tag);
        let header = held.first.header();
        // The locks are held, so nothing changes.
        let (_, version) = held.first_version();
        let number = version.held();
        let mut look = |bucket: &Bucket| {
            self.visit_bucket((bucket, bucket.header()), key, (version, number), visitor);
        };
        look(held.first);
        if header.has(Flag::Second) {
            held.lock_second()?;
            look(held.bucket(At::Second));
        }
        if header.has(Flag::Stashed) {
            held.lock_stash();
            self.segments.stash(held.segment()).into_iter().for_each(&mut look);
        }
        if header.has(Flag::Chained) {
            self.visit_chained(key, (version, number), visitor);
        }
        Ok(())
    }

    /// Returns whether a key that is locked has a value.
    pub(super) fn has_held(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
    ) -> Result<bool, Interrupted> {
        let mut contains = Contains { value, is_found: false };
        self.visit_held(held, &mut contains)?;
        Ok(contains.is_found)
    }
}
