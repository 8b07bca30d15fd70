//! Threads that use every kind of map of every table while the maps grow, shrink and are cut, for
//! the sanitizers (`.ci/sanitizers`).
//!
//! The threads are the system's own. ThreadSanitizer would report false races in the standard
//! library's threads, which are not instrumented.
#[cfg(unix)]
mod multi;
#[cfg(unix)]
mod wide;

#[cfg(unix)]
fn main() {
    stress::run();
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod stress {
    use nunatak::{
        Blocks, BoxedMap, DlhtBoxedMap, DlhtMap, HashesWith, IcebergMap, InlineMap, PeaMap,
        RandomState, TurboMap, Unshadowed,
    };
    use std::ffi::c_void;

    pub(super) const THREADS: usize = 4;
    pub(super) const ROUNDS: u64 = 60_000;
    pub(super) const KEYS: u64 = 512;

    struct Maps<D: HashesWith<RandomState> + Unshadowed> {
        inline: InlineMap<u64, u64, RandomState, D>,
        boxed: BoxedMap<String, String, RandomState, D>,
    }

    struct Task<'m, D: HashesWith<RandomState> + Unshadowed> {
        maps: &'m Maps<D>,
        seed: u64,
    }

    /// Makes a value that contains its key.
    pub(super) fn value(key: u64, n: u64) -> u64 {
        key << 32 | (n & 0xFFFF_FFFF)
    }

    fn step<D: HashesWith<RandomState> + Unshadowed>(maps: &Maps<D>, random: u64, round: u64) {
        let key = random >> 40 & (KEYS - 1);
        let name = key.to_string();
        match random >> 32 & 15 {
            0..=3 => {
                if let Some(found) = maps.inline.get(&key) {
                    assert_eq!(found >> 32, key, "a value of another key");
                }
                if let Some(found) = maps.boxed.get(&name) {
                    assert!(found.starts_with(&name), "a value of another key");
                }
            }
            4..=7 => {
                maps.inline.insert(key, value(key, round));
                maps.boxed.insert(name.clone(), format!("{name}:{round}"));
            }
            8..=10 => {
                maps.inline.remove(&key);
                maps.boxed.remove(&name);
            }
            11 => {
                maps.inline.update(&key, value(key, round));
                maps.boxed.update(&name, format!("{name}:{round}"));
            }
            12 => {
                let _ = maps.inline.fetch_update(&key, |present| Some(present ^ 1));
                let guard = maps.boxed.pin();
                if let Some(found) = guard.get(&name) {
                    assert!(found.starts_with(&name));
                }
            }
            13 => {
                // Keys of this round only, so that the maps grow.
                maps.inline.insert(KEYS + round, value(KEYS + round, 0));
            }
            14 if round.is_multiple_of(512) => {
                maps.inline.retain(|&key, _| key < KEYS);
                maps.inline.shrink_to_fit().expect("memory for a smaller index");
                maps.boxed.shrink_to_fit().expect("memory for a smaller index");
            }
            15 if round % 512 == 1 => {
                let cut = maps.inline.snapshot().expect("memory for a second index");
                cut.for_each(|(key, value)| assert_eq!(value >> 32, key));
                let cut = maps.boxed.snapshot().expect("memory for a second index");
                cut.for_each(|(key, value)| assert!(value.starts_with(&key)));
            }
            _ => {
                let keys = [key, key ^ 1, key ^ 2];
                let mut values = [None; 3];
                maps.inline.get_many(&keys, &mut values).expect("as many results");
                for (key, value) in keys.iter().zip(values) {
                    assert!(value.is_none_or(|value| value >> 32 == *key));
                }
            }
        }
    }

    extern "C" fn thread<D: HashesWith<RandomState> + Unshadowed>(
        task: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: `run` keeps the tasks until it has joined the threads.
        let task = unsafe { &*task.cast::<Task<'_, D>>() };
        let mut random = task.seed;
        for round in 0..ROUNDS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            step(task.maps, random, round);
        }
        std::ptr::null_mut()
    }

    pub(super) fn run() {
        let dlht = DlhtMap::<u64, u64>::builder().initial_bins(2).growth_factor(2);
        run_on(&Maps {
            inline: dlht.transfer_chunk(2).build().expect("valid options"),
            boxed: DlhtBoxedMap::new(),
        });
        let iceberg = || IcebergMap::<u64, u64>::builder().blocks::<Blocks<8, 2>>().max_load(0.95);
        run_on(&Maps {
            inline: iceberg().build().expect("valid options"),
            boxed: iceberg().build_boxed().expect("valid options"),
        });
        let iceberg = IcebergMap::<u64, u64>::builder;
        run_on(&Maps {
            inline: iceberg().build().expect("valid options"),
            boxed: iceberg().build_boxed().expect("valid options"),
        });
        for buckets in [2, 2048] {
            let pea = || PeaMap::<u64, u64>::builder().segment_buckets(buckets);
            run_on(&Maps {
                inline: pea().build().expect("valid options"),
                boxed: pea().build_boxed().expect("valid options"),
            });
        }
        for shards in [2, 1024] {
            let turbo = || TurboMap::<u64, u64>::builder().shards(shards);
            run_on(&Maps {
                inline: turbo().build().expect("valid options"),
                boxed: turbo().build_boxed().expect("valid options"),
            });
        }
        super::wide::run();
        super::blobs::run();
        super::narrow::run::<nunatak::Entry12>();
        super::narrow::run::<nunatak::Entry8>();
        for buckets in [2, 64] {
            super::multi::run(buckets);
        }
        #[cfg(target_os = "linux")]
        super::durable::run();
    }

    /// Runs each task in a thread of its own.
    pub(super) fn run_threads<T>(
        tasks: &mut [T],
        thread: extern "C" fn(*mut c_void) -> *mut c_void,
    ) {
        let handles: Vec<libc::pthread_t> = tasks
            .iter_mut()
            .map(|task| {
                let mut handle = 0;
                let argument = std::ptr::from_mut(task).cast();
                // SAFETY: the task outlives the thread, which is joined below.
                let created = unsafe {
                    libc::pthread_create(&raw mut handle, std::ptr::null(), thread, argument)
                };
                assert_eq!(created, 0, "no thread");
                handle
            })
            .collect();
        for handle in handles {
            // SAFETY: created above and joined once.
            let joined = unsafe { libc::pthread_join(handle, std::ptr::null_mut()) };
            assert_eq!(joined, 0, "a thread that can't be joined");
        }
    }

    fn run_on<D: HashesWith<RandomState> + Unshadowed>(maps: &Maps<D>) {
        let mut tasks: Vec<Task<'_, D>> =
            (0..THREADS as u64).map(|seed| Task { maps, seed: seed * 7919 + 1 }).collect();
        run_threads(&mut tasks, thread::<D>);
        for key in 0..KEYS {
            assert!(maps.inline.get(&key).is_none_or(|value| value >> 32 == key));
        }
        assert_eq!(maps.inline.len(), maps.inline.iter().count());
        assert_eq!(maps.boxed.len(), maps.boxed.pin().iter().count());
        println!("{} and {} entries, nothing wrong", maps.inline.len(), maps.boxed.len());
    }
}

