//! Every kind of map of every design, hashed by [`Wild`], in the configuration that grows and
//! shrinks most often.
//!
//! ```
//! use nunatak_harness::hostile::kinds;
//! let map = kinds::turbo_set();
//! map.put(7);
//! assert_eq!((map.get(7), map.get(8)), (Some(7), None));
//! ```

use super::hooks::{Wild, Witness};
use super::others::{Hidden, HiddenRecords, Keys, Many, NamedRecords};
use super::strings::ManyOfStrings;
use super::victim::{Local, Shared, Single};
use nunatak::alloc::Global;
use nunatak::entry::{Format, Named, VARIABLE};
use nunatak::mode::{Shared as SharedMode, SingleThread};
use nunatak::{
    BlobMap, Blocks, BoxedMap, Dlht, DlhtBuilder, DlhtLocalMap, Entry8, Entry12, Entry16, Iceberg,
    IcebergBuilder, Pea, PeaBuilder, RandomState, RecordMap, Turbo, TurboBuilder,
};
use std::rc::Rc;
use std::sync::Arc;

type Bytes = Vec<u8>;
type Numbered<M> = Single<u64, u64, M>;
type Witnessed<M> = Single<Witness, Witness, M>;
type Recorded<M> = Single<Bytes, Bytes, M>;

/// Two bins, which grow to twice as many, one bin at a time.
fn dlht() -> DlhtBuilder<Wild> {
    let builder = DlhtBuilder::default().initial_bins(2).growth_factor(2);
    builder.transfer_chunk(1).link_ratio(64).hasher(Wild)
}

/// Blocks of eight and of two slots.
fn iceberg() -> IcebergBuilder<Wild, Blocks<8, 2>> {
    IcebergBuilder::default().hasher(Wild).blocks().max_load(0.95)
}

/// Segments of two buckets.
fn pea() -> PeaBuilder<Wild> {
    PeaBuilder::<RandomState>::default().hasher(Wild).segment_buckets(2)
}

/// Two shards.
fn turbo() -> TurboBuilder<Wild> {
    let builder = TurboBuilder::<RandomState>::default().hasher(Wild);
    builder.shards(2).scope(2).tombstones(0.05)
}

const VALID: &str = "valid options";

macro_rules! kinds {
    ($($name:ident => $victim:expr;)*) => {$(
        /// Makes an empty map of this kind.
        pub fn $name() -> Shared {
            Arc::new($victim)
        }
    )*

        /// Makes a test, in a process of its own, for each kind of shared map: the function, which
        /// takes `fn() -> Shared`, in a module of this name.
        #[macro_export]
        macro_rules! hostile_kinds {
            ($module:ident, $check:path) => {
                mod $module {
                    #[allow(unused_imports, reason = "the check may be a path from the root")]
                    use super::*;
                    $crate::hostile_tests! {$(
                        $name => $check($crate::hostile::kinds::$name);
                    )*}
                }
            };
        }
    };
}

kinds! {
    dlht_map => Numbered::new(dlht().build::<u64, u64, SharedMode>().expect(VALID));
    dlht_set => Keys(dlht().build_set().expect(VALID));
    dlht_boxed => Witnessed::new(dlht().build_boxed().expect(VALID));
    dlht_record => Recorded::new(dlht().build_records::<Format, _>(Global).expect(VALID));
    dlht_named => NamedRecords::<Wild, Dlht>(
        dlht().build_records::<Format<VARIABLE, VARIABLE, Named>, _>(Global).expect(VALID)
    );
    dlht_blob => Recorded::new(BlobMap::<Wild, Dlht>::with_hasher(Wild));
    dlht_shadow => Hidden(dlht().build_shadow().expect(VALID));
    dlht_shadow_record => HiddenRecords(dlht().build_shadow_records(Global).expect(VALID));
    iceberg_map => Numbered::new(iceberg().build().expect(VALID));
    iceberg_set => Keys::<_, Iceberg<Blocks<8, 2>>>(iceberg().build_set().expect(VALID));
    iceberg_boxed => Witnessed::new(iceberg().build_boxed().expect(VALID));
    iceberg_record => Recorded::new(RecordMap::<Format, Global, Wild, Iceberg>::new());
    iceberg_blob => Recorded::new(BlobMap::<Wild, Iceberg>::with_hasher(Wild));
    pea_map => Numbered::new(pea().build::<u64, u64, Entry16>().expect(VALID));
    pea_map12 => Single::<u32, u64, _>::new(pea().build::<u32, u64, Entry12>().expect(VALID));
    pea_map8 => Single::<u32, u32, _>::new(pea().build::<u32, u32, Entry8>().expect(VALID));
    pea_set => Keys::<_, Pea>(pea().build_set().expect(VALID));
    pea_multi => Many(pea().build_multi().expect(VALID));
    pea_blob_multi => ManyOfStrings(pea().build_blob_multi().expect(VALID));
    pea_boxed => Witnessed::new(pea().build_boxed().expect(VALID));
    pea_record => Recorded::new(RecordMap::<Format, Global, Wild, Pea>::new());
    pea_blob => Recorded::new(BlobMap::<Wild, Pea>::with_hasher(Wild));
    turbo_map => Numbered::new(turbo().build::<u64, u64, Entry16>().expect(VALID));
    turbo_map12 => Single::<u32, u64, _>::new(turbo().build::<u32, u64, Entry12>().expect(VALID));
    turbo_map8 => Single::<u32, u32, _>::new(turbo().build::<u32, u32, Entry8>().expect(VALID));
    turbo_set => Keys::<_, Turbo>(turbo().build_set().expect(VALID));
    turbo_boxed => Witnessed::new(turbo().build_boxed().expect(VALID));
    turbo_record => Recorded::new(RecordMap::<Format, Global, Wild, Turbo>::new());
    turbo_blob => Recorded::new(turbo().build_blobs().expect(VALID));
}

/// The name of a kind of map of one thread, and its constructor.
pub type LocalKind = (&'static str, fn() -> Local);

/// Every kind of map of one thread. The boxed one has keys and values that no other thread may use.
pub const LOCAL: [LocalKind; 3] = [
    ("inline", || {
        let map: DlhtLocalMap<u64, u64, Wild> = dlht().build::<_, _, SingleThread>().expect(VALID);
        Rc::new(Numbered::new(map))
    }),
    ("boxed", || {
        type Map = BoxedMap<Rc<Witness>, Rc<Witness>, Wild, Dlht<SingleThread>>;
        Rc::new(Single::<Rc<Witness>, Rc<Witness>, Map>::new(Map::default()))
    }),
    ("record", || {
        type Map = RecordMap<Format, Global, Wild, Dlht<SingleThread>>;
        Rc::new(Recorded::new(Map::new()))
    }),
];
