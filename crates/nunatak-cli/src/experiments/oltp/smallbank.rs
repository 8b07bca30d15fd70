//! Smallbank (Cahill, Röhm, Fekete 2009): six transactions on the savings and the checking
//! accounts of customers, of which 15 % only read. All customers are equally active.

use super::Oltp;
use super::rows::{self, Database, Guard, Locked, RowKey};
use crate::experiments::figure::Figure;
use crate::keys::Random;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use std::sync::atomic::Ordering;

const SAVINGS: u16 = 0;
const CHECKING: u16 = 1;
const FIRST_BALANCE: u64 = 10_000;

pub(super) struct Smallbank {
    database: Database,
    customers: u64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Reads both accounts of a customer.
    Balance,
    /// Adds to the checking account.
    DepositChecking,
    /// Adds to the savings account.
    TransactSavings,
    /// Moves all money of a customer to the checking account of another.
    Amalgamate,
    /// Takes from the checking account, with a fee if both accounts together have less.
    WriteCheck,
    /// Moves money from one checking account to another, if there is enough.
    SendPayment,
}

#[derive(Debug)]
pub(super) struct Transaction {
    kind: Kind,
    /// Two distinct customers; most transactions use only the first.
    customers: [u64; 2],
    amount: u64,
}

/// The change of the sum of all balances.
#[derive(Debug, Default)]
pub(super) struct Done {
    change: i64,
}

fn account(table: u16, customer: u64) -> RowKey {
    RowKey { table, key: customer }
}

impl Transaction {
    /// Returns the accounts in the order in which they are locked.
    fn accounts(&self) -> Vec<RowKey> {
        let [first, second] = self.customers;
        let mut accounts = match self.kind {
            Kind::Balance | Kind::WriteCheck => {
                vec![account(SAVINGS, first), account(CHECKING, first)]
            }
            Kind::DepositChecking => vec![account(CHECKING, first)],
            Kind::TransactSavings => vec![account(SAVINGS, first)],
            Kind::Amalgamate => {
                vec![account(SAVINGS, first), account(CHECKING, first), account(CHECKING, second)]
            }
            Kind::SendPayment => vec![account(CHECKING, first), account(CHECKING, second)],
        };
        // All transactions lock in the same order, so they can't wait for each other in a circle.
        accounts.sort_unstable();
        accounts
    }
}

/// Locked rows with their keys.
struct LockedRows<'g>(Vec<(RowKey, Locked<'g>)>);

impl<'g> LockedRows<'g> {
    /// Locks all rows, or none.
    fn lock(guard: &'g Guard<'_>, keys: &[RowKey]) -> Option<Self> {
        let lock = |&key| Some((key, rows::find(guard, key)?.lock()?));
        keys.iter().map(lock).collect::<Option<Vec<_>>>().map(Self)
    }

    fn of(&self, table: u16, customer: u64) -> &Locked<'g> {
        let key = account(table, customer);
        match self.0.iter().find(|(other, _)| *other == key) {
            Some((_, row)) => row,
            None => unreachable!("the transaction has locked its accounts"),
        }
    }

    fn balance(&self, table: u16, customer: u64) -> i64 {
        self.of(table, customer).get(0).cast_signed()
    }

    fn add(&self, table: u16, customer: u64, amount: i64) {
        let balance = self.balance(table, customer) + amount;
        self.of(table, customer).set(0, balance.cast_unsigned());
    }
}

pub(in crate::experiments) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    super::run::<Smallbank>(settings)
}

impl Oltp for Smallbank {
    const TITLE: &'static str = "Smallbank: transactions that mostly write (DLHT, figure 19)";

    type Transaction = Transaction;
    type Done = Done;

    fn rows(settings: &Settings) -> u64 {
        (settings.items / 2).max(2)
    }

    fn load(customers: u64) -> Result<Self, CheckFailed> {
        let database = rows::database(2 * customers)?;
        let row = rows::row([FIRST_BALANCE]);
        for customer in 0..customers {
            rows::insert(&database, account(SAVINGS, customer), &row)?;
            rows::insert(&database, account(CHECKING, customer), &row)?;
        }
        Ok(Self { database, customers })
    }

    fn draw(&self, random: &mut Random) -> Transaction {
        let kind = match random.below(100) {
            0..15 => Kind::Balance,
            15..30 => Kind::DepositChecking,
            30..45 => Kind::TransactSavings,
            45..60 => Kind::Amalgamate,
            60..75 => Kind::WriteCheck,
            _ => Kind::SendPayment,
        };
        let first = random.below(self.customers);
        let second = (first + 1 + random.below(self.customers - 1)) % self.customers;
        Transaction { kind, customers: [first, second], amount: 1 + random.below(100) }
    }

    fn prefetch(&self, transaction: &Transaction) {
        let accounts = transaction.accounts();
        accounts.into_iter().for_each(|key| rows::prefetch(&self.database, key));
    }

    fn run(&self, transaction: &Transaction, done: &mut Done) -> bool {
        let guard = self.database.pin();
        let Some(rows) = LockedRows::lock(&guard, &transaction.accounts()) else { return false };
        let ([first, second], amount) = (transaction.customers, transaction.amount as i64);
        match transaction.kind {
            Kind::Balance => {
                let total = rows.balance(SAVINGS, first) + rows.balance(CHECKING, first);
                std::hint::black_box(total);
            }
            Kind::DepositChecking => {
                rows.add(CHECKING, first, amount);
                done.change += amount;
            }
            Kind::TransactSavings => {
                rows.add(SAVINGS, first, amount);
                done.change += amount;
            }
            Kind::Amalgamate => {
                let (savings, checking) =
                    (rows.balance(SAVINGS, first), rows.balance(CHECKING, first));
                rows.add(SAVINGS, first, -savings);
                rows.add(CHECKING, first, -checking);
                rows.add(CHECKING, second, savings + checking);
            }
            Kind::WriteCheck => {
                let has = rows.balance(SAVINGS, first) + rows.balance(CHECKING, first);
                let taken = if has < amount { amount + 1 } else { amount };
                rows.add(CHECKING, first, -taken);
                done.change -= taken;
            }
            Kind::SendPayment => {
                if rows.balance(CHECKING, first) >= amount {
                    rows.add(CHECKING, first, -amount);
                    rows.add(CHECKING, second, amount);
                }
            }
        }
        true
    }

    fn check(&self, done: Vec<Done>) -> Result<(), CheckFailed> {
        let guard = self.database.pin();
        let mut sum = 0_i64;
        for customer in 0..self.customers {
            for table in [SAVINGS, CHECKING] {
                let row = rows::find(&guard, account(table, customer));
                let row = row.ok_or_else(|| CheckFailed("an account is gone".into()))?;
                sum += row.column(0).load(Ordering::Relaxed).cast_signed();
            }
        }
        let change: i64 = done.iter().map(|done| done.change).sum();
        let expected = 2 * self.customers as i64 * FIRST_BALANCE as i64 + change;
        match sum == expected {
            true => Ok(()),
            false => Err(CheckFailed(format!("the balances sum to {sum} instead of {expected}"))),
        }
    }
}