/// Maps of byte strings, whose memory is reused all the time.
#[cfg(unix)]
mod blobs {
    use super::stress::{KEYS, ROUNDS, THREADS, run_threads};
    use nunatak::{DlhtShadowRecordMap, TurboBlobMap, TurboMap};
    use std::ffi::c_void;

    /// A map of byte strings, in RAM or in a file.
    pub(super) trait Blobs: Sync {
        fn put(&self, key: &[u8], value: &[u8]);
        fn delete(&self, key: &[u8]);
        fn shrink(&self);
        fn look(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>));
    }

    macro_rules! impl_blobs {
        ($map:ty, $done:expr) => {
            impl Blobs for $map {
                fn put(&self, key: &[u8], value: &[u8]) {
                    self.put(key, value).map(drop).expect("room");
                }

                fn delete(&self, key: &[u8]) {
                    let _: bool = $done(self.delete(key));
                }

                fn shrink(&self) {
                    self.shrink_to_fit().expect("room for a move");
                }

                fn look(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>)) {
                    look(self.pin().get(key));
                }
            }
        };
    }

    impl_blobs!(TurboBlobMap, core::convert::identity);
    #[cfg(target_os = "linux")]
    impl_blobs!(nunatak::durable::TurboBlobMap, |done: Result<_, _>| done.expect("a file"));

    /// Records, most of which are hidden first. Every other key is too long for a slot.
    struct Hidden(DlhtShadowRecordMap);

    impl Hidden {
        fn key(key: &[u8]) -> Vec<u8> {
            key.repeat(1 + usize::from(key[0] & 1))
        }
    }

    impl Blobs for Hidden {
        fn put(&self, key: &[u8], value: &[u8]) {
            let key = Self::key(key);
            match self.0.shadow_insert(&key, value) {
                Ok(shadow) if value.len().is_multiple_of(3) => shadow.abort(),
                Ok(shadow) => shadow.commit(),
                Err(_) => assert!(matches!(
                    self.0.put(&key, value),
                    Ok(_) | Err(nunatak::Error::Shadowed)
                )),
            }
        }

        fn delete(&self, key: &[u8]) {
            self.0.delete(&Self::key(key));
        }

        fn shrink(&self) {
            self.0.shrink_to_fit().expect("room for a smaller index");
            assert!(self.0.snapshot().expect("room for a cut").count() <= KEYS as usize);
        }

        fn look(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>)) {
            look(self.0.pin().get(&Self::key(key)));
        }
    }

    struct Task<'m, M> {
        map: &'m M,
        rounds: u64,
        seed: u64,
    }

    /// Makes a value of up to 100 bytes, all of them the key's lowest byte.
    fn value(key: u64, n: u64) -> Vec<u8> {
        vec![key as u8; 1 + (n % 100) as usize]
    }

    extern "C" fn thread<M: Blobs>(task: *mut c_void) -> *mut c_void {
        // SAFETY: `run_on` keeps the tasks until it has joined the threads.
        let task = unsafe { &*task.cast::<Task<'_, M>>() };
        let (map, mut random) = (task.map, task.seed);
        for round in 0..task.rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = random >> 40 & (KEYS - 1);
            match random >> 32 & 15 {
                0..=5 => map.put(&key.to_le_bytes(), &value(key, round)),
                6..=8 => map.delete(&key.to_le_bytes()),
                9 if round % 1024 == 0 => map.shrink(),
                _ => map.look(&key.to_le_bytes(), |found| {
                    let is_whole = |value: &[u8]| value.iter().all(|&byte| byte == key as u8);
                    assert!(found.is_none_or(is_whole), "bytes of another value");
                }),
            }
        }
        std::ptr::null_mut()
    }

    pub(super) fn run_on<M: Blobs>(map: &M, rounds: u64) {
        let task = |seed| Task { map, rounds, seed: seed * 7919 + 1 };
        let mut tasks: Vec<_> = (0..THREADS as u64).map(task).collect();
        run_threads(&mut tasks, thread::<M>);
    }

    pub(super) fn run() {
        let builder = TurboMap::<u64, u64>::builder().shards(8);
        let map = builder.build_blobs().expect("valid options");
        run_on(&map, ROUNDS);
        assert_eq!(map.reclaim(), 0);
        assert_eq!(map.len(), map.blob_stats().blobs);
        println!("{} byte strings, nothing wrong", map.len());
        let records = Hidden(DlhtShadowRecordMap::new());
        run_on(&records, ROUNDS);
        assert_eq!((records.0.reclaim(), records.0.len()), (0, records.0.blob_stats().blobs));
        println!("{} records, nothing wrong", records.0.len());
    }
}

