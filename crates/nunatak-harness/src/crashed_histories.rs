//! Histories of concurrent operations that a crash cuts: durable linearizability.
//!
//! Threads operate on a map in simulated persistent memory. For moments of it, the map
//! that a crash leaves is asked for every key, and the history until then, with what
//! was not acknowledged left open, and with these answers behind it, must be
//! linearizable: nothing that was acknowledged is lost, and nothing that was read is
//! taken back (Izraelevitz, Mendes, Scott, DISC '16).

use crate::history::{Answer, Call, Clock, Operation};
use crate::linearizability::{Verdict, check};
use crate::random::Random;
use crate::stress::together;
use nunatak::durable::{DurableDesign, Map, Options, Persistency, Simulation};
use std::time::Duration;

const KEYS: u64 = 3;
/// Keys that only make the map grow.
const OTHERS: u64 = 1 << 40;
const BUDGET: usize = 200_000;

/// An operation, and how many events there were before and after it.
type Noted = (Operation, usize, usize);

fn run<D: DurableDesign>(map: &Map<u64, u64, D>, key: u64, call: Call) -> Answer {
    let done = "no change is refused";
    match call {
        Call::Get => Answer::Before(map.get(&key)),
        Call::Insert(value) => Answer::Before(map.insert(key, value).expect(done)),
        Call::TryInsert(value) => Answer::Tried(map.try_insert(key, value).expect(done)),
        Call::Update(value) => Answer::Before(map.update(&key, value).expect(done)),
        Call::Remove => Answer::Before(map.remove(&key).expect(done)),
        Call::CompareExchange { current, new } => {
            Answer::Exchanged(map.compare_exchange(&key, &current, new).expect(done))
        }
    }
}

fn draw(random: &mut Random) -> (u64, Call) {
    let (key, value) = (random.below(KEYS), random.next() >> 1);
    let call = match random.below(8) {
        0..=3 => Call::Get,
        4 => Call::TryInsert(value),
        5 => Call::Update(value),
        6 => Call::Remove,
        _ => Call::Insert(value),
    };
    (key, call)
}

/// Cuts so many histories at so many moments.
///
/// # Panics
/// If what is left contradicts what was acknowledged.
pub fn crashed_histories<D: DurableDesign>(histories: u64, moments: u64, latency: Duration)
where
    Map<u64, u64, D>: Sync,
{
    for round in 0..histories {
        let simulation = Simulation::new(Persistency::Lines);
        let map: Map<u64, u64, D> =
            simulation.create(&Options::new().segment_buckets(2)).expect("a new map");
        (0..round % 40).for_each(|key| assert_eq!(map.insert(OTHERS + key, 0), Ok(None)));
        simulation.set_latency(latency);
        let (begin, clock) = (simulation.moment(), Clock::default());
        let noted = together(3, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            let operate = |at: u64| {
                if thread == 2 {
                    let _ = map.insert(OTHERS + 1000 + at, at);
                    return None;
                }
                let (key, call) = draw(&mut random);
                let (before, invoked) = (simulation.moment(), clock.stamp());
                let answer = run(&map, key, call);
                let (returned, after) = (clock.stamp(), simulation.moment());
                let returned = Some((returned, answer));
                Some((Operation { key, thread, call, invoked, returned }, before, after))
            };
            (0..16).filter_map(operate).collect::<Vec<Noted>>()
        })
        .concat();
        let mut random = Random::new(round);
        for _ in 0..moments {
            let moment = begin + random.below((simulation.moment() - begin) as u64 + 1) as usize;
            cut::<D>(&simulation, &noted, moment);
        }
    }
}

fn cut<D: DurableDesign>(simulation: &Simulation, noted: &[Noted], moment: usize) {
    let until = noted.iter().filter(|(_, before, _)| *before <= moment);
    let history: Vec<Operation> = until
        .map(|&(operation, _, after)| Operation {
            returned: operation.returned.filter(|_| after <= moment),
            ..operation
        })
        .collect();
    for image in simulation.crash(moment).images(4, moment as u64) {
        let again = Simulation::of(&image, Persistency::Lines);
        let map: Map<u64, u64, D> =
            again.open(&Options::new().threads(1)).expect("what a crash leaves is opened");
        assert_eq!(map.verify(), Ok(map.len()));
        let mut history = history.clone();
        history.extend((0..KEYS).map(|key| Operation {
            key,
            thread: usize::MAX,
            call: Call::Get,
            invoked: u64::MAX - 1,
            returned: Some((u64::MAX, Answer::Before(map.get(&key)))),
        }));
        let verdict = check(&history, BUDGET);
        assert!(!matches!(verdict, Verdict::NotLinearizable { .. }), "{verdict:#?}");
    }
}
