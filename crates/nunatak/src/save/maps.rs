//! How the maps save their entries.

use super::file::{Entries, Kind, Reader, Writer};
use super::{Portable, Save};
use crate::entry::{self, Inline, InlineKey, Naming};
use crate::error::Error;
use crate::hash::Hashing;
use crate::map::{BoxedMap, ByteMap, InlineMap, InlineSet, PeaBlobMultiMap, PeaMultiMap};
use crate::table::{Design, HashesWith, Unshadowed};
use core::hash::{BuildHasher, Hash};
use std::path::Path;

/// Words of a file, which are checked before they become keys and values.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default())
}

/// Reads the pairs of a block, unless they are none.
fn pairs_of<K: Inline, V: Inline>(block: &[u8], entries: u64, pairs: &mut Vec<(K, V)>) -> bool {
    pairs.clear();
    if block.len() as u64 != entries.saturating_mul(16) {
        return false;
    }
    for pair in block.chunks_exact(16) {
        let (key, value) = (word_at(pair, 0), word_at(pair, 1));
        if !K::is_word(key) || !V::is_word(value) {
            return false;
        }
        pairs.push((K::from_word(key), V::from_word(value)));
    }
    true
}

/// Saves pairs of words.
fn save_pairs<K: Inline, V: Inline>(
    path: &Path,
    kind: Kind,
    pairs: impl Iterator<Item = (K, V)>,
) -> Result<usize, Error> {
    let mut writer = Writer::create(path, Entries { kind, bits: [K::BITS, V::BITS] })?;
    for (key, value) in pairs {
        writer.add(|bytes| {
            bytes.extend_from_slice(&key.to_word().to_le_bytes());
            bytes.extend_from_slice(&value.to_word().to_le_bytes());
        })?;
    }
    writer.finish(path)
}

/// Reads pairs of words: makes room for so many, and stores them by blocks.
fn load_pairs<K: Inline, V: Inline>(
    path: &Path,
    kind: Kind,
    make_room: impl FnOnce(usize) -> Result<(), Error>,
    mut store: impl FnMut(&[(K, V)]),
) -> Result<usize, Error> {
    let mut reader = Reader::open(path, Entries { kind, bits: [K::BITS, V::BITS] })?;
    make_room(reader.at_most(16))?;
    let mut pairs = Vec::new();
    reader.each_block(|block, entries| {
        let are_pairs = pairs_of(block, entries, &mut pairs);
        if are_pairs {
            store(&pairs);
        }
        Ok(are_pairs)
    })?;
    Ok(reader.count() as usize)
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> Save
    for InlineMap<K, V, S, D>
{
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        save_pairs(path.as_ref(), Kind::Words, self.snapshot()?)
    }

    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let mut previous = Vec::new();
        let make_room = |pairs| self.reserve(pairs);
        load_pairs(path.as_ref(), Kind::Words, make_room, |pairs| {
            previous.resize(pairs.len(), None);
            // There is a result for each, so nothing is refused.
            let _ = self.insert_many(pairs, &mut previous);
        })
    }
}

impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> Save for InlineSet<K, S, D> {
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let mut writer =
            Writer::create(path.as_ref(), Entries { kind: Kind::Keys, bits: [K::BITS, 0] })?;
        for key in self.snapshot()? {
            writer.add(|bytes| bytes.extend_from_slice(&key.to_word().to_le_bytes()))?;
        }
        writer.finish(path.as_ref())
    }

    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let entries = Entries { kind: Kind::Keys, bits: [K::BITS, 0] };
        let mut reader = Reader::open(path.as_ref(), entries)?;
        self.reserve(reader.at_most(8))?;
        let (mut keys, mut before) = (Vec::new(), Vec::new());
        reader.each_block(|block, entries| {
            let words = || (0..block.len() / 8).map(|at| word_at(block, at));
            if block.len() as u64 != entries.saturating_mul(8) || !words().all(K::is_word) {
                return Ok(false);
            }
            keys.clear();
            keys.extend(words().map(K::from_word));
            before.resize(keys.len(), None);
            // There is a result for each.
            Ok(self.insert_many(&keys, &mut before).is_ok())
        })?;
        Ok(reader.count() as usize)
    }
}

/// Every value of every key.
impl<K: InlineKey, V: Inline, S: Hashing> Save for PeaMultiMap<K, V, S> {
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        save_pairs(path.as_ref(), Kind::ManyWords, self.snapshot()?)
    }

    /// Adds the values to those that keys have.
    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        // How many keys there are is not known.
        let make_room = |_| Ok(());
        load_pairs(path.as_ref(), Kind::ManyWords, make_room, |pairs| self.insert_many(pairs))
    }
}

/// Appends bytes, and their length before them.
fn append_string(bytes: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 8]);
    append(bytes);
    let length = (bytes.len() - start - 8) as u64;
    bytes[start..start + 8].copy_from_slice(&length.to_le_bytes());
}

