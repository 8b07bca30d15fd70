//! Smallbank (Cahill, Röhm, Fekete 2009): six transactions on the savings and the checking accounts
//! of customers, who are found by their names; 15 % only read. Three tables have six columns:
//! `Account` (`Name`, `CustomerId`), `Savings` and `Checking` (`CustomerId`, `Balance`). All
//! customers are equally active: the DLHT paper names no skew.

use super::Oltp;
use super::rows::{self, Database, Guard, Locked, RowKey};
use crate::experiment::figure::Figure;
use crate::keys::Random;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use std::sync::atomic::Ordering;

const SAVINGS: u16 = 0;
const CHECKING: u16 = 1;
const ACCOUNT: u16 = 2;
/// The column of a balance.
const BALANCE: usize = 1;
/// The column of an account's customer.
const CUSTOMER: usize = 1;
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
    /// The names of two distinct customers; most transactions use only the first.
    names: [u64; 2],
    amount: u64,
}

/// The change of the sum of all balances.
#[derive(Debug, Default)]
pub(super) struct Done {
    change: i64,
    /// Names that were not found.
    strangers: u64,
}

fn account(table: u16, customer: u64) -> RowKey {
    RowKey { table, key: customer }
}

/// Returns the name of a customer: a word of eight bytes, in no order.
fn name_of(customer: u64) -> u64 {
    customer.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Kind {
    /// How many customers a transaction has.
    fn customers(self) -> usize {
        if matches!(self, Self::Amalgamate | Self::SendPayment) { 2 } else { 1 }
    }

    /// Returns the accounts of customers in the order in which they are locked.
    fn accounts(self, [first, second]: [u64; 2]) -> Vec<RowKey> {
        let mut accounts = match self {
            Self::Balance | Self::WriteCheck => {
                vec![account(SAVINGS, first), account(CHECKING, first)]
            }
            Self::DepositChecking => vec![account(CHECKING, first)],
            Self::TransactSavings => vec![account(SAVINGS, first)],
            Self::Amalgamate => {
                vec![account(SAVINGS, first), account(CHECKING, first), account(CHECKING, second)]
            }
            Self::SendPayment => vec![account(CHECKING, first), account(CHECKING, second)],
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
        self.of(table, customer).get(BALANCE).cast_signed()
    }

    fn add(&self, table: u16, customer: u64, amount: i64) {
        let balance = self.balance(table, customer) + amount;
        self.of(table, customer).set(BALANCE, balance.cast_unsigned());
    }
}

impl Smallbank {
    /// Returns the customer of a name.
    fn named(guard: &Guard<'_>, name: u64) -> Option<u64> {
        let row = rows::find(guard, account(ACCOUNT, name))?;
        Some(row.column(CUSTOMER).load(Ordering::Relaxed))
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
        // A customer has three rows; the paper has ten million accounts.
        (settings.items / 3).clamp(2, 10_000_000)
    }

    fn load(customers: u64) -> Result<Self, CheckFailed> {
        let database = rows::database(3 * customers)?;
        for customer in 0..customers {
            let name = name_of(customer);
            rows::insert(&database, account(ACCOUNT, name), &rows::row(&[name, customer]))?;
            let row = rows::row(&[customer, FIRST_BALANCE]);
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
        Transaction { kind, names: [first, second].map(name_of), amount: 1 + random.below(100) }
    }

    fn prefetch(&self, transaction: &Transaction) {
        for &name in &transaction.names[..transaction.kind.customers()] {
            rows::prefetch(&self.database, account(ACCOUNT, name));
        }
    }

    fn run(&self, transaction: &Transaction, done: &mut Done) -> bool {
        let guard = self.database.pin();
        let (kind, amount) = (transaction.kind, transaction.amount as i64);
        let mut customers = [0; 2];
        for (customer, &name) in customers.iter_mut().zip(&transaction.names[..kind.customers()]) {
            // No customer leaves the bank: a name without one is noticed at the end.
            let Some(found) = Self::named(&guard, name) else {
                done.strangers += 1;
                return true;
            };
            *customer = found;
        }
        let Some(rows) = LockedRows::lock(&guard, &kind.accounts(customers)) else { return false };
        let [first, second] = customers;
        match kind {
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

    fn check(&self, done: &[Done]) -> Result<(), CheckFailed> {
        let guard = self.database.pin();
        let mut sum = 0_i64;
        if done.iter().any(|done| done.strangers > 0) {
            return Err(CheckFailed("a customer was not found".into()));
        }
        for customer in 0..self.customers {
            if Self::named(&guard, name_of(customer)) != Some(customer) {
                return Err(CheckFailed("a name is another customer's".into()));
            }
            for table in [SAVINGS, CHECKING] {
                let row = rows::find(&guard, account(table, customer));
                let row = row.ok_or_else(|| CheckFailed("an account is gone".into()))?;
                let [of, balance] = [0, BALANCE].map(|at| row.column(at).load(Ordering::Relaxed));
                if of != customer {
                    return Err(CheckFailed("an account is another customer's".into()));
                }
                sum += balance.cast_signed();
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
