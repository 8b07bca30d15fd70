//! The linearizability checker on histories whose verdict is known.

use nunatak_harness::history::{Answer, Call, Operation};
use nunatak_harness::linearizability::{Verdict, check};

const BUDGET: usize = 100_000;

/// Makes an operation on key 1, with its interval.
fn op(thread: usize, from: u64, to: u64, call: Call, answer: Answer) -> Operation {
    Operation { key: 1, thread, call, invoked: from, returned: Some((to, answer)) }
}

fn pending(thread: usize, from: u64, call: Call) -> Operation {
    Operation { key: 1, thread, call, invoked: from, returned: None }
}

fn get(thread: usize, from: u64, to: u64, value: Option<u64>) -> Operation {
    op(thread, from, to, Call::Get, Answer::Before(value))
}

fn insert(thread: usize, from: u64, to: u64, value: u64, before: Option<u64>) -> Operation {
    op(thread, from, to, Call::Insert(value), Answer::Before(before))
}

fn is_right(history: &[Operation]) {
    assert_eq!(check(history, BUDGET), Verdict::Linearizable);
}

/// Checks that the history is wrong, and that the last operation shown is `culprit`.
fn is_wrong(history: &[Operation], culprit: Operation) {
    match check(history, BUDGET) {
        Verdict::NotLinearizable { key, operations } => {
            assert_eq!(key, culprit.key);
            assert_eq!(operations.last(), Some(&culprit), "{operations:?}");
        }
        verdict => panic!("{verdict:?} of {history:?}"),
    }
}

#[test]
fn nothing_happened() {
    is_right(&[]);
}

#[test]
fn one_after_the_other() {
    is_right(&[
        get(0, 0, 1, None),
        insert(0, 2, 3, 5, None),
        get(1, 4, 5, Some(5)),
        op(1, 6, 7, Call::Update(6), Answer::Before(Some(5))),
        op(0, 8, 9, Call::CompareExchange { current: 6, new: 7 }, Answer::Exchanged(Ok(6))),
        op(0, 10, 11, Call::TryInsert(8), Answer::Tried(Err(7))),
        op(0, 12, 13, Call::Remove, Answer::Before(Some(7))),
        op(0, 14, 15, Call::Update(9), Answer::Before(None)),
        op(0, 16, 17, Call::CompareExchange { current: 7, new: 1 }, Answer::Exchanged(Err(None))),
        op(0, 18, 19, Call::TryInsert(8), Answer::Tried(Ok(()))),
    ]);
}

#[test]
fn overlapping_operations_take_any_order() {
    for seen in [None, Some(5)] {
        is_right(&[insert(0, 0, 10, 5, None), get(1, 1, 9, seen)]);
    }
    // Both readers overlap the write. The reader that begins later, and overlaps the other, may see
    // the older value.
    is_right(&[insert(0, 0, 10, 5, None), get(1, 1, 8, Some(5)), get(2, 2, 9, None)]);
}

#[test]
fn a_stale_read() {
    let stale = get(1, 4, 5, None);
    is_wrong(&[insert(0, 0, 1, 5, None), get(0, 2, 3, Some(5)), stale], stale);
}

#[test]
fn a_read_that_goes_back() {
    // The first reader saw the new value and returned before the second began, while the write was
    // still running.
    let back = get(2, 6, 7, None);
    is_wrong(&[insert(0, 0, 10, 5, None), get(1, 1, 5, Some(5)), back], back);
}

#[test]
fn a_lost_update() {
    let lost = insert(1, 2, 5, 7, Some(5));
    is_wrong(&[insert(0, 0, 1, 5, None), insert(0, 3, 4, 6, Some(5)), lost], lost);
}

#[test]
fn two_try_inserts_that_succeed() {
    let first = op(0, 0, 5, Call::TryInsert(1), Answer::Tried(Ok(())));
    let second = op(1, 1, 6, Call::TryInsert(2), Answer::Tried(Ok(())));
    is_wrong(&[first, second], second);
    let remove = op(2, 2, 7, Call::Remove, Answer::Before(Some(1)));
    is_right(&[first, second, remove]);
}

#[test]
fn a_resurrected_key() {
    let back = get(1, 4, 5, Some(5));
    let remove = op(0, 2, 3, Call::Remove, Answer::Before(Some(5)));
    is_wrong(&[insert(0, 0, 1, 5, None), remove, back], back);
}

