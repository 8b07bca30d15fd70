//! TATP (Neuvonen, Wolski, Manner, Raatikka 2009): seven transactions on the subscribers of a
//! telephone network, in four tables with 51 columns; 80 % only read.

mod schema;

use self::schema::{
    ACCESS_INFO, BIT_1, BITS, CALL_FORWARDING, DATA_A, FACILITY, LOCATION, SPECIAL_FACILITY,
    SUBSCRIBER, SUBSCRIBER_NUMBER, TIMES, VLR_LOCATION, WORDS, column, forwarding, part,
    subscriber, with_column,
};
use super::Oltp;
use super::rows::{self, Database, Guard, Row, RowKey};
use crate::experiment::figure::Figure;
use crate::keys::Random;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::Error;
use std::hint::black_box;
use std::sync::atomic::Ordering;

pub(super) struct Tatp {
    database: Database,
    subscribers: u64,
    forwardings: u64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    GetSubscriberData,
    GetNewDestination,
    GetAccessData,
    UpdateSubscriberData,
    UpdateLocation,
    InsertCallForwarding,
    DeleteCallForwarding,
}

/// The shares of the transactions in percent, and how many percent of each find their rows: this
/// follows from the standard's rules for the first rows and for what is drawn.
const MIX: [(Kind, u64, f64); 7] = [
    (Kind::GetSubscriberData, 35, 100.0),
    (Kind::GetNewDestination, 10, 14.8),
    (Kind::GetAccessData, 35, 62.5),
    (Kind::UpdateSubscriberData, 2, 62.5),
    (Kind::UpdateLocation, 14, 100.0),
    (Kind::InsertCallForwarding, 2, 31.25),
    (Kind::DeleteCallForwarding, 2, 31.25),
];

#[derive(Debug)]
pub(super) struct Transaction {
    kind: Kind,
    subscriber: u64,
    /// The type of an access or of a facility: 0 to 3.
    part: u64,
    /// 0, 8 or 16 o'clock.
    start: u64,
    /// 1 to 24 o'clock.
    end: u64,
    value: u64,
}

#[derive(Debug, Default)]
pub(super) struct Done {
    /// How many transactions of each kind there were, and how many of them found their rows.
    tried: [u64; 7],
    succeeded: [u64; 7],
    /// How many times the rows of subscribers were locked.
    locked: u64,
}

/// What a transaction has come to.
enum End {
    Committed,
    /// A row is missing, or there already. Nothing was changed.
    Failed,
    /// Another transaction has a row. Nothing was changed.
    Met,
}

impl End {
    fn of(is_committed: bool) -> Self {
        if is_committed { Self::Committed } else { Self::Failed }
    }
}

/// Returns the words of a row at one moment; `None` while another transaction changes it.
fn look<const N: usize>(row: Row<'_>) -> Option<[u64; N]> {
    row.read(|row| std::array::from_fn(|at| row.column(at).load(Ordering::Relaxed)))
}

impl Tatp {
    /// Returns the subscriber with a telephone number.
    fn called(guard: &Guard<'_>, number: u64) -> Option<u64> {
        let row = rows::find(guard, subscriber(SUBSCRIBER_NUMBER, number))?;
        Some(row.column(0).load(Ordering::Relaxed))
    }

    /// Reads all columns of a row.
    fn get<const N: usize>(guard: &Guard<'_>, key: RowKey) -> End {
        match rows::find(guard, key).map(look::<N>) {
            None => End::Failed,
            Some(None) => End::Met,
            Some(Some(words)) => {
                black_box(words);
                End::Committed
            }
        }
    }

    /// Finds where a call goes now: an active facility, and those of its forwardings that have begun
    /// by the start and end after the end.
    fn new_destination(guard: &Guard<'_>, transaction: &Transaction) -> End {
        let Transaction { subscriber, part: kind, start, end, .. } = *transaction;
        match rows::find(guard, part(SPECIAL_FACILITY, subscriber, kind)).map(look::<4>) {
            None => return End::Failed,
            Some(None) => return End::Met,
            Some(Some(words)) if column(words[FACILITY], 0xFF) == 0 => return End::Failed,
            Some(Some(_)) => {}
        }
        let mut is_found = false;
        for start in (0..=start).step_by(8) {
            match rows::find(guard, forwarding(subscriber, kind, start)).map(look::<5>) {
                Some(None) => return End::Met,
                Some(Some(words)) if end < words[TIMES] >> 32 => {
                    black_box([words[3], words[4]]);
                    is_found = true;
                }
                _ => {}
            }
        }
        End::of(is_found)
    }

