//! Maps of numbers in files advise the typed map, and a typed map says what its types must be.

use nunatak::durable::{IcebergMap, TypedMap};

struct Own;

fn main() {
    let _: Option<IcebergMap<String, u64>> = None;
    let _: Option<TypedMap<f64, u64>> = None;
    let _: Option<TypedMap<u64, Own>> = None;
}
