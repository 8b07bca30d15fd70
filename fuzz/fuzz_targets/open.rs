//! Damaged files: opening one returns an error, or a map that is sound and works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nunatak::durable::{InFile, Map, Options, Persistency, Simulation};
use nunatak::{Blocks, Error, Iceberg};
use std::sync::LazyLock;

type Small = Map<u64, u64, InFile<Iceberg<Blocks<8, 2>>>>;

/// A file of a map that has doubled and holds keys in all levels.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Small = simulation.create(&Options::new()).expect("a map");
    (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    simulation.crash(simulation.moment()).latest()
});

fuzz_target!(|data: &[u8]| {
    // Data of an even length is a file. Data of an odd length is a list of words to store into a
    // sound file.
    let mut image = data.to_vec();
    if data.len() % 2 == 1 {
        image.clone_from(&WHOLE);
        for patch in data.chunks_exact(11) {
            let at = usize::from(u16::from_le_bytes([patch[0], patch[1]])) * 8;
            // The word is in the header, or in the first slots of a part.
            let at = at % 8192 + usize::from(patch[2] % 4) * (64 << 10);
            image[at..at + 8].copy_from_slice(&patch[3..11]);
        }
    }
    let simulation = Simulation::of(&image, Persistency::Pages);
    let opened: Result<Small, Error> = simulation.open(&Options::new().threads(1));
    match opened {
        Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(map) => {
            assert_eq!(map.verify(), Ok(map.iter().count()));
            (0..100).for_each(|key| assert!(map.insert(key, key).is_ok()));
            assert_eq!(map.verify(), Ok(map.len()));
        }
    }
});
