//! The part that takes Miri a minute: a pass over each table and each kind of entry.

use super::operations::{self, ByteStrings, Numbers, WideNumbers};
use super::{bytes, owned, small, threads};
use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::{DlhtMap, DlhtWideMap, IcebergBuilder, IcebergWideMap};

const COUNT: u32 = 24;
const ROUNDS: u32 = 12;

#[test]
fn dlht() {
    let map = || -> DlhtMap<u32, u32> { small::dlht().build().expect("valid options") };
    operations::all::<Numbers, _>(map(), COUNT);
    threads::shared::<Numbers, _>(&map(), ROUNDS);
    let wide =
        || -> DlhtWideMap<u32, (u32, u32)> { small::dlht().build_wide().expect("valid options") };
    operations::all::<WideNumbers, _>(wide(), COUNT);
    threads::shared::<WideNumbers, _>(&wide(), ROUNDS);
    owned::all(small::dlht().build_boxed().expect("valid options"));
    threads::guarded(small::dlht().build_boxed().expect("valid options"), ROUNDS);
}

#[test]
fn iceberg() {
    let map = || small::iceberg().build().expect("valid options");
    operations::all::<Numbers, _>(map(), COUNT);
    threads::shared::<Numbers, _>(&map(), ROUNDS);
    // Two blocks, which double when five slots of each are taken.
    let builder = || IcebergBuilder::default().max_load(0.1);
    let wide =
        || -> IcebergWideMap<u32, (u32, u32)> { builder().build_wide().expect("valid options") };
    operations::all::<WideNumbers, _>(wide(), COUNT);
    threads::shared::<WideNumbers, _>(&wide(), ROUNDS);
}

#[test]
fn pea() {
    let map = || small::pea().build::<_, _, nunatak::Entry16>().expect("valid options");
    operations::all::<Numbers, _>(map(), COUNT);
    threads::shared::<Numbers, _>(&map(), ROUNDS);
    threads::multi(ROUNDS);
    threads::blob_multi(ROUNDS);
}

#[test]
fn turbo() {
    let map = || small::turbo().build::<_, _, nunatak::Entry16>().expect("valid options");
    operations::all::<Numbers, _>(map(), COUNT);
    threads::shared::<Numbers, _>(&map(), ROUNDS);
}

#[test]
fn byte_strings() {
    operations::single::<ByteStrings, _>(
        &small::turbo().build_blobs().expect("valid options"),
        COUNT,
    );
    let map = small::dlht().build_records::<Format<8, 12>, _>(Global).expect("valid options");
    bytes::guards(&map);
    threads::guarded_bytes(&map, ROUNDS);
}

#[cfg(any(miri, target_os = "linux"))]
#[test]
fn typed_entries() {
    use super::typed;
    typed::operations(16);
    typed::damage();
}
