//! Pea Hash in a file.

use super::content::create_whole;
use super::designs::{
    DurableDesign, InFile, check_bits, hash_for, hash_of, no_table_without_a_file, word_of_bits,
};
use super::options::Options;
use super::pairs::Map;
use crate::error::{Error, FileError};
use crate::hash::{HashCodec, StableCodec, StableHash};
use crate::memory::durable::{Backing, Description, Kind, Paged, Pool};
use crate::table::iceberg::Recovery;
use crate::table::pea::{Config, PeaStats, Strategy, Table};
use crate::table::{Design, HashesWith, Pea, Unshadowed, file_addresses};

/// Pea Hash in a file (section 3.4 of the paper). An insert, a removal or an update writes back one
/// cache line. A get reads the line of a header and the line of a slot.
///
/// Opening a file reads 16 bytes for each segment of 512 KiB. If the file was not closed, the first
/// operation in a segment makes its fingerprints anew, which takes half a millisecond; the first
/// call of [`len`](crate::durable::FileMap::len) does so in all segments. If not every word stands
/// for a key and for a value (types of fewer than 64 bits, pairs), opening the file checks all
/// entries.
///
/// In the page cache a sync leaves the file in the state of one instant between changes. The first
/// change to a page of 4 KiB after a sync copies the page.
///
/// The options `max_load`, `max_capacity`, `threads` and `journal` have no effect.
///
/// ```
/// use nunatak::durable::PeaMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: PeaMap<u64, u64> = PeaMap::open_or_create(&path)?;
/// map.insert(7, 49)?;
/// map.sync()?;
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type PeaMap<K, V> = Map<K, V, InFile<Pea>>;

pub(super) type File = Table<StableCodec, Paged>;

impl Design for InFile<Pea> {
    type Stats = PeaStats;
    type Table<P: HashCodec> = Table<P, Paged>;
    type Medium = Paged;

    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn table<P: HashCodec>(_codec: P, _capacity: usize) -> Result<Self::Table<P>, Error> {
        no_table_without_a_file()
    }
}

impl HashesWith<StableHash> for InFile<Pea> {}
impl Unshadowed for InFile<Pea> {}

const STRATEGY_BITS: u32 = 8;

/// Returns the words of a file's description that tell the constants; words 2 to 5 are zero.
pub(super) fn describe(config: &Config) -> Description {
    let mut words = [0; 12];
    words[0] = config.buckets as u64;
    words[1] = config.split_into as u64;
    for (at, &strategy) in config.strategies.iter().enumerate() {
        words[6] |= (strategy as u64 + 1) << (at as u32 * STRATEGY_BITS);
    }
    words
}

/// Returns these options with the constants of a file's description.
pub(super) fn constants(description: &Description, options: &Options) -> Options {
    let segment_buckets = usize::try_from(description[0]).unwrap_or(options.segment_buckets);
    let strategies = strategies_of(description);
    Options { segment_buckets, strategies, ..options.clone() }
}

fn strategies_of(words: &Description) -> Vec<Strategy> {
    let bytes = words[6].to_le_bytes().into_iter().take_while(|&byte| byte > 0);
    bytes.map(|byte| Strategy::of(u64::from(byte) - 1)).collect()
}

/// Returns the constants that a description tells.
pub(super) fn config_of(words: &Description, duplicates: bool) -> Result<Config, Error> {
    let config = Config {
        buckets: usize::try_from(words[0]).unwrap_or(0),
        split_into: usize::try_from(words[1]).unwrap_or(0),
        strategies: strategies_of(words),
        duplicates,
        ..Config::default()
    };
    config.check().map_err(|_| FileError::corrupt("a constant is none"))?;
    Ok(config)
}

impl DurableDesign for InFile<Pea> {
    const REHEARSES: bool = true;

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn constants(description: &Description, options: &Options) -> Options {
        constants(description, options)
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn create(backing: Backing, options: &Options, bits: (u32, u32)) -> Result<File, Error> {
        create(backing, options, bits, false)
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(File, Recovery), Error> {
        open(backing, options, bits, false)
    }
}

fn kind(duplicates: bool) -> Kind {
    if duplicates { Kind::PeaMulti } else { Kind::Pea }
}

fn medium(pool: Pool, duplicates: bool) -> Result<Paged, Error> {
    // For buckets, and as much again for value buffers.
    Paged::new(pool, file_addresses() * (1 + usize::from(duplicates)))
}

/// Makes a table in a new file; `duplicates` allows many values for a key.
pub(super) fn create(
    backing: Backing,
    options: &Options,
    bits: (u32, u32),
    duplicates: bool,
) -> Result<File, Error> {
    let config = Config { duplicates, ..options.pea() };
    let hash = hash_for(&backing);
    let mut description = describe(&config);
    description[2] = word_of_bits(bits);
    description[3] = StableHash::VERSION;
    description[4..6].copy_from_slice(&hash.multipliers);
    let wanted = options.wanted_by_copies();
    create_whole(backing, kind(duplicates), &description, wanted, |pool| {
        let codec = StableCodec::new(hash.multipliers);
        create_in(medium(pool, duplicates)?, codec, config, options.capacity)
    })
}

/// Makes a table in the medium of a new file.
pub(super) fn create_in<P: HashCodec>(
    medium: Paged,
    codec: P,
    config: Config,
    capacity: usize,
) -> Result<Table<P, Paged>, Error> {
    let table = Table::create(medium, codec, config, capacity)?;
    table.sync()?;
    // After the sync, so that no empty pages are copied; and before the file gets its name, so
    // that a killed process leaves no file without segments.
    table.populate()?;
    Ok(table)
}

/// Opens a table in a file.
pub(super) fn open(
    backing: Backing,
    options: &Options,
    bits: (u32, u32),
    duplicates: bool,
) -> Result<(File, Recovery), Error> {
    let pool = Pool::open(backing, kind(duplicates), options.wanted_by_copies())?;
    let words = *pool.description();
    let hash = hash_of(&words[3..])?;
    let config = config_of(&words, duplicates)?;
    check_bits(words[2], bits)?;
    let medium = medium(pool, duplicates)?;
    Table::open(medium, StableCodec::new(hash.multipliers), config, None)
}
