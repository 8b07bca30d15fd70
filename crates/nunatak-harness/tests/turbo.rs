//! Every map of TurboHash passes the suite that fits it.

use nunatak::entry;
use nunatak::{
    Entry8, Entry12, EntrySize, InlineMap, RandomState, Turbo, TurboBoxedMap, TurboBuilder,
    TurboMap,
};
use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{Data, HashedSubject, Subject};
use std::marker::PhantomData;

/// Two shards that are stored anew again and again, and keys in chains.
fn adversarial<S>(builder: TurboBuilder<S>) -> TurboBuilder<S> {
    builder.shards(2).scope(2).tombstones(0.05)
}

struct Inline;

impl Subject<u64, u64> for Inline {
    type Map = TurboMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

impl HashedSubject<u64, u64> for Inline {
    type Map = TurboMap<u64, u64, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build().expect("valid options")
    }
}

/// Shards as users get them.
struct Default;

impl Subject<u64, u64> for Default {
    type Map = TurboMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        TurboMap::with_capacity(capacity)
    }
}

/// Of smaller entries.
struct Narrow<E>(PhantomData<E>);

impl<E: EntrySize, V: entry::Inline + Data> Subject<u32, V> for Narrow<E> {
    type Map = InlineMap<u32, V, RandomState, Turbo<E>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

impl<E: EntrySize, V: entry::Inline + Data> HashedSubject<u32, V> for Narrow<E> {
    type Map = InlineMap<u32, V, TestHasher, Turbo<E>>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build().expect("valid options")
    }
}

struct Boxed;

impl<K: Data, V: Data> Subject<K, V> for Boxed {
    type Map = TurboBoxedMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build_boxed().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build_boxed().expect("valid options")
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Boxed {
    type Map = TurboBoxedMap<K, V, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build_boxed().expect("valid options")
    }
}

nunatak_harness::suite_inline!(inline, Inline);
nunatak_harness::suite_inline!(default_shards, Default);
nunatak_harness::suite_inline!(entries_of_12, u32, u64, Narrow::<Entry12>(PhantomData));
nunatak_harness::suite_inline!(entries_of_8, u32, u32, Narrow::<Entry8>(PhantomData));
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(hashed_of_12, u32, u64, Narrow::<Entry12>(PhantomData));
nunatak_harness::suite_hashers!(hashed_of_8, u32, u32, Narrow::<Entry8>(PhantomData));
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);