/// Maps of smaller entries.
#[cfg(unix)]
mod narrow {
    use super::stress::{KEYS, ROUNDS, THREADS, run_threads};
    use nunatak::{EntrySize, InlineMap, Pea, PeaMap, RandomState};
    use std::ffi::c_void;

    type Map<E> = InlineMap<u32, u32, RandomState, Pea<E>>;

    struct Task<'m, E: EntrySize> {
        map: &'m Map<E>,
        seed: u64,
    }

    fn value(key: u32, n: u32) -> u32 {
        key << 16 | n & 0xFFFF
    }

    extern "C" fn thread<E: EntrySize>(task: *mut c_void) -> *mut c_void {
        // SAFETY: `run` keeps the tasks until it has joined the threads.
        let task = unsafe { &*task.cast::<Task<'_, E>>() };
        let (map, mut random) = (task.map, task.seed);
        for round in 0..ROUNDS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 40 & (KEYS - 1)) as u32;
            match random >> 32 & 15 {
                0..=4 => {
                    map.insert(key, value(key, round as u32));
                }
                5..=9 => {
                    map.remove(&key);
                }
                10 if round % 512 == 0 => map.shrink_to_fit().expect("memory for a merge"),
                11 => {
                    let found = map.iter().take(8).all(|(key, value)| value >> 16 == key);
                    assert!(found, "a value of another key");
                }
                _ => assert!(map.get(&key).is_none_or(|found| found >> 16 == key)),
            }
        }
        std::ptr::null_mut()
    }

    pub(super) fn run<E: EntrySize>() {
        let builder = PeaMap::<u64, u64>::builder().segment_buckets(2);
        let map: Map<E> = builder.build().expect("valid options");
        let seeds = 0..THREADS as u64;
        let mut tasks: Vec<_> =
            seeds.map(|seed| Task { map: &map, seed: seed * 7919 + 1 }).collect();
        run_threads(&mut tasks, thread::<E>);
        assert_eq!(map.len(), map.iter().count());
        println!("{} small entries, nothing wrong", map.len());
    }
}

