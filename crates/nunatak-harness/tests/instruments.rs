//! The instruments of the other tests notice what they are for.

use nunatak_harness::drops::Ledger;
use nunatak_harness::hostile::watch::watched;

#[test]
fn a_ledger_settles_when_all_are_dropped() {
    let ledger = Ledger::default();
    let tracked = ledger.track(1);
    drop((tracked.clone(), tracked));
    ledger.settle();
}

#[test]
#[should_panic(expected = "of 1 were leaked")]
fn a_ledger_notices_a_leak() {
    let ledger = Ledger::default();
    std::mem::forget(ledger.track(1));
    ledger.settle();
}

#[test]
#[should_panic(expected = "7 was dropped twice")]
fn a_ledger_notices_a_second_drop() {
    let ledger = Ledger::default();
    let tracked = ledger.track(7);
    ledger.note_drop(&tracked);
    drop(tracked);
    ledger.settle();
}

#[test]
#[should_panic(expected = "7 was used after")]
fn a_ledger_notices_a_use_after_a_drop() {
    let ledger = Ledger::default();
    let tracked = ledger.track(7);
    ledger.note_drop(&tracked);
    drop(tracked.clone());
    ledger.settle();
}

#[test]
#[should_panic(expected = "of the check")]
fn panics_are_passed_on() {
    watched(|| panic!("of the check"));
}