/// Takes a string and its length from the beginning of a block.
fn take_string<'b>(block: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = block.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (string, rest) = rest.split_at_checked(length)?;
    *block = rest;
    Some(string)
}

impl<K, V, S, D: Design> Save for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone + Portable,
    V: Clone + Portable,
    S: BuildHasher,
{
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let mut writer =
            Writer::create(path.as_ref(), Entries { kind: Kind::Portable, bits: [0; 2] })?;
        for (key, value) in self.snapshot()? {
            writer.add(|bytes| {
                append_string(bytes, |bytes| key.write(bytes));
                append_string(bytes, |bytes| value.write(bytes));
            })?;
        }
        writer.finish(path.as_ref())
    }

    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let entries = Entries { kind: Kind::Portable, bits: [0; 2] };
        let mut reader = Reader::open(path.as_ref(), entries)?;
        self.reserve(reader.at_most(16))?;
        let mut all = Vec::new();
        reader.each_block(|mut block, entries| {
            all.clear();
            for _ in 0..entries {
                let key = take_string(&mut block).and_then(K::read);
                let value = take_string(&mut block).and_then(V::read);
                let (Some(key), Some(value)) = (key, value) else { return Ok(false) };
                all.push((key, value));
            }
            let are_all = block.is_empty();
            if are_all {
                all.drain(..).for_each(|(key, value)| drop(self.insert(key, value)));
            }
            Ok(are_all)
        })?;
        Ok(reader.count() as usize)
    }
}

impl<E: entry::Entries, D: Design> Save for ByteMap<E, D> {
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let bits = [u32::from(E::Naming::HAS_NAMESPACES), 0];
        let mut writer = Writer::create(path.as_ref(), Entries { kind: Kind::Bytes, bits })?;
        for (key, value) in self.snapshot()? {
            let (namespace, key) = E::Naming::parts(E::Naming::of_owned(&key));
            writer.add(|bytes| {
                bytes.extend_from_slice(&namespace.to_le_bytes());
                append_string(bytes, |bytes| bytes.extend_from_slice(key));
                append_string(bytes, |bytes| bytes.extend_from_slice(&value));
            })?;
        }
        writer.finish(path.as_ref())
    }

    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let bits = [u32::from(E::Naming::HAS_NAMESPACES), 0];
        let mut reader = Reader::open(path.as_ref(), Entries { kind: Kind::Bytes, bits })?;
        self.reserve(reader.at_most(18))?;
        let most = if E::Naming::HAS_NAMESPACES { crate::Namespace::COUNT } else { 1 };
        reader.each_block(|block, entries| {
            let (mut rest, mut all) = (block, Vec::with_capacity(block.len() / 18));
            for _ in 0..entries {
                let Some((namespace, behind)) = rest.split_first_chunk() else { return Ok(false) };
                rest = behind;
                let namespace = u16::from_le_bytes(*namespace);
                let (key, value) = (take_string(&mut rest), take_string(&mut rest));
                let (Some(key), Some(value)) = (key, value) else { return Ok(false) };
                if namespace >= most {
                    return Ok(false);
                }
                all.push((namespace, key, value));
            }
            if !rest.is_empty() {
                return Ok(false);
            }
            for (namespace, key, value) in all {
                self.put(E::Naming::of_parts(namespace, key), value)?;
            }
            Ok(true)
        })?;
        Ok(reader.count() as usize)
    }
}

/// Every value of every key.
impl<V: Inline, S: BuildHasher + Send + Sync + 'static> Save for PeaBlobMultiMap<V, S> {
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let entries = Entries { kind: Kind::ManyBytes, bits: [0, V::BITS] };
        let mut writer = Writer::create(path.as_ref(), entries)?;
        for (key, value) in self.snapshot()? {
            writer.add(|bytes| {
                append_string(bytes, |bytes| bytes.extend_from_slice(&key));
                bytes.extend_from_slice(&value.to_word().to_le_bytes());
            })?;
        }
        writer.finish(path.as_ref())
    }

    /// Adds the values to those that keys have.
    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let entries = Entries { kind: Kind::ManyBytes, bits: [0, V::BITS] };
        let mut reader = Reader::open(path.as_ref(), entries)?;
        reader.each_block(|mut block, entries| {
            let mut pairs = Vec::with_capacity(block.len() / 16);
            for _ in 0..entries {
                let Some(key) = take_string(&mut block) else { return Ok(false) };
                let Some((word, rest)) = block.split_first_chunk() else { return Ok(false) };
                let word = u64::from_le_bytes(*word);
                if !V::is_word(word) {
                    return Ok(false);
                }
                block = rest;
                pairs.push((key, V::from_word(word)));
            }
            let are_all = block.is_empty();
            if are_all {
                self.insert_many(&pairs)?;
            }
            Ok(are_all)
        })?;
        Ok(reader.count() as usize)
    }
}
