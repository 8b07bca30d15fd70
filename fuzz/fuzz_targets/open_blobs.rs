//! Damaged files of byte strings: opening one returns an error, or a map that can be used, and whose
//! `verify` says whether it is sound.
#![no_main]

mod files;

use files::{damaged, of_byte_strings, use_byte_strings};
use libfuzzer_sys::fuzz_target;
use nunatak::durable::{InFile, InPages, Options};
use nunatak::{Iceberg, Pea, Turbo};
use std::sync::LazyLock;

/// Files of each design: after a kill, and closed. The table of IcebergHT has doubled.
static WHOLE: LazyLock<[[Vec<u8>; 2]; 3]> = LazyLock::new(|| {
    [
        of_byte_strings::<InFile<Turbo>>(&Options::new().shards(2), 60),
        of_byte_strings::<InFile<Pea>>(&Options::new().segment_buckets(2), 60),
        of_byte_strings::<InPages<Iceberg>>(&Options::new(), 160),
    ]
});

fuzz_target!(|data: &[u8]| {
    let Some((&first, patches)) = data.split_first() else { return };
    let design = usize::from(first >> 3) % 3;
    let simulation = damaged(&WHOLE[design][usize::from(first & 1)], first & 4 != 0, patches);
    match design {
        0 => use_byte_strings::<InFile<Turbo>>(&simulation),
        1 => use_byte_strings::<InFile<Pea>>(&simulation),
        _ => use_byte_strings::<InPages<Iceberg>>(&simulation),
    }
});
