//! A map of numbers in a file advises the typed map, whose keys have canonical encodings.

use nunatak::durable::{IcebergMap, TypedMap};

fn strings(_: IcebergMap<String, u64>) {}

fn floats(_: TypedMap<f64, u64>) {}

fn main() {}