#[test]
fn a_value_that_nobody_wrote() {
    let phantom = get(1, 1, 2, Some(6));
    is_wrong(&[insert(0, 0, 3, 5, None), phantom], phantom);
}

#[test]
fn an_order_against_time() {
    // Only the reverse order explains the answers, but the first operation had returned before the
    // second began.
    let first = insert(0, 0, 1, 5, Some(6));
    is_wrong(&[first, insert(1, 2, 3, 6, None)], first);
}

#[test]
fn a_compare_exchange_that_succeeds_twice() {
    let exchange = Call::CompareExchange { current: 5, new: 6 };
    let second = op(1, 3, 6, exchange, Answer::Exchanged(Ok(5)));
    is_wrong(
        &[insert(0, 0, 1, 5, None), op(0, 2, 5, exchange, Answer::Exchanged(Ok(5))), second],
        second,
    );
}

#[test]
fn an_operation_that_never_returned_may_have_happened() {
    is_right(&[pending(0, 0, Call::Insert(5)), get(1, 5, 6, Some(5))]);
    is_right(&[pending(0, 0, Call::Insert(5)), get(1, 5, 6, None)]);
    is_right(&[pending(0, 0, Call::Insert(5)), get(1, 5, 6, None), get(1, 7, 8, Some(5))]);
}

#[test]
fn an_operation_that_never_returned_happens_once_and_not_before_its_call() {
    let second = insert(1, 9, 10, 7, Some(5));
    let history = [
        pending(0, 0, Call::Insert(5)),
        insert(1, 5, 6, 6, Some(5)),
        get(1, 7, 8, Some(6)),
        second,
    ];
    is_wrong(&history, second);
    let early = get(1, 1, 2, Some(5));
    is_wrong(&[early, pending(0, 3, Call::Insert(5))], early);
}

#[test]
fn keys_are_independent() {
    let other = |operation: Operation| Operation { key: 2, ..operation };
    is_right(&[insert(0, 0, 1, 5, None), other(get(0, 2, 3, None))]);
    let wrong = other(get(0, 2, 3, Some(5)));
    is_wrong(&[insert(0, 0, 1, 5, None), wrong], wrong);
}

#[test]
fn what_is_shown_ends_at_the_wrong_answer() {
    let wrong = get(1, 4, 5, Some(9));
    let mut history = vec![insert(0, 0, 3, 5, None), wrong];
    history.extend((10..100).step_by(2).map(|at| get(0, at, at + 1, Some(5))));
    let Verdict::NotLinearizable { operations, .. } = check(&history, BUDGET) else {
        panic!("a wrong answer passes");
    };
    assert_eq!(operations, [history[0], wrong]);
}

/// Returns a history whose check must try every order: overlapping writers whose answers no order
/// explains.
fn hard() -> Vec<Operation> {
    let mut history: Vec<_> = (0..24)
        .map(|thread| op(thread, 0, 100, Call::Insert(thread as u64), Answer::Before(None)))
        .collect();
    history.extend((24..40).map(|thread| pending(thread, 0, Call::Remove)));
    history
}

#[test]
fn a_search_that_is_given_up_is_not_a_pass() {
    let verdict = check(&hard(), 1000);
    assert_eq!(verdict, Verdict::Unknown { key: 1, budget: 1000 });
}

#[test]
fn a_wrong_key_is_found_beside_one_that_is_given_up() {
    let mut history = hard();
    let wrong = Operation { key: 2, ..get(0, 2, 3, Some(5)) };
    history.push(wrong);
    let verdict = check(&history, 1000);
    assert_eq!(verdict, Verdict::NotLinearizable { key: 2, operations: vec![wrong] });
}

#[test]
fn long_histories_are_searched_with_memory() {
    // Without memory, each group of overlapping reads would multiply the orders.
    let mut history = Vec::new();
    for round in 0..40_u64 {
        let at = round * 100;
        let before = round.checked_sub(1);
        history.push(insert(0, at, at + 50, round, before));
        history.extend((1..6).map(|thread| get(thread, at + 1, at + 51, Some(round))));
    }
    is_right(&history);
    let wrong = get(1, 9000, 9001, Some(0));
    history.push(wrong);
    is_wrong(&history, wrong);
}
