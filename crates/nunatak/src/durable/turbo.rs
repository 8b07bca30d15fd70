//! TurboHash in a file.

use super::content::create_whole;
use super::designs::{
    DurableDesign, InFile, check_bits, hash_for, hash_of, no_table_without_a_file, word_of_bits,
};
use super::options::Options;
use super::pairs::Map;
use crate::error::Error;
use crate::hash::{HashCodec, StableCodec, StableHash};
use crate::memory::durable::{Backing, Description, Kind, Paged, Pool};
use crate::table::iceberg::Recovery;
use crate::table::turbo::{Config, Table, TurboStats};
use crate::table::{Design, HashesWith, Turbo, Unshadowed, file_addresses};

/// TurboHash in a file (sections 3.3 to 3.7 of the paper). An insert, a removal or an update writes
/// back one cache line. A get reads the line of a header and the line of a slot. When a key finds
/// no room its shard is written anew, and no other shard.
///
/// Opening a file reads 16 bytes for each shard. If the file was not closed, the first operation in
/// a shard makes its fingerprints anew, while other operations in the shard wait; the first call of
/// [`len`](crate::durable::FileMap::len) does so in all shards. If not every word stands for a key
/// and for a value (types of fewer than 64 bits, pairs), opening the file checks all entries.
///
/// In the page cache a sync leaves the file in the state of one instant between changes. The first
/// change to a page of 4 KiB after a sync copies the page.
///
/// The options `max_load`, `max_capacity`, `threads`, `journal` and `segment_buckets` have no
/// effect.
///
/// ```
/// use nunatak::durable::TurboMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: TurboMap<u64, u64> = TurboMap::open_or_create(&path)?;
/// map.insert(7, 49)?;
/// map.sync()?;
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type TurboMap<K, V> = Map<K, V, InFile<Turbo>>;

type File = Table<StableCodec, Paged>;

impl Design for InFile<Turbo> {
    type Stats = TurboStats;
    type Table<P: HashCodec> = Table<P, Paged>;
    type Medium = Paged;

    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn table<P: HashCodec>(_codec: P, _capacity: usize) -> Result<Self::Table<P>, Error> {
        no_table_without_a_file()
    }
}

impl HashesWith<StableHash> for InFile<Turbo> {}
impl Unshadowed for InFile<Turbo> {}

/// Describes the table in the words of a file.
fn describe(config: &Config, hash: StableHash, bits: (u32, u32)) -> Description {
    let mut words = [0; 12];
    words[..4].copy_from_slice(&config.to_words());
    words[4] = word_of_bits(bits);
    words[5] = StableHash::VERSION;
    words[6..8].copy_from_slice(&hash.multipliers);
    words
}

/// Returns the constants that a description tells.
pub(super) fn config_of(words: &Description) -> Result<Config, Error> {
    Config::of_words([words[0], words[1], words[2], words[3]])
}

/// Returns these options with the constants of a file's description.
pub(super) fn constants(words: &Description, options: &Options) -> Options {
    let turbo = config_of(words);
    Options { turbo: turbo.unwrap_or_else(|_| options.turbo.clone()), ..options.clone() }
}

impl DurableDesign for InFile<Turbo> {
    const REHEARSES: bool = true;

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn constants(description: &Description, options: &Options) -> Options {
        constants(description, options)
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn create(backing: Backing, options: &Options, bits: (u32, u32)) -> Result<File, Error> {
        let config = File::config_for(options.turbo.clone(), options.capacity)?;
        let hash = hash_for(&backing);
        let description = describe(&config, hash, bits);
        let wanted = options.wanted_by_copies();
        create_whole(backing, Kind::Turbo, &description, wanted, |pool| {
            let medium = Paged::new(pool, file_addresses())?;
            let codec = StableCodec::new(hash.multipliers);
            let table = Table::create(medium, codec, config)?;
            table.sync()?;
            // After the sync, so that no empty pages are copied.
            table.reserve(options.capacity)?;
            Ok(table)
        })
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(File, Recovery), Error> {
        let pool = Pool::open(backing, Kind::Turbo, options.wanted_by_copies())?;
        let words = *pool.description();
        let hash = hash_of(&words[5..])?;
        let config = config_of(&words)?;
        check_bits(words[4], bits)?;
        let medium = Paged::new(pool, file_addresses())?;
        Table::open(medium, StableCodec::new(hash.multipliers), config, None)
    }
}
