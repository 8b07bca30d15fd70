//! Durable maps with one value a key, for the suites that crash them. Keys and values are numbers,
//! whatever the map stores for them.

use nunatak::Error;
use nunatak::durable::{
    BlobDesign, BlobsInFile, DurableDesign, FileMap, Map, Options, Recovery, Simulation,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

/// The expected contents of a map.
pub type Contents = BTreeMap<u64, u64>;

/// A durable map of numbers.
#[allow(missing_docs, reason = "they are the map's own")]
pub trait Crashable: Sync + Sized + Debug {
    /// The greatest number of images to check at one moment.
    const IMAGES: u64 = u64::MAX;
    /// A factor by which maps of this type are checked less often: at fewer moments, if not at all
    /// of them, and with fewer images that are operated on.
    const SELDOMER: usize = 1;

    fn create(simulation: &Simulation, options: &Options) -> Result<Self, Error>;
    fn open(simulation: &Simulation, options: &Options) -> Result<Self, Error>;
    fn open_file(path: &Path, options: &Options) -> Result<Self, Error>;
    fn open_or_create_file(path: &Path, options: &Options) -> Result<Self, Error>;
    fn put(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;
    fn put_new(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;
    fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, Error>;
    fn take(&self, key: u64) -> Result<Option<u64>, Error>;
    fn value(&self, key: u64) -> Option<u64>;
    fn contents(&self) -> Contents;
    fn count(&self) -> usize;
    fn check(&self) -> Result<usize, Error>;
    fn found(&self) -> Recovery;
    fn make_durable(&self) -> Result<(), Error>;
    fn shrink(&self) -> Result<(), Error>;
    fn make_room(&self, entries: usize) -> Result<(), Error>;
    /// Returns the statistics of the map, for messages.
    fn inside(&self) -> String;
}

impl<D: DurableDesign> Crashable for Map<u64, u64, D>
where
    Self: Sync,
{
    fn create(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.create(options)
    }

    fn open(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.open(options)
    }

    fn open_file(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_with(path, options)
    }

    fn open_or_create_file(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_or_create_with(path, options)
    }

    fn put(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.insert(key, value)
    }

    fn put_new(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        Ok(self.try_insert(key, value)?.err())
    }

    fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.update(&key, value)
    }

    fn take(&self, key: u64) -> Result<Option<u64>, Error> {
        self.remove(&key)
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn contents(&self) -> Contents {
        self.iter().collect()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn check(&self) -> Result<usize, Error> {
        self.verify()
    }

    fn found(&self) -> Recovery {
        self.recovery()
    }

    fn make_durable(&self) -> Result<(), Error> {
        self.sync()
    }

    fn shrink(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn make_room(&self, entries: usize) -> Result<(), Error> {
        self.reserve(entries)
    }

    fn inside(&self) -> String {
        format!("{:?}", self.stats())
    }
}

/// Returns a byte string whose length and bytes follow from the number.
pub fn bytes_of(number: u64, least: u64) -> Vec<u8> {
    let length = match number {
        // Only values are that long, not keys.
        _ if least == VALUE && number % 199 == 1 => 70_000,
        _ if least == VALUE && number.is_multiple_of(23) => 4000,
        other => least + other % 23 * 9,
    };
    let filling = (8..length.max(8)).map(|at| (number.wrapping_mul(31).wrapping_add(at)) as u8);
    number.to_le_bytes().into_iter().chain(filling).collect()
}

/// Returns the number that a byte string was made from.
///
/// # Panics
/// If the bytes are not those of one number.
pub fn number_of(bytes: &[u8], least: u64) -> u64 {
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("a number"));
    assert!(bytes == bytes_of(number, least), "bytes of {number} are torn");
    number
}

const KEY: u64 = 8;
const VALUE: u64 = 20;

/// Keys of this number and later ones are byte strings of one hash, in a simulation. They fill the
/// places of a hash, so that the rest of them goes to chains.
pub const COLLIDING: u64 = 1 << 40;

/// XXH3 of a string of 32 bytes that begins with this word multiplies the next eight bytes by zero.
/// It is the first word of the hash's secret, plus the seed of every simulated file.
const ZERO_FACTOR: u64 = 0xBE4B_A423_396C_FEB8 + 1;

/// Returns the key of a number in a map of byte strings; keys are short.
pub fn bytes_of_key(number: u64) -> Vec<u8> {
    match number < COLLIDING {
        true => bytes_of(number, KEY),
        false => [ZERO_FACTOR, number, 0, 0].map(u64::to_le_bytes).concat(),
    }
}

fn number_of_key(bytes: &[u8]) -> u64 {
    match bytes.strip_prefix(&ZERO_FACTOR.to_le_bytes()).and_then(|rest| rest.first_chunk()) {
        Some(number) => u64::from_le_bytes(*number),
        None => number_of(bytes, KEY),
    }
}

/// Returns the value of a number in a map of byte strings.
pub fn bytes_of_value(number: u64) -> Vec<u8> {
    bytes_of(number, VALUE)
}

fn number_of_value(bytes: &[u8]) -> u64 {
    number_of(bytes, VALUE)
}

impl<D: BlobDesign> Crashable for FileMap<BlobsInFile<D>> {
    // A torn blob has more images than a test can check.
    const IMAGES: u64 = 3;
    const SELDOMER: usize = 9;

    fn create(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.create(options)
    }

    fn open(simulation: &Simulation, options: &Options) -> Result<Self, Error> {
        simulation.open(options)
    }

    fn open_file(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_with(path, options)
    }

    fn open_or_create_file(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_or_create_with(path, options)
    }

    fn put(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let before = self.insert(&bytes_of_key(key), &bytes_of_value(value))?;
        Ok(before.map(|value| number_of_value(&value)))
    }

    fn put_new(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let present = self.try_insert(&bytes_of_key(key), &bytes_of_value(value))?.err();
        Ok(present.map(|value| number_of_value(&value)))
    }

    fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let before = self.update(&bytes_of_key(key), &bytes_of_value(value))?;
        Ok(before.map(|value| number_of_value(&value)))
    }

    fn take(&self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.remove(&bytes_of_key(key))?.map(|value| number_of_value(&value)))
    }

    fn value(&self, key: u64) -> Option<u64> {
        self.get_with(&bytes_of_key(key), number_of_value)
    }

    fn contents(&self) -> Contents {
        let all = self.iter();
        all.map(|(key, value)| (number_of_key(&key), number_of_value(&value))).collect()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn check(&self) -> Result<usize, Error> {
        let entries = self.verify()?;
        self.reclaim();
        let stats = self.blob_stats();
        assert_eq!(stats.blobs, entries, "a blob is no key's, or a key has none: {stats:?}");
        Ok(entries)
    }

    fn found(&self) -> Recovery {
        self.recovery()
    }

    fn make_durable(&self) -> Result<(), Error> {
        self.sync()
    }

    fn shrink(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn make_room(&self, entries: usize) -> Result<(), Error> {
        self.reserve(entries)
    }

    fn inside(&self) -> String {
        format!("{:?} {:?}", self.stats(), self.blob_stats())
    }
}
