//! Keys and values that are byte strings, like the 30-byte items of TurboHash's figures 6 to 9.

use super::phases::{bytes_per_item, measure_all};
use super::strings::{Request, rows};
use super::subjects::{Boxed, Peer, RamBlobs, Subject, is_string};
use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::{KeySpace, Random};
use crate::machine::resident_bytes;
use crate::settings::Settings;
use crate::targets::{Hasher, MapName};
use crate::threads::{CheckFailed, check};

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Keys and values that are byte strings (TurboHash, figures 6 to 9)";
    let measures = [
        "insert M/s",
        "get-hit M/s",
        "get-miss M/s",
        "update M/s",
        "delete M/s",
        "bytes an item in RAM",
    ];
    let mut figure = Figure::new(title, &["threads", "map", "operations"], &measures);
    let (key_bytes, value_bytes) =
        (settings.options.blobs.blobs_key_bytes, settings.options.blobs.blobs_value_bytes);
    measure_all(&mut figure, &rows(settings, false)?, settings.repetitions)?;
    figure.note(format!(
        "Keys of {key_bytes} bytes with values of {value_bytes}. Inserts are into an empty map, \
         updates and deletes of all items; lookups compare the value where it is. Each map is \
         measured in a process of its own."
    ));
    Ok(figure)
}

/// Measures in this process.
pub(crate) fn measure(request: &Request) -> Result<Vec<Option<f64>>, CheckFailed> {
    type Dashmap = Peer<Boxed, dashmap::DashMap<Boxed, Boxed, Hasher>>;
    type Papaya = Peer<Boxed, papaya::HashMap<Boxed, Boxed, Hasher>>;
    type Scc = Peer<Boxed, scc::HashMap<Boxed, Boxed, Hasher>>;
    let (key, value) = (request.key_bytes, request.value_bytes);
    match request.phases.map {
        MapName::Turbo => measure_subject(request, || RamBlobs::new(key, value)),
        #[cfg(durable)]
        MapName::TurboFile => {
            measure_subject(request, || super::subjects::FiledBlobs::new(key, value))
        }
        MapName::Dashmap => measure_subject(request, || Dashmap::new(0, key, value)),
        MapName::Papaya => measure_subject(request, || Papaya::new(0, key, value)),
        MapName::Scc => measure_subject(request, || Scc::new(0, key, value)),
        other => Err(CheckFailed(format!("{other} has no byte strings"))),
    }
}

fn measure_subject<S: Subject>(
    request: &Request,
    make: impl FnOnce() -> S,
) -> Result<Vec<Option<f64>>, CheckFailed> {
    if request.is_ycsb {
        return super::ycsb_blobs::measure(request, make);
    }
    let (phases, items) = (&request.phases, request.items);
    back_free_memory(2 * items);
    let space = KeySpace::new(request.seed, false);
    // Returns a key, and the number of its value after `updates` updates.
    let entry = |index: u64, updates: u64| {
        let key = space.key(index);
        (key, key.wrapping_add(updates))
    };
    let before = resident_bytes();
    let map = make();
    let insert = phases.insert(&map, items, |index| entry(index, 0), items)?;
    let bytes = bytes_per_item(before, items);
    let update = phases.insert(&map, items, |index| entry(index, 1), 0)?;
    let look_up = |first: u64| {
        phases.look_up(
            &map,
            |worker| {
                let mut random = Random::new(request.seed ^ worker.number as u64);
                move || entry(first + random.below(items), 1)
            },
            |number, value| value.len() == request.value_bytes && is_string(value, number),
        )
    };
    let ((get_hit, found), (get_miss, none)) = (look_up(0)?, look_up(items)?);
    check((found, none) == (1.0, 0.0), "a key has not the value that it should have")?;
    let delete = phases.delete(&map, items, |index| entry(index, 1).0, items)?;
    Ok(vec![Some(insert), Some(get_hit), Some(get_miss), Some(update), Some(delete), bytes])
}
