//! The suite can fail: for each bug a check finds it.

mod map;

use map::{Bug, Mutants};
use nunatak_harness::{closures, drops, model, record, stress};
use std::panic::catch_unwind;

/// The runs before a bug counts as not found. A race is found by the first few, or by a later one
/// where the scheduler lets threads run one after the other.
const RUNS: u32 = 500;

/// Checks that one of several runs fails: a bug that only a race shows may need several.
#[track_caller]
fn finds(bug: Bug, check: impl Fn(&Mutants) + std::panic::RefUnwindSafe) {
    let found = (0..RUNS).any(|_| catch_unwind(|| check(&Mutants(bug))).is_err());
    assert!(found, "{bug:?} passes");
}

macro_rules! mutants {
    ($($test:ident: $bug:ident, $check:expr;)*) => {$(
        #[test]
        fn $test() {
            finds(Bug::$bug, $check);
        }
    )*};
}

mutants! {
    batch_reversed: BatchReversed, model::agrees_with_a_hash_map::<u64, u64, _>;
    batch_reversed_under_way: BatchReversed, stress::cuts::snapshots_are_cuts::<u64, u64, _>;
    batch_reversed_is_read: BatchReversed, stress::cuts::reads_keep_the_order::<u64, u64, _>;
    clear_keeps_one: ClearKeepsOne, stress::winners::retain_and_clear_compete::<u64, u64, _>;
    compute_not_atomic: ComputeNotAtomic, stress::conservation::values_are_conserved::<u64, u64, _>;
    compute_wins_twice: ComputeNotAtomic, stress::winners::one_insert_wins::<u64, u64, _>;
    compute_runs_on_a_stale_value: ComputeNotAtomic,
        closures::closures_may_use_the_map::<String, String, _>;
    execute_ignores_stop: ExecuteIgnoresStop, model::agrees_with_a_hash_map::<u64, u64, _>;
    fetch_update_not_atomic: FetchUpdateNotAtomic,
        stress::conservation::transfers_keep_the_total::<u64, u64, _>;
    get_answers_from_a_cache: GetAnswersFromACache,
        record::histories_are_linearizable::<u64, u64, _>;
    get_misses_now_and_then: GetMissesNowAndThen,
        stress::presence::stable_keys_are_never_missed::<u64, u64, _>;
    get_or_insert_keeps_its_own: GetOrInsertKeepsItsOwn,
        stress::winners::one_insert_wins::<u64, u64, _>;
    iteration_repeats: IterationRepeats, model::agrees_with_a_hash_map::<u64, u64, _>;
    iteration_repeats_under_way: IterationRepeats,
        stress::presence::values_belong_to_their_keys::<u64, u64, _>;
    iteration_skips: IterationSkips, closures::changes_during_iteration::<u64, u64, _>;
    length_off_by_one: LengthOffByOne, stress::threads::length_is_exact_at_rest::<u64, u64, _>;
    memory_grows: MemoryGrows, stress::memory::churn_needs_no_more::<u64, u64, _>;
    panic_loses_the_entry: PanicLosesTheEntry, closures::panics_change_nothing::<u64, u64, _>;
    remove_leaks: RemoveLeaks, drops::everything_is_dropped_once;
    remove_leaks_by_threads: RemoveLeaks, drops::everything_is_dropped_once_by_threads;
    remove_leaks_for_long: RemoveLeaks, drops::garbage_is_bounded;
    remove_not_atomic: RemoveNotAtomic, stress::winners::one_remove_wins::<u64, u64, _>;
    remove_not_atomic_in_a_history: RemoveNotAtomic,
        record::histories_are_linearizable::<u64, u64, _>;
    remove_returns_another: RemoveReturnsAnother, model::agrees_with_a_hash_map::<u64, u64, _>;
    remove_leaks_when_cleared: RemoveLeaks, drops::clearing_drops_everything;
    retain_asks_twice: RetainAsksTwice, closures::retain_asks_once::<u64, u64, _>;
    retain_does_not_look_again: RetainDoesNotLookAgain,
        closures::retain_looks_again::<u64, u64, _>;
    short_output_is_filled: ShortOutputIsFilled, model::agrees_with_a_hash_map::<u64, u64, _>;
    shrink_keeps_memory: ShrinkKeepsMemory, stress::memory::shrinking_gives_memory_back::<u64, u64, _>;
    snapshot_in_pieces: SnapshotInPieces, stress::cuts::snapshots_are_cuts::<u64, u64, _>;
    snapshot_in_pieces_has_gaps: SnapshotInPieces,
        stress::cuts::snapshots_hold_no_gaps::<u64, u64, _>;
    try_insert_not_atomic: TryInsertNotAtomic, stress::winners::one_insert_wins::<u64, u64, _>;
    try_insert_not_atomic_in_a_history: TryInsertNotAtomic,
        record::histories_are_linearizable::<u64, u64, _>;
    try_insert_overwrites: TryInsertOverwrites, model::agrees_with_a_hash_map::<u64, u64, _>;
    update_many_inserts: UpdateManyInserts, model::agrees_with_a_hash_map::<u64, u64, _>;
    update_returns_a_stale_value: UpdateReturnsAStaleValue,
        stress::conservation::values_are_conserved_by_many_threads::<u64, u64, _>;
    update_returns_a_stale_value_in_a_history: UpdateReturnsAStaleValue,
        record::histories_are_linearizable::<u64, u64, _>;
}