    fn update_subscriber(guard: &Guard<'_>, transaction: &Transaction, done: &mut Done) -> End {
        let facility = part(SPECIAL_FACILITY, transaction.subscriber, transaction.part);
        let row = rows::find(guard, subscriber(SUBSCRIBER, transaction.subscriber));
        let (Some(row), Some(facility)) = (row, rows::find(guard, facility)) else {
            return End::Failed;
        };
        // All transactions lock in the order of the tables.
        let Some(row) = row.lock() else { return End::Met };
        done.locked += 1;
        let Some(facility) = facility.lock() else { return End::Met };
        // The two values agree in a bit, which is checked at the end.
        row.set(BITS, with_column(row.get(BITS), BIT_1, transaction.value & 1));
        let word = with_column(facility.get(FACILITY), DATA_A, transaction.value);
        facility.set(FACILITY, word);
        End::Committed
    }

    fn update_location(guard: &Guard<'_>, transaction: &Transaction, done: &mut Done) -> End {
        let Some(id) = Self::called(guard, transaction.subscriber) else { return End::Failed };
        let Some(row) = rows::find(guard, subscriber(SUBSCRIBER, id)) else { return End::Failed };
        let Some(row) = row.lock() else { return End::Met };
        done.locked += 1;
        let word = with_column(row.get(LOCATION), VLR_LOCATION, transaction.value);
        row.set(LOCATION, word);
        End::Committed
    }

    fn insert_forwarding(&self, guard: &Guard<'_>, transaction: &Transaction) -> End {
        let Transaction { part: kind, start, end, value, .. } = *transaction;
        let Some(id) = Self::called(guard, transaction.subscriber) else { return End::Failed };
        let mut has_facility = [false; 4];
        for (kind, has) in (0..).zip(&mut has_facility) {
            *has = rows::find(guard, part(SPECIAL_FACILITY, id, kind)).is_some();
        }
        let (namespace, key) = forwarding(id, kind, start).bytes();
        let row = rows::row(&schema::forwarding_row(id, kind, [start, end, value]));
        // The row is hidden, and thereby locked, until it is known whether there is such a facility.
        match self.database.shadow_insert((namespace, &key), &row) {
            Ok(shadow) if has_facility[kind as usize] => {
                shadow.commit();
                End::Committed
            }
            Err(Error::Shadowed) => End::Met,
            Ok(_) | Err(_) => End::Failed,
        }
    }

    fn delete_forwarding(&self, guard: &Guard<'_>, transaction: &Transaction) -> End {
        let Some(id) = Self::called(guard, transaction.subscriber) else { return End::Failed };
        let (namespace, key) = forwarding(id, transaction.part, transaction.start).bytes();
        End::of(self.database.delete((namespace, &key)))
    }
}

pub(in crate::experiments) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    super::run::<Tatp>(settings)
}

impl Oltp for Tatp {
    const TITLE: &'static str = "TATP: transactions that mostly read (DLHT, figure 19)";

    type Transaction = Transaction;
    type Done = Done;

    fn rows(settings: &Settings) -> u64 {
        // A subscriber has about eleven rows; the paper has a million subscribers.
        (settings.items / 8).clamp(1, 1_000_000)
    }

    fn load(subscribers: u64) -> Result<Self, CheckFailed> {
        let database = rows::database(11 * subscribers)?;
        let (mut forwardings, mut loaded) = (0, Ok(()));
        for id in 0..subscribers {
            schema::rows_of(id, |key, words| {
                forwardings += u64::from(key.table == CALL_FORWARDING);
                if loaded.is_ok() {
                    loaded = rows::insert(&database, key, &rows::row(words));
                }
            });
        }
        loaded?;
        Ok(Self { database, subscribers, forwardings })
    }

