//! Memory per item. Each measurement runs in a [process](crate::process) of its own.

use super::{check, fill};
use crate::keys::{KeySpace, value_of};
use crate::machine::resident_bytes;
use crate::process;
use crate::targets::{MapName, Target, with_target};
use crate::threads::CheckFailed;
use serde::{Deserialize, Serialize};

/// How often to look at the load factor while a map grows.
const LOOKS: u64 = 4096;

/// The request to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) map: MapName,
    pub(crate) items: u64,
    pub(crate) seed: u64,
    pub(crate) sequential: bool,
    /// Grow from empty instead of making room first.
    pub(crate) grown: bool,
    /// Measure at every step of the workload `fill`, instead of at the end.
    pub(crate) steps: bool,
}

impl process::Request for Request {
    const KIND: &str = "Space";
    type Answer = Vec<Space>;
}

/// The answer of the process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Space {
    pub(crate) bytes_per_item: f64,
    /// In a pre-sized map, the load factor with all items. In a map that grew, the highest on the
    /// way there, just before a resize.
    pub(crate) load_factor: Option<f64>,
}

/// Measures in this process, at the end or at every step.
pub(crate) fn measure(request: &Request) -> Result<Vec<Space>, CheckFailed> {
    with_target!(request.map, Map, Words => measure_target::<Map>(request))
}

fn measure_target<T: Target>(request: &Request) -> Result<Vec<Space>, CheckFailed> {
    let keys = KeySpace::new(request.seed, request.sequential);
    let before = resident_bytes();
    let map = match request.grown {
        true => T::empty(request.map),
        false => T::with_capacity(request.map, request.items as usize),
    };
    let look_every = (request.items / LOOKS).max(1);
    let mut highest = None;
    let mut present = 0;
    let space = |items: u64, load_factor| {
        let resident =
            before.zip(resident_bytes()).map(|(before, after)| after.saturating_sub(before));
        // The memory of the process excludes items in files.
        let resident = resident.filter(|_| !request.map.is_durable());
        let bytes = resident.or_else(|| map.bytes()).ok_or_else(|| {
            CheckFailed("this system does not tell how much memory is used".into())
        })?;
        Ok(Space { bytes_per_item: bytes as f64 / items.max(1) as f64, load_factor })
    };
    let step_ends = fill::steps().filter(|_| request.steps);
    let mut step_ends = step_ends.map(|percent| fill::items_at(percent, request.items)).peekable();
    let mut spaces = Vec::new();
    for index in 0..request.items {
        let key = keys.key(index);
        present += u64::from(map.insert(key, value_of(key)).is_some());
        // Small maps reach higher loads by chance, so the first sixteenth does not count.
        if index % look_every == 0 && index > request.items / 16 {
            let now = map.load_factor();
            highest = now.map(|now: f64| highest.map_or(now, |highest| now.max(highest)));
        }
        while let Some(items) = step_ends.next_if(|&items| items <= index + 1) {
            spaces.push(space(items, map.load_factor())?);
        }
    }
    check(present, "an insert of a new key found the key present")?;
    if !request.steps {
        let load_factor = if request.grown { highest } else { map.load_factor() };
        spaces.push(space(request.items, load_factor)?);
    }
    Ok(spaces)
}
