//! What the targets for damaged files have in common.
#![allow(dead_code, reason = "each target uses some of this")]

use nunatak::Error;
use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, MapInFile, Options, Persistency, Simulation,
};

/// Returns the file of a map with these entries: after a kill, and closed.
pub(crate) fn killed_and_closed<T: MapInFile>(
    options: &Options,
    fill: impl FnOnce(&FileMap<T>),
) -> [Vec<u8>; 2] {
    let simulation = Simulation::new(Persistency::Pages);
    let map: FileMap<T> = simulation.create(options).expect("a map");
    fill(&map);
    let killed = simulation.crash(simulation.moment()).latest();
    drop(map);
    [killed, simulation.crash(simulation.moment()).latest()]
}

/// Returns the same for byte strings.
pub(crate) fn of_byte_strings<D: BlobDesign>(options: &Options, keys: u8) -> [Vec<u8>; 2] {
    killed_and_closed(options, |map: &FileMap<BlobsInFile<D>>| {
        (0..keys).for_each(|n| assert_eq!(map.put(&key(n), &[n; 300]), Ok(false)));
        assert_eq!(map.put(b"long", &[7; 100_000]), Ok(false));
    })
}

fn key(n: u8) -> Vec<u8> {
    vec![n; 1 + usize::from(n) % 20]
}

/// Stores the words that the data lists, and returns the file: one after a power cut, or one that a
/// killed process has left.
pub(crate) fn damaged(whole: &[u8], is_killed: bool, patches: &[u8]) -> Simulation {
    let mut image = whole.to_vec();
    for patch in patches.chunks_exact(11) {
        let place = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]) as usize * 8;
        let at = place % image.len();
        image[at..at + 8].copy_from_slice(&patch[3..11]);
    }
    let cut = Simulation::of(&image, Persistency::Pages);
    if is_killed { cut.of_killed() } else { cut }
}

/// Opens the map, unless it is refused.
///
/// # Panics
/// If another error is returned than one of a file, or of its size.
pub(crate) fn open<T: MapInFile>(simulation: &Simulation) -> Option<FileMap<T>> {
    match simulation.open(&Options::new()) {
        Ok(map) => Some(map),
        Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Uses a map of byte strings, if it can be opened.
pub(crate) fn use_byte_strings<D: BlobDesign>(simulation: &Simulation) {
    let Some(map) = open::<BlobsInFile<D>>(simulation) else { return };
    let is_sound = map.verify().is_ok();
    // A damaged file may claim more data than there is room for. Then the map refuses changes.
    for n in 0..100 {
        let _ = map.put(&key(n), &[n; 70]);
    }
    for n in (0..100).step_by(3) {
        let _ = map.delete(&key(n));
    }
    let _ = map.shrink_to_fit();
    assert!(!is_sound || map.verify() == Ok(map.len()));
}