    fn draw(&self, random: &mut Random) -> Transaction {
        let mut percent = random.below(100);
        let kind = MIX.iter().find(|(_, share, _)| {
            let is_it = percent < *share;
            percent = percent.wrapping_sub(*share);
            is_it
        });
        // The standard's distribution: some subscribers are drawn more often.
        let most = match self.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        let (any, one) = (random.below(most + 1), 1 + random.below(self.subscribers));
        Transaction {
            kind: kind.map_or(Kind::GetSubscriberData, |(kind, ..)| *kind),
            subscriber: (any | one) % self.subscribers,
            part: random.below(4),
            start: 8 * random.below(3),
            end: 1 + random.below(24),
            value: random.next(),
        }
    }

    fn prefetch(&self, transaction: &Transaction) {
        let Transaction { subscriber: id, part: kind, start, .. } = *transaction;
        let ask = |key| rows::prefetch(&self.database, key);
        let row = subscriber(SUBSCRIBER, id);
        match transaction.kind {
            Kind::GetSubscriberData => ask(row),
            Kind::GetAccessData => ask(part(ACCESS_INFO, id, kind)),
            Kind::GetNewDestination => {
                ask(part(SPECIAL_FACILITY, id, kind));
                (0..=start).step_by(8).for_each(|start| ask(forwarding(id, kind, start)));
            }
            Kind::UpdateSubscriberData => {
                ask(row);
                ask(part(SPECIAL_FACILITY, id, kind));
            }
            Kind::UpdateLocation => {
                ask(subscriber(SUBSCRIBER_NUMBER, id));
                ask(row);
            }
            Kind::InsertCallForwarding => {
                ask(subscriber(SUBSCRIBER_NUMBER, id));
                (0..4).for_each(|kind| ask(part(SPECIAL_FACILITY, id, kind)));
                ask(forwarding(id, kind, start));
            }
            Kind::DeleteCallForwarding => {
                ask(subscriber(SUBSCRIBER_NUMBER, id));
                ask(forwarding(id, kind, start));
            }
        }
    }

    fn run(&self, transaction: &Transaction, done: &mut Done) -> bool {
        let Transaction { subscriber: id, part: kind, .. } = *transaction;
        let guard = &self.database.pin();
        let end = match transaction.kind {
            Kind::GetSubscriberData => Self::get::<{ WORDS[0] }>(guard, subscriber(SUBSCRIBER, id)),
            Kind::GetNewDestination => Self::new_destination(guard, transaction),
            Kind::GetAccessData => Self::get::<{ WORDS[1] }>(guard, part(ACCESS_INFO, id, kind)),
            Kind::UpdateSubscriberData => Self::update_subscriber(guard, transaction, done),
            Kind::UpdateLocation => Self::update_location(guard, transaction, done),
            Kind::InsertCallForwarding => self.insert_forwarding(guard, transaction),
            Kind::DeleteCallForwarding => self.delete_forwarding(guard, transaction),
        };
        let is_over = !matches!(end, End::Met);
        done.tried[transaction.kind as usize] += u64::from(is_over);
        done.succeeded[transaction.kind as usize] += u64::from(matches!(end, End::Committed));
        is_over
    }

    fn check(&self, done: &[Done]) -> Result<(), CheckFailed> {
        let guard = self.database.pin();
        let failed = |what: String| Err(CheckFailed(what));
        let mut forwardings = 0_u64;
        for (found, row) in guard.iter() {
            if row.word(0).load(Ordering::Relaxed) % 2 == 1 {
                return failed("a row is locked".into());
            }
            if found.namespace().number() == CALL_FORWARDING {
                let word = |at: usize| row.word(1 + at).load(Ordering::Relaxed);
                let (id, kind, start) = (word(0), word(1), word(TIMES) & 0xFFFF_FFFF);
                let facility = part(SPECIAL_FACILITY, id, kind);
                let is_its = rows::find(&guard, forwarding(id, kind, start)).is_some();
                if !is_its || rows::find(&guard, facility).is_none() {
                    return failed(format!("a row forwards from no facility of {id}"));
                }
                forwardings += 1;
            }
        }
        let mut locked = [0_u64; 2];
        for id in 0..self.subscribers {
            self.check_subscriber(&guard, id, &mut locked)?;
        }
        let committed =
            |kind: Kind| done.iter().map(|done| done.succeeded[kind as usize]).sum::<u64>();
        let expected = self.forwardings + committed(Kind::InsertCallForwarding)
            - committed(Kind::DeleteCallForwarding);
        if expected != forwardings {
            return failed(format!("{forwardings} rows are forwarded instead of {expected}"));
        }
        let subscribers = done.iter().map(|done| done.locked).sum();
        let expected = [subscribers, committed(Kind::UpdateSubscriberData)];
        if expected != locked {
            return failed(format!("rows have changed {locked:?} times instead of {expected:?}"));
        }
        Ok(())
    }

