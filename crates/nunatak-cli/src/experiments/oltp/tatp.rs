//! TATP (Neuvonen, Wolski, Manner, Raatikka 2009): seven transactions on the subscribers of a
//! telephone network, in four tables; 80 % only read.

use super::Oltp;
use super::rows::{self, Database, RowKey};
use crate::experiments::figure::Figure;
use crate::keys::Random;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use nunatak::Error;
use std::sync::atomic::Ordering;

const SUBSCRIBER: u16 = 0;
const ACCESS_INFO: u16 = 1;
const SPECIAL_FACILITY: u16 = 2;
const CALL_FORWARDING: u16 = 3;
/// The table from a subscriber's telephone number to the subscriber.
const SUBSCRIBER_NUMBER: u16 = 4;

/// Columns of a subscriber: bits, location, and the number of its updates together with a facility.
const BITS: usize = 0;
const LOCATION: usize = 3;
const UPDATES: usize = 4;
/// Columns of a facility: whether it is active, data, and the number of its updates.
const IS_ACTIVE: usize = 0;
const DATA_A: usize = 1;
const FACILITY_UPDATES: usize = 2;

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

#[derive(Debug)]
pub(super) struct Transaction {
    kind: Kind,
    subscriber: u64,
    /// The number of an access or of a facility: 0 to 3.
    number: u64,
    /// 0, 8 or 16 o'clock.
    start: u64,
    value: u64,
}

#[derive(Debug, Default)]
pub(super) struct Done {
    /// The number of inserted rows of call forwarding, less that of deleted ones.
    forwardings: i64,
    updates: u64,
}

