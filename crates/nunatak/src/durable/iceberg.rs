//! IcebergHT in a file.

use super::content::create_whole;
use super::designs::{
    DurableDesign, InFile, InPages, check_bits, hash_for, hash_of, no_table_without_a_file,
    word_of_bits,
};
use super::options::Options;
use super::pairs::Map;
use crate::error::{Error, FileError};
use crate::hash::{HashCodec, StableCodec, StableHash};
use crate::memory::durable::{Backing, Description, Durable, Kind, Paged, Pool};
use crate::table::iceberg::{BlockSizes, Config, IcebergStats, Recovery, Table};
use crate::table::{Design, HashesWith, Iceberg, Unshadowed};

/// IcebergHT in a file (section 6 of the paper). An insert, a removal or an update writes one cache
/// line of the file. A lookup reads one line of the file, or none if the key is absent.
///
/// Only slots are in the file. Everything else is in RAM, and one scan of the file rebuilds it when
/// the file is opened.
///
/// ```
/// use nunatak::durable::IcebergMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: IcebergMap<u64, u64> = IcebergMap::open_or_create(&path)?;
/// map.insert(7, 49)?;
/// map.sync()?;
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type IcebergMap<K, V> = Map<K, V, InFile<Iceberg>>;

impl<B: BlockSizes> Design for InFile<Iceberg<B>> {
    type Stats = IcebergStats;
    type Table<P: HashCodec> = Table<P, B, Durable>;
    type Medium = Durable;

    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn table<P: HashCodec>(_codec: P, _capacity: usize) -> Result<Self::Table<P>, Error> {
        no_table_without_a_file()
    }
}

impl<B: BlockSizes> HashesWith<StableHash> for InFile<Iceberg<B>> {}
impl<B: BlockSizes> Unshadowed for InFile<Iceberg<B>> {}

impl<B: BlockSizes> Design for InPages<Iceberg<B>> {
    type Stats = IcebergStats;
    type Table<P: HashCodec> = Table<P, B, Paged>;
    type Medium = Paged;

    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn table<P: HashCodec>(_codec: P, _capacity: usize) -> Result<Self::Table<P>, Error> {
        no_table_without_a_file()
    }
}

/// Describes the table in the words of a file.
fn describe<B: BlockSizes>(
    columns: usize,
    hash: StableHash,
    options: &Options,
    bits: (u32, u32),
) -> Description {
    let mut words = [0; 12];
    words[0] = columns as u64;
    words[1] = word_of_blocks::<B>();
    words[2] = word_of_bits(bits);
    words[3] = StableHash::VERSION;
    words[4..6].copy_from_slice(&hash.multipliers);
    words[6] = options.max_load.to_bits();
    words
}

pub(super) fn word_of_blocks<B: BlockSizes>() -> u64 {
    (B::FRONT | B::BACK << 16) as u64
}

impl<B: BlockSizes> DurableDesign for InFile<Iceberg<B>> {
    // The scan validates a file before anything is changed.
    const REHEARSES: bool = false;

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn constants(description: &Description, options: &Options) -> Options {
        Options { max_load: f64::from_bits(description[6]), ..options.clone() }
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn create(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<Self::Table<StableCodec>, Error> {
        let (max_load, max_capacity) = (options.max_load, options.max_capacity);
        let config = Config { max_load, max_capacity, ..Config::default() };
        let shape = Self::Table::<StableCodec>::columns_for(options.capacity, &config)?;
        let hash = hash_for(&backing);
        let description = describe::<B>(shape.0, hash, options, bits);
        create_whole(backing, Kind::Iceberg, &description, options.wanted(), |pool| {
            let codec = StableCodec::new(hash.multipliers);
            let table = Table::create(Durable::new(pool), codec, config, shape)?;
            table.pool().set_session(true);
            table.pool().barrier()?;
            Ok(table)
        })
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(Self::Table<StableCodec>, Recovery), Error> {
        let pool = Pool::open(backing, Kind::Iceberg, options.wanted())?;
        let words = *pool.description();
        let hash = hash_of(&words[3..])?;
        let max_load = f64::from_bits(words[6]);
        let described = Options { max_load, ..options.clone() };
        described.check().map_err(|_| FileError::corrupt("the load is none"))?;
        if words[1] != word_of_blocks::<B>() {
            return Err(FileError::OtherKind { what: "size of blocks" }.into());
        }
        check_bits(words[2], bits)?;
        let columns = usize::try_from(words[0]).unwrap_or(0);
        let max_capacity = options.max_capacity;
        let config = Config { max_load, max_capacity, ..Config::default() };
        let codec = StableCodec::new(hash.multipliers);
        let threads = options.threads_to_open();
        Table::open(Durable::new(pool), codec, config, columns, threads)
    }
}
