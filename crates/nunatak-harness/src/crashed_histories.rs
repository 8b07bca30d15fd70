//! Histories of concurrent operations that a crash cuts: durable linearizability.
//!
//! Threads operate on a map in simulated persistent memory. At several moments a crash is
//! simulated, and the recovered map is read at every key. The history up to the crash, with
//! unacknowledged operations left open and these reads appended, must be linearizable. So no
//! acknowledged change is lost, and no value that was read is taken back (Izraelevitz, Mendes,
//! Scott, DISC '16).

use crate::crashable::Crashable;
use crate::effort::scaled;
use crate::history::{Answer, Call, Clock, Operation, Sequential};
use crate::linearizability::{Verdict, check};
use crate::multi::{MultiAnswer, MultiCall};
use crate::random::Random;
use crate::stress::together;
use nunatak::durable::{Options, PeaMultiMap, Persistency, Simulation};
use std::time::Duration;

const KEYS: u64 = 3;
/// The first of the keys that only make the map grow.
const OTHERS: u64 = 1 << 40;
const BUDGET: usize = 200_000;

/// An operation, and the numbers of events before and after it.
type Noted<C> = (Operation<C>, usize, usize);

/// A map to crash.
pub trait Crashed: Sync + Sized {
    /// The operations on a key.
    type Call: Sequential<Answer: Send> + Copy + Send;

    /// The operation that reads a key.
    const LOOK: Self::Call;

    /// Creates an empty map.
    fn create(simulation: &Simulation, options: &Options) -> Self;
    /// Opens what a crash has left.
    fn open(simulation: &Simulation, options: &Options) -> Self;
    /// Stores a key that no history reads.
    fn fill(&self, key: u64);
    /// Draws a key and an operation.
    fn draw(random: &mut Random) -> (u64, Self::Call);
    /// Runs the operation.
    fn run(&self, key: u64, call: Self::Call) -> <Self::Call as Sequential>::Answer;
    /// Checks that the map is sound and counts right.
    fn verify(&self);
}

const DONE: &str = "no change is refused";

impl<M: Crashable> Crashed for M {
    type Call = Call;
    const LOOK: Call = Call::Get;

    fn create(simulation: &Simulation, options: &Options) -> Self {
        Crashable::create(simulation, options).expect("a new map")
    }

    fn open(simulation: &Simulation, options: &Options) -> Self {
        Crashable::open(simulation, options).expect("what a crash leaves is opened")
    }

    fn fill(&self, key: u64) {
        self.put(key, 0).expect(DONE);
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

    fn run(&self, key: u64, call: Call) -> Answer {
        match call {
            Call::Get => Answer::Before(self.value(key)),
            Call::Insert(value) => Answer::Before(self.put(key, value).expect(DONE)),
            Call::TryInsert(value) => {
                let present = self.put_new(key, value).expect(DONE);
                Answer::Tried(present.map_or(Ok(()), Err))
            }
            Call::Update(value) => Answer::Before(self.replace(key, value).expect(DONE)),
            Call::Remove => Answer::Before(self.take(key).expect(DONE)),
            Call::CompareExchange { .. } => unreachable!("it is not drawn"),
        }
    }

    fn verify(&self) {
        assert_eq!(self.check(), Ok(self.count()));
    }
}

impl Crashed for PeaMultiMap<u64, u64> {
    type Call = MultiCall;
    const LOOK: MultiCall = MultiCall::All;

    fn create(simulation: &Simulation, options: &Options) -> Self {
        let map: Self = simulation.create(options).expect("a new map");
        // A key with a value buffer.
        (0..8).for_each(|value| map.insert(OTHERS, value).expect(DONE));
        map
    }

    fn open(simulation: &Simulation, options: &Options) -> Self {
        simulation.open(options).expect("what a crash leaves is opened")
    }

    fn fill(&self, key: u64) {
        self.insert(key, 0).expect(DONE);
    }

    fn draw(random: &mut Random) -> (u64, MultiCall) {
        let (key, call) = MultiCall::draw(random);
        (key % KEYS, call)
    }

    fn run(&self, key: u64, call: MultiCall) -> MultiAnswer {
        call.run(self, key)
    }

    fn verify(&self) {
        assert_eq!(self.verify(), Ok(self.len()));
    }
}

/// Cuts so many histories at so many moments each, both scaled by the [effort](crate::effort).
///
/// # Panics
/// If a recovered map contradicts acknowledged operations.
pub fn crashed_histories<M: Crashed>(histories: u64, moments: u64, latency: Duration) {
    let [histories, moments] = [histories, moments].map(|count| scaled(count as usize) as u64);
    for round in 0..histories {
        let simulation = Simulation::new(Persistency::Lines);
        let map = M::create(&simulation, &Options::new().segment_buckets(2));
        (0..round % 40).for_each(|key| map.fill(OTHERS + 1 + key));
        simulation.set_latency(latency);
        let (begin, clock) = (simulation.moment(), Clock::default());
        let noted = together(3, |thread| {
            let mut random = Random::new(round << 8 | thread as u64);
            let operate = |at: u64| {
                if thread == 2 {
                    map.fill(OTHERS + 1000 + at);
                    return None;
                }
                let (key, call) = M::draw(&mut random);
                let (before, invoked) = (simulation.moment(), clock.stamp());
                let answer = map.run(key, call);
                let (returned, after) = (clock.stamp(), simulation.moment());
                let returned = Some((returned, answer));
                Some((Operation { key, thread, call, invoked, returned }, before, after))
            };
            (0..16).filter_map(operate).collect::<Vec<Noted<M::Call>>>()
        })
        .concat();
        let mut random = Random::new(round);
        for _ in 0..moments {
            let moment = begin + random.below((simulation.moment() - begin) as u64 + 1) as usize;
            cut::<M>(&simulation, &noted, moment);
        }
    }
}

fn cut<M: Crashed>(simulation: &Simulation, noted: &[Noted<M::Call>], moment: usize) {
    let until = noted.iter().filter(|(_, before, _)| *before <= moment);
    let history: Vec<Operation<M::Call>> = until
        .map(|(operation, _, after)| Operation {
            returned: operation.returned.clone().filter(|_| *after <= moment),
            ..operation.clone()
        })
        .collect();
    for image in simulation.crash(moment).images(4, moment as u64) {
        let again = Simulation::of(&image, Persistency::Lines);
        let map = M::open(&again, &Options::new().threads(1));
        map.verify();
        let mut history = history.clone();
        history.extend((0..KEYS).map(|key| Operation {
            key,
            thread: usize::MAX,
            call: M::LOOK,
            invoked: u64::MAX - 1,
            returned: Some((u64::MAX, map.run(key, M::LOOK))),
        }));
        let verdict = check(&history, BUDGET);
        assert!(!matches!(verdict, Verdict::NotLinearizable { .. }), "{verdict:#?}");
    }
}
