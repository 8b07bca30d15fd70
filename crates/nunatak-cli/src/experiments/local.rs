//! Figure 16 of DLHT: how much faster a map of one thread is than a shared map.

use super::measure::Plan;
use crate::experiment::figure::Figure;
use crate::keys::{Indices, value_of};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, check};
use nunatak::mode::{Mode, Shared, SingleThread};
use nunatak::{Dlht, DlhtMap, InlineMap, Op, RandomState, Request, Stop};
use std::time::{Duration, Instant};

type Map<M> = InlineMap<u64, u64, RandomState, Dlht<M>>;

/// How many unbatched operations run between two looks at the clock.
const BLOCK: usize = 1024;

/// Returns millions of operations a second of this thread.
fn rate(time: Duration, mut block: impl FnMut() -> usize) -> f64 {
    let warm = Instant::now();
    while warm.elapsed() < time / 5 {
        block();
    }
    let (start, mut operations) = (Instant::now(), 0);
    while start.elapsed() < time {
        operations += block();
    }
    operations as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Measures gets in batches and one by one, then inserts with deletes in the same ways.
fn measure<M: Mode>(map: &Map<M>, plan: Plan, batch: usize) -> Result<[f64; 4], CheckFailed> {
    let space = plan.keys();
    let mut indices = Indices::uniform(plan.items, plan.seed);
    let mut absent = plan.items;
    let (mut keys, mut values) = (vec![0; batch], vec![None; batch]);
    let (mut done, mut asked) = (0, 0);
    let get_batch = rate(plan.time, || {
        keys.fill_with(|| space.key(indices.next()));
        done += map.get_many(&keys, &mut values).expect("as many values as keys");
        asked += batch;
        batch
    });
    let get = rate(plan.time, || {
        for _ in 0..BLOCK {
            done += usize::from(map.get(&space.key(indices.next())).is_some());
        }
        asked += BLOCK;
        BLOCK
    });
    let mut next = || {
        absent += 1;
        space.key(absent)
    };
    let mut pairs = Vec::with_capacity(batch + 1);
    let insdel_batch = rate(plan.time, || {
        pairs.clear();
        while pairs.len() < batch {
            let key = next();
            pairs.extend([Request::Insert(key, value_of(key)), Request::Remove(key)].map(Op::new));
        }
        map.execute(&mut pairs, Stop::Never);
        done += pairs.iter().filter(|operation| operation.outcome.is_success()).count();
        asked += pairs.len();
        pairs.len()
    });
    let insdel = rate(plan.time, || {
        for _ in 0..BLOCK / 2 {
            let key = next();
            done += usize::from(map.insert(key, value_of(key)).is_none());
            done += usize::from(map.remove(&key).is_some());
        }
        asked += BLOCK;
        BLOCK
    });
    check(done == asked, "an operation found what is not there, or missed it")?;
    Ok([get_batch, get, insdel_batch, insdel])
}

fn filled<M: Mode>(plan: Plan, grows: bool) -> Result<Map<M>, CheckFailed> {
    crate::backing::back_free_memory(plan.items);
    let builder = DlhtMap::<u64, u64>::builder().capacity(plan.items as usize).grows(grows);
    let map: Map<M> = builder.build().map_err(|error| CheckFailed(error.to_string()))?;
    let space = plan.keys();
    (0..plan.items).for_each(|index| {
        map.insert(space.key(index), value_of(space.key(index)));
    });
    Ok(map)
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "A map of one thread against one that is shared (DLHT, figure 16)";
    let measures = ["get/batch M/s", "get M/s", "insdel/batch M/s", "insdel M/s"];
    let mut figure = Figure::new(title, &["mode"], &measures);
    let plan = Plan::of(settings);
    let shared = [true, false].map(|grows| filled::<Shared>(plan, grows));
    let local = [true, false].map(|grows| filled::<SingleThread>(plan, grows));
    let ([shared, fixed_shared], [local, fixed_local]) = (shared, local);
    let (shared, fixed_shared) = (shared?, fixed_shared?);
    let (local, fixed_local) = (local?, fixed_local?);
    let mut samples = [const { Vec::new() }; 16];
    // The maps take turns.
    for _ in 0..settings.repetitions.max(1) {
        let batch = settings.batch;
        let of_all = [
            measure(&shared, plan, batch)?,
            measure(&local, plan, batch)?,
            measure(&fixed_shared, plan, batch)?,
            measure(&fixed_local, plan, batch)?,
        ];
        for (samples, value) in samples.iter_mut().zip(of_all.concat()) {
            samples.push(value);
        }
    }
    let medians: Vec<Option<f64>> =
        samples.iter().map(|samples| Summary::of(samples).map(|summary| summary.median)).collect();
    let ratio = |(shared, local): (&Option<f64>, &Option<f64>)| Some((*local)? / (*shared)?);
    for (both, growth) in medians.chunks_exact(8).zip(["", ", no growth"]) {
        let (shared, local) = both.split_at(4);
        figure.add(&[&format!("shared{growth}")], shared.to_vec());
        figure.add(&[&format!("single thread{growth}")], local.to_vec());
        let ratios = shared.iter().zip(local).map(ratio).collect();
        figure.add(&[&format!("ratio{growth}")], ratios);
    }
    Ok(figure)
}
