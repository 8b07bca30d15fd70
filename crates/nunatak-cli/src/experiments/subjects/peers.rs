//! Maps of other libraries, with boxed byte strings as values, and numbers or boxed byte strings as
//! keys.

use super::{Scratch, Subject, string};
use crate::targets::Hasher;
use std::borrow::Borrow;
use std::hash::Hash;
use std::marker::PhantomData;

/// A byte string that a map owns.
pub(crate) type Boxed = Box<[u8]>;

/// A key of a map of another library.
pub(crate) trait PeerKey:
    Borrow<Self::Borrowed> + Hash + Eq + Send + Sync + 'static
{
    /// The form of the key that a lookup takes.
    type Borrowed: Hash + Eq + ?Sized;

    /// Makes the key of a number. A byte string has `bytes` bytes and is made in `buffer`.
    fn of<'b>(number: &'b u64, bytes: usize, buffer: &'b mut Vec<u8>) -> &'b Self::Borrowed;

    fn owned(key: &Self::Borrowed) -> Self;
}

impl PeerKey for u64 {
    type Borrowed = u64;

    #[inline(always)]
    fn of<'b>(number: &'b u64, _: usize, _: &'b mut Vec<u8>) -> &'b u64 {
        number
    }

    fn owned(key: &u64) -> Self {
        *key
    }
}

impl PeerKey for Boxed {
    type Borrowed = [u8];

    fn of<'b>(number: &'b u64, bytes: usize, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        string(buffer, *number, bytes)
    }

    fn owned(key: &[u8]) -> Self {
        key.into()
    }
}

/// A map of another library.
pub(crate) struct Peer<K, M> {
    map: M,
    key_bytes: usize,
    value_bytes: usize,
    keys: PhantomData<K>,
}

/// Implements [`Subject`] by the calls of a library, for keys of both kinds.
macro_rules! peer {
    (
        $library:ident,
        access |$map:ident, $key:ident, $look:ident| $access:expr,
        insert |$owned:ident, $value:ident| $insert:expr,
        delete $delete:expr
    ) => {
        impl<K: PeerKey> Peer<K, $library::HashMap<K, Boxed, Hasher>> {
            pub(crate) fn new(items: u64, key_bytes: usize, value_bytes: usize) -> Self {
                let items = items as usize;
                let map = $library::HashMap::with_capacity_and_hasher(items, Hasher::default());
                Self { map, key_bytes, value_bytes, keys: PhantomData }
            }
        }

        impl<K: PeerKey> Subject for Peer<K, $library::HashMap<K, Boxed, Hasher>> {
            #[inline(always)]
            fn access(&self, key: u64, scratch: &mut Scratch, mut $look: impl FnMut(&[u8])) {
                let ($map, $key) = (&self.map, K::of(&key, self.key_bytes, &mut scratch.key));
                $access;
            }

            fn insert(&self, key: u64, value: u64, scratch: &mut Scratch) -> bool {
                let key = K::of(&key, self.key_bytes, &mut scratch.key);
                let value = string(&mut scratch.value, value, self.value_bytes);
                let ($map, $owned, $value) = (&self.map, K::owned(key), Boxed::from(value));
                $insert.is_none()
            }

            fn delete(&self, key: u64, scratch: &mut Scratch) -> usize {
                let ($map, $key) = (&self.map, K::of(&key, self.key_bytes, &mut scratch.key));
                usize::from($delete.is_some())
            }
        }
    };
}

/// Gives `DashMap` the name that the maps of the other libraries have.
mod dashmap {
    pub(crate) use ::dashmap::DashMap as HashMap;
}

peer!(
    dashmap,
    access |map, key, look| if let Some(value) = map.get(key) { look(&value) },
    insert |key, value| map.insert(key, value),
    delete map.remove(key)
);
peer!(
    papaya,
    access |map, key, look| if let Some(value) = map.pin().get(key) { look(value) },
    insert |key, value| map.pin().insert(key, value),
    delete map.pin().remove(key)
);
peer!(
    scc,
    access |map, key, look| map.read_sync(key, |_, value| look(value)),
    insert |key, value| map.upsert_sync(key, value),
    delete map.remove_sync(key)
);