/// Returns the subscriber's telephone number.
fn number_of(subscriber: u64) -> u64 {
    subscriber.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the key of one of a subscriber's rows in another table.
fn part(table: u16, subscriber: u64, number: u64) -> RowKey {
    RowKey { table, key: subscriber << 8 | number }
}

fn forwarding(transaction: &Transaction) -> RowKey {
    let hours = 16 * transaction.number + transaction.start / 8;
    part(CALL_FORWARDING, transaction.subscriber, hours)
}

/// Returns whether a subscriber has row `number` of a kind. The subscriber's number determines how
/// many rows it has.
fn has(subscriber: u64, number: u64) -> bool {
    number <= subscriber.wrapping_mul(0xA076_1D64_78BD_642F) >> 62
}

impl Tatp {
    /// Returns the subscriber with a telephone number, by a lookup in a table.
    fn called(&self, number: u64) -> Option<u64> {
        let guard = self.database.pin();
        let key = RowKey { table: SUBSCRIBER_NUMBER, key: number };
        rows::find(&guard, key).map(|row| row.column(0).load(Ordering::Relaxed))
    }

    /// Reads a row if it exists; returns false while another transaction changes it.
    fn look(&self, key: RowKey, columns: usize) -> bool {
        let guard = self.database.pin();
        let sum = |row: rows::Row<'_>| {
            (0..columns).fold(0_u64, |sum, at| sum ^ row.column(at).load(Ordering::Relaxed))
        };
        match rows::find(&guard, key) {
            Some(row) => row.read(sum).map(std::hint::black_box).is_some(),
            None => true,
        }
    }

    fn new_destination(&self, transaction: &Transaction) -> bool {
        let guard = self.database.pin();
        let facility = part(SPECIAL_FACILITY, transaction.subscriber, transaction.number);
        let Some(row) = rows::find(&guard, facility) else { return true };
        match row.read(|row| row.column(IS_ACTIVE).load(Ordering::Relaxed)) {
            None => false,
            Some(0) => true,
            Some(_) => self.look(forwarding(transaction), 2),
        }
    }

    fn update_subscriber(&self, transaction: &Transaction, done: &mut Done) -> bool {
        let guard = self.database.pin();
        let facility = part(SPECIAL_FACILITY, transaction.subscriber, transaction.number);
        let subscriber = RowKey { table: SUBSCRIBER, key: transaction.subscriber };
        let (Some(row), Some(facility)) =
            (rows::find(&guard, subscriber), rows::find(&guard, facility))
        else {
            // The subscriber has no such facility: nothing is changed.
            return true;
        };
        // All transactions lock in the order of the tables.
        let (Some(row), Some(facility)) = (row.lock(), facility.lock()) else { return false };
        row.set(BITS, transaction.value);
        row.set(UPDATES, row.get(UPDATES) + 1);
        facility.set(DATA_A, transaction.value);
        facility.set(FACILITY_UPDATES, facility.get(FACILITY_UPDATES) + 1);
        done.updates += 1;
        true
    }

    fn update_location(&self, transaction: &Transaction) -> bool {
        let Some(subscriber) = self.called(number_of(transaction.subscriber)) else { return false };
        let guard = self.database.pin();
        let row = rows::find(&guard, RowKey { table: SUBSCRIBER, key: subscriber });
        let Some(row) = row.and_then(rows::Row::lock) else { return false };
        row.set(LOCATION, transaction.value);
        true
    }

    fn insert_forwarding(&self, transaction: &Transaction, done: &mut Done) -> bool {
        if self.called(number_of(transaction.subscriber)) != Some(transaction.subscriber) {
            return false;
        }
        let (namespace, key) = forwarding(transaction).bytes();
        let row = rows::row([transaction.start + 8, transaction.value]);
        // The row is hidden, and thereby locked, until the transaction knows whether it may commit.
        let shadow = match self.database.shadow_insert((namespace, &key), &row) {
            Ok(shadow) => shadow,
            Err(Error::Shadowed) => return false,
            // The transaction fails, as at least a quarter of its kind do.
            Err(_) => return true,
        };
        let guard = self.database.pin();
        let facility = part(SPECIAL_FACILITY, transaction.subscriber, transaction.number);
        if rows::find(&guard, facility).is_some() {
            shadow.commit();
            done.forwardings += 1;
        }
        true
    }

    fn delete_forwarding(&self, transaction: &Transaction, done: &mut Done) -> bool {
        if self.called(number_of(transaction.subscriber)) != Some(transaction.subscriber) {
            return false;
        }
        let (namespace, key) = forwarding(transaction).bytes();
        done.forwardings -= i64::from(self.database.delete((namespace, &key)));
        true
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
        // A subscriber has about eight rows.
        (settings.items / 8).max(1)
    }

    fn load(subscribers: u64) -> Result<Self, CheckFailed> {
        let database = rows::database(8 * subscribers)?;
        let mut forwardings = 0;
        for subscriber in 0..subscribers {
            let key = RowKey { table: SUBSCRIBER, key: subscriber };
            rows::insert(&database, key, &rows::row([0; 5]))?;
            let key = RowKey { table: SUBSCRIBER_NUMBER, key: number_of(subscriber) };
            rows::insert(&database, key, &rows::row([subscriber]))?;
            for number in (0..4).filter(|&number| has(subscriber, number)) {
                let row = rows::row([number, 0]);
                rows::insert(&database, part(ACCESS_INFO, subscriber, number), &row)?;
                // 85 % of the facilities are active.
                let active = u64::from((subscriber + 7 * number) % 100 < 85);
                let row = rows::row([active, 0, 0]);
                rows::insert(&database, part(SPECIAL_FACILITY, subscriber, number), &row)?;
                for start in (0..3).filter(|&start| has(subscriber + 1, start + 1)) {
                    let key = part(CALL_FORWARDING, subscriber, 16 * number + start);
                    rows::insert(&database, key, &rows::row([8 * start + 8, 0]))?;
                    forwardings += 1;
                }
            }
        }
        Ok(Self { database, subscribers, forwardings })
    }

    fn draw(&self, random: &mut Random) -> Transaction {
        let kind = match random.below(100) {
            0..35 => Kind::GetSubscriberData,
            35..45 => Kind::GetNewDestination,
            45..80 => Kind::GetAccessData,
            80..82 => Kind::UpdateSubscriberData,
            82..96 => Kind::UpdateLocation,
            96..98 => Kind::InsertCallForwarding,
            _ => Kind::DeleteCallForwarding,
        };
        // The distribution is not uniform: as in the benchmark, some subscribers are drawn more
        // often.
        let most = self.subscribers.next_power_of_two() / 16;
        let subscriber =
            (random.below(most.max(1)) | random.below(self.subscribers)) % self.subscribers;
        Transaction {
            kind,
            subscriber,
            number: random.below(4),
            start: 8 * random.below(3),
            value: random.next(),
        }
    }

    fn prefetch(&self, transaction: &Transaction) {
        let Transaction { subscriber, number, .. } = *transaction;
        let key = match transaction.kind {
            Kind::GetSubscriberData => RowKey { table: SUBSCRIBER, key: subscriber },
            Kind::GetAccessData => part(ACCESS_INFO, subscriber, number),
            Kind::GetNewDestination => {
                rows::prefetch(&self.database, forwarding(transaction));
                part(SPECIAL_FACILITY, subscriber, number)
            }
            Kind::UpdateSubscriberData => {
                let row = RowKey { table: SUBSCRIBER, key: subscriber };
                rows::prefetch(&self.database, row);
                part(SPECIAL_FACILITY, subscriber, number)
            }
            Kind::UpdateLocation => {
                let row = RowKey { table: SUBSCRIBER, key: subscriber };
                rows::prefetch(&self.database, row);
                RowKey { table: SUBSCRIBER_NUMBER, key: number_of(subscriber) }
            }
            Kind::InsertCallForwarding | Kind::DeleteCallForwarding => {
                rows::prefetch(&self.database, forwarding(transaction));
                RowKey { table: SUBSCRIBER_NUMBER, key: number_of(subscriber) }
            }
        };
        rows::prefetch(&self.database, key);
    }

    fn run(&self, transaction: &Transaction, done: &mut Done) -> bool {
        let Transaction { subscriber, number, .. } = *transaction;
        match transaction.kind {
            Kind::GetSubscriberData => self.look(RowKey { table: SUBSCRIBER, key: subscriber }, 5),
            Kind::GetNewDestination => self.new_destination(transaction),
            Kind::GetAccessData => self.look(part(ACCESS_INFO, subscriber, number), 2),
            Kind::UpdateSubscriberData => self.update_subscriber(transaction, done),
            Kind::UpdateLocation => self.update_location(transaction),
            Kind::InsertCallForwarding => self.insert_forwarding(transaction, done),
            Kind::DeleteCallForwarding => self.delete_forwarding(transaction, done),
        }
    }

    fn check(&self, done: Vec<Done>) -> Result<(), CheckFailed> {
        let guard = self.database.pin();
        let failed = |what: String| Err(CheckFailed(what));
        let (mut forwardings, mut updates) = (0_u64, 0_u64);
        for (found, row) in guard.iter() {
            forwardings += u64::from(found.namespace().number() == CALL_FORWARDING);
            if row.word(0).load(Ordering::Relaxed) % 2 == 1 {
                return failed("a row is locked".into());
            }
        }
        for subscriber in 0..self.subscribers {
            let column = |key, at| {
                let row = rows::find(&guard, key)?;
                Some(row.column(at).load(Ordering::Relaxed))
            };
            let of_row = column(RowKey { table: SUBSCRIBER, key: subscriber }, UPDATES);
            let facilities = (0..4).map(|number| part(SPECIAL_FACILITY, subscriber, number));
            let of_facilities: u64 =
                facilities.filter_map(|key| column(key, FACILITY_UPDATES)).sum();
            if of_row != Some(of_facilities) {
                return failed(format!("{of_row:?} updates of a subscriber are {of_facilities}"));
            }
            updates += of_facilities;
        }
        let change: i64 = done.iter().map(|done| done.forwardings).sum();
        let expected = self.forwardings.checked_add_signed(change);
        if expected != Some(forwardings) {
            return failed(format!("{forwardings} rows are forwarded instead of {expected:?}"));
        }
        let committed: u64 = done.iter().map(|done| done.updates).sum();
        if committed != updates {
            return failed(format!("{committed} updates have left {updates}"));
        }
        Ok(())
    }
}