/// Maps in files, with every durability that this machine has.
#[cfg(target_os = "linux")]
mod durable {
    use super::stress::{KEYS, ROUNDS, THREADS, run_threads, value};
    use nunatak::durable::{
        Durability, DurableDesign, InFile, Map, Options, PeaMultiMap, TurboBlobMap,
    };
    use nunatak::{Blocks, Iceberg, Pea, Turbo};
    use std::ffi::c_void;
    use std::time::Duration;

    struct Task<'m, D: DurableDesign> {
        map: &'m Map<u64, u64, D>,
        seed: u64,
    }

    fn step<D: DurableDesign>(
        map: &Map<u64, u64, D>,
        random: u64,
        round: u64,
    ) -> Result<(), nunatak::Error> {
        let key = random >> 40 & (KEYS - 1);
        let is_its = |found: u64| assert_eq!(found >> 32, key, "a value of another key");
        match random >> 32 & 15 {
            0..=4 => map.get(&key).into_iter().for_each(is_its),
            5..=8 => map.insert(key, value(key, round))?.into_iter().for_each(is_its),
            9..=11 => map.remove(&key)?.into_iter().for_each(is_its),
            12 => map.update(&key, value(key, round))?.into_iter().for_each(is_its),
            // Keys of this round only, so that the map grows.
            13 => map.insert(KEYS + round, value(KEYS + round, 0)).map(drop)?,
            14 if round.is_multiple_of(512) => {
                map.retain(|&key, _| key < KEYS)?;
                map.shrink_to_fit()?;
            }
            15 if round % 512 == 1 => {
                map.snapshot()?.for_each(|(key, value)| assert_eq!(value >> 32, key));
                map.sync()?;
            }
            _ => {
                let entries = [key, key ^ 1].map(|key| (key, value(key, round)));
                map.insert_many(&entries, &mut [None; 2])?;
                let mut values = [None; 2];
                map.get_many(&[key, key ^ 1], &mut values).expect("as many results");
                values[0].into_iter().for_each(is_its);
            }
        }
        Ok(())
    }

    extern "C" fn thread<D: DurableDesign>(task: *mut c_void) -> *mut c_void {
        // SAFETY: `run` keeps the tasks until it has joined the threads.
        let task = unsafe { &*task.cast::<Task<'_, D>>() };
        let mut random = task.seed;
        for round in 0..ROUNDS / 4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            step(task.map, random, round).expect("a disk that works");
        }
        std::ptr::null_mut()
    }

    pub(super) fn run() {
        let often = Durability::Interval(Duration::from_millis(3));
        for options in [Options::new(), Options::new().durability(often).journal(1 << 20)] {
            run_with::<InFile<Iceberg<Blocks<8, 2>>>>(&options);
            run_with::<InFile<Pea>>(&options.clone().segment_buckets(2));
            run_with::<InFile<Turbo>>(&options.clone().shards(4));
            run_blobs(&options.clone().shards(4));
            run_multi(&options.segment_buckets(2));
        }
    }

    fn run_blobs(options: &Options) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("map");
        let map = TurboBlobMap::create_with(&path, options).expect("a new file");
        super::blobs::run_on(&map, ROUNDS / 4);
        let found = map.len();
        assert_eq!((map.reclaim(), map.verify()), (0, Ok(found)));
        map.close().expect("closed");
        let map = TurboBlobMap::open(&path).expect("opened");
        assert_eq!((map.len(), map.blob_stats().blobs, map.verify()), (found, found, Ok(found)));
        println!("{found} byte strings in a file, nothing wrong");
    }

    fn run_multi(options: &Options) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("map");
        let map = PeaMultiMap::create_with(&path, options).expect("a new file");
        super::multi::run_on(&map, ROUNDS / 4);
        let found = map.iter().count();
        assert_eq!((map.len(), map.verify()), (found, Ok(found)));
        map.close().expect("closed");
        let map: PeaMultiMap<u64, u64> = PeaMultiMap::open(&path).expect("opened");
        assert_eq!((map.len(), map.recovery().was_closed), (found, true));
        println!("{found} values in a file, nothing wrong");
    }

    fn run_with<D: DurableDesign>(options: &Options) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("map");
        let map: Map<u64, u64, D> = Map::create_with(&path, options).expect("a new file");
        let task = |seed| Task { map: &map, seed: seed * 7919 + 1 };
        let mut tasks: Vec<Task<'_, D>> = (0..THREADS as u64).map(task).collect();
        run_threads(&mut tasks, thread::<D>);
        let found = map.iter().count();
        assert_eq!((map.len(), map.verify()), (found, Ok(found)));
        map.close().expect("closed");
        let map: Map<u64, u64, D> = Map::open(&path).expect("opened");
        assert_eq!((map.len(), map.recovery().was_closed), (found, true));
        println!("{found} entries in a file, nothing wrong");
    }
}