    fn note(done: &[Done]) -> Option<String> {
        let shares = MIX.iter().map(|&(kind, _, expected)| {
            let share = share_of_successes(done, kind);
            format!("{kind:?} {share:.1} % ({expected})")
        });
        let shares: Vec<_> = shares.collect();
        Some(format!("Transactions that found their rows (expected): {}.", shares.join(", ")))
    }
}

/// Returns how many percent of a kind of transactions have found their rows.
fn share_of_successes(done: &[Done], kind: Kind) -> f64 {
    let sum = |of: fn(&Done) -> &[u64; 7]| done.iter().map(|done| of(done)[kind as usize]).sum();
    let (tried, succeeded): (u64, u64) = (sum(|done| &done.tried), sum(|done| &done.succeeded));
    100.0 * succeeded as f64 / tried.max(1) as f64
}

impl Tatp {
    /// Checks the rows of a subscriber that are never inserted or deleted, and adds how many times
    /// the subscriber and its facilities were locked.
    fn check_subscriber(
        &self,
        guard: &Guard<'_>,
        id: u64,
        locked: &mut [u64; 2],
    ) -> Result<(), CheckFailed> {
        let (mut bit, mut data, mut wrong) = (0, Vec::new(), false);
        schema::rows_of(id, |key, expected| {
            // What may change in each word.
            let mut changes = [0; 8];
            match key.table {
                CALL_FORWARDING => return,
                SUBSCRIBER => {
                    changes[BITS] = BIT_1;
                    changes[LOCATION] = VLR_LOCATION;
                }
                SPECIAL_FACILITY => changes[FACILITY] = DATA_A,
                _ => {}
            }
            let Some(row) = rows::find(guard, key) else {
                wrong = true;
                return;
            };
            let word = |at: usize| row.column(at).load(Ordering::Relaxed);
            wrong |= expected
                .iter()
                .enumerate()
                .any(|(at, &expected)| word(at) & !changes[at] != expected & !changes[at]);
            match key.table {
                SUBSCRIBER => {
                    bit = column(word(BITS), BIT_1);
                    locked[0] += row.changes();
                }
                SPECIAL_FACILITY => {
                    data.push(column(word(FACILITY), DATA_A) % 2);
                    locked[1] += row.changes();
                }
                _ => {}
            }
        });
        // The last update of the subscriber was the last one of a facility.
        match wrong || !data.contains(&bit) {
            true => Err(CheckFailed(format!("the rows of subscriber {id} do not agree"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares follow from the standard's tables and its mix.
    #[test]
    fn transactions_succeed_as_often_as_they_should() {
        let tatp = Tatp::load(20_000).unwrap();
        let (mut random, mut done) = (Random::new(1), Done::default());
        for _ in 0..400_000 {
            let transaction = tatp.draw(&mut random);
            assert!(tatp.run(&transaction, &mut done));
        }
        tatp.check(std::slice::from_ref(&done)).unwrap();
        let all: u64 = done.tried.iter().sum();
        for (kind, percent, expected) in MIX {
            let share = 100.0 * done.tried[kind as usize] as f64 / all as f64;
            assert!((share - percent as f64).abs() < 0.5, "{kind:?}: {share} %");
            let successes = share_of_successes(std::slice::from_ref(&done), kind);
            // Inserts and deletes have changed how many rows there are.
            let tolerance = if matches!(expected, 31.25) { 4.0 } else { 2.0 };
            assert!((successes - expected).abs() < tolerance, "{kind:?}: {successes} %");
        }
        done.locked += 1;
        assert!(tatp.check(&[done]).is_err());
    }
}
