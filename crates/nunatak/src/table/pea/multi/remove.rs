//! Taking values of keys out.

use super::{Held, OutOfOrder};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Shared;
use crate::table::pea::Table;
use crate::table::pea::bucket::{Bucket, Flag, Item, SLOTS};
use crate::table::pea::geometry::fingerprint;
use crate::table::pea::values::{Left, Pointer, Values};

impl<P: Placement, M: Medium> Table<P, M> {
    /// Takes one value of a key out that is equal to this one, if there is one.
    pub(crate) fn remove_value(&self, word: u64, value: u64) -> bool {
        let is_removed = self.change(word, |held, _| {
            let found = self.remove_held(held, value)?;
            Ok(Some(found))
        });
        if is_removed {
            self.registry.count::<Shared>(-1);
        }
        is_removed
    }

    fn remove_held(&self, held: &mut Held<'_>, value: u64) -> Result<bool, OutOfOrder> {
        let header = held.first.header();
        if self.remove_in(held, held.first, value) {
            return Ok(true);
        }
        if header.has(Flag::Second) {
            held.lock_second()?;
            if self.remove_in(held, held.second, value) {
                return Ok(true);
            }
        }
        if header.has(Flag::Stashed)
            && self.lock_stash(held).into_iter().any(|bucket| self.remove_in(held, bucket, value))
        {
            return Ok(true);
        }
        Ok(header.has(Flag::Chained) && self.remove_chained(held.hash, held.tag, value))
    }

    fn remove_chained(&self, hash: u64, tag: u64, value: u64) -> bool {
        if self.chains.of(hash, tag).contains(&value) {
            let _ = self.chains.remove(hash, (tag, value));
            return true;
        }
        let pointers = &self.duplicates().pointers;
        pointers.of(hash, tag).into_iter().any(|pointer| {
            match self.values().remove(Pointer(pointer), value) {
                None => return false,
                Some(Left::Many(left)) => drop(pointers.replace(hash, (tag, pointer), left.0)),
                Some(Left::One(left)) => {
                    let _ = pointers.remove(hash, (tag, pointer));
                    // In RAM there is always room in chains.
                    let _ = self.chains.push(hash, (tag, left));
                }
            }
            true
        })
    }

    fn remove_in(&self, held: &Held<'_>, bucket: &Bucket, value: u64) -> bool {
        let fingerprint = fingerprint(held.hash);
        bucket.header().matching(fingerprint).any(|slot| {
            let item = bucket.item(slot);
            if item.tag != held.tag {
                return false;
            }
            if !item.is_pointer {
                if item.second == value {
                    bucket.clear(&self.medium, slot);
                }
                return item.second == value;
            }
            match self.values().remove(Pointer(item.second), value) {
                None => return false,
                Some(Left::Many(left)) => bucket.replace(&self.medium, slot, left.0),
                Some(Left::One(left)) => {
                    bucket.clear_pointer(&self.medium, slot);
                    if !seeded(Bug::LastValueLost) {
                        bucket.add(&self.medium, Item { second: left, is_pointer: false, ..item });
                    }
                }
            }
            true
        })
    }

    /// Takes all values of a key out; how many there were.
    pub(crate) fn remove_values(&self, word: u64) -> usize {
        self.take_values(word, |values, pointer| values.count(pointer, || true), |_| ())
    }

    /// Takes all values of a key out, and returns them.
    pub(crate) fn drain_values(&self, word: u64) -> Vec<u64> {
        let drained = core::cell::RefCell::new(Vec::new());
        self.take_values(
            word,
            |values, pointer| {
                let before = drained.borrow().len();
                values.each(pointer, || true, |value| drained.borrow_mut().push(value));
                drained.borrow().len() - before
            },
            |value| drained.borrow_mut().push(value),
        );
        drained.into_inner()
    }

    /// Takes all values of a key out, and shows the buffers and the others.
    fn take_values(
        &self,
        word: u64,
        buffer: impl Fn(&Values, Pointer) -> usize,
        value: impl Fn(u64),
    ) -> usize {
        let removed = self.change(word, |held, _| {
            let header = held.first.header();
            if header.has(Flag::Second) {
                held.lock_second()?;
            }
            let mut count = 0;
            let mut take = |taken| {
                count += match taken {
                    Taken::Value(of) => {
                        value(of);
                        1
                    }
                    Taken::Buffer(pointer) => {
                        let count = buffer(self.values(), pointer);
                        if !seeded(Bug::BuffersNotFreed) {
                            self.values().free(pointer);
                        }
                        count
                    }
                };
            };
            self.clear_in(held, held.first, &mut take);
            if header.has(Flag::Second) {
                self.clear_in(held, held.second, &mut take);
            }
            if header.has(Flag::Stashed) {
                for bucket in self.lock_stash(held) {
                    self.clear_in(held, bucket, &mut take);
                }
            }
            if header.has(Flag::Chained) {
                self.clear_chained(held.hash, held.tag, &mut take);
            }
            Ok(Some(count))
        });
        if removed > 0 {
            self.registry.count::<Shared>(-(removed as i64));
        }
        removed
    }

    fn clear_in(&self, held: &Held<'_>, bucket: &Bucket, take: &mut impl FnMut(Taken)) {
        let fingerprint = fingerprint(held.hash);
        let (mut slots, mut count) = ([0; SLOTS], 0);
        for slot in bucket.header().matching(fingerprint) {
            slots[count] = slot;
            count += 1;
        }
        // From the last: what takes the place of a pointer comes from behind it.
        for &slot in slots[..count].iter().rev() {
            let item = bucket.item(slot);
            if item.tag != held.tag {
                continue;
            }
            if item.is_pointer {
                bucket.clear_pointer(&self.medium, slot);
                take(Taken::Buffer(Pointer(item.second)));
            } else {
                bucket.clear(&self.medium, slot);
                take(Taken::Value(item.second));
            }
        }
    }

    fn clear_chained(&self, hash: u64, tag: u64, take: &mut impl FnMut(Taken)) {
        for value in self.chains.of(hash, tag) {
            let _ = self.chains.remove(hash, (tag, value));
            take(Taken::Value(value));
        }
        let pointers = &self.duplicates().pointers;
        for pointer in pointers.of(hash, tag) {
            let _ = pointers.remove(hash, (tag, pointer));
            take(Taken::Buffer(Pointer(pointer)));
        }
    }
}

/// What was in a slot.
enum Taken {
    Value(u64),
    Buffer(Pointer),
}
