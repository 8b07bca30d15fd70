//! Guards that outlive their threads, that are forgotten, or that nest without end. They hold back
//! what they may see, and nothing else. Also absurd capacities and handles.

use nunatak::{Dlht, Iceberg, Pea, Turbo};
use nunatak_harness::hostile::{absurd, guards, reclamation, thread_locals};
use nunatak_harness::hostile_tests;

hostile_tests! {
    guards_outlive_their_threads => thread_locals::guards_outlive_their_threads();
    guards_of_many_threads_outlive_them => thread_locals::guards_of_many_threads_outlive_them();
    numbers_are_free_after_the_last_guard => {
        thread_locals::numbers_are_free_after_the_last_guard()
    };
    operations_in_destructors_leave_nothing => {
        thread_locals::operations_in_destructors_leave_nothing()
    };
    last_operations_of_threads_leave_nothing => {
        thread_locals::last_operations_of_threads_leave_nothing()
    };
    builders_refuse_absurd_capacities => absurd::builders_refuse_absurd_capacities();
    options_at_their_ends_are_refused => absurd::options_at_their_ends_are_refused();
    handles_of_other_maps_are_harmless => absurd::handles_of_other_maps_are_harmless();
    reservations_and_batches_may_be_absurd => absurd::reservations_and_batches_may_be_absurd();
}

macro_rules! of_design {
    ($module:ident, $design:ty) => {
        mod $module {
            use super::*;

            hostile_tests! {
                guards_keep_what_they_found => reclamation::guards_keep_what_they_found::<$design>();
                owned_values_are_seen_by_nobody => {
                    reclamation::owned_values_are_seen_by_nobody::<$design>()
                };
                guards_keep_bytes => reclamation::guards_keep_bytes::<$design>();
                forgotten_guards_of_threads_are_harmless => {
                    thread_locals::forgotten_guards_of_threads_are_harmless::<$design>()
                };
                forgotten_guards_hold_and_no_more => {
                    guards::forgotten_guards_hold_and_no_more::<$design>()
                };
                guards_nest_without_end => guards::guards_nest_without_end::<$design>();
                guards_on_records_nest_without_end => {
                    guards::guards_on_records_nest_without_end::<$design>()
                };
                operations_go_on_beside_many_guards => {
                    guards::operations_go_on_beside_many_guards::<$design>()
                };
                guards_go_in_any_order => guards::guards_go_in_any_order::<$design>();
            }
        }
    };
}

of_design!(dlht, Dlht);
of_design!(iceberg, Iceberg);
of_design!(pea, Pea);
of_design!(turbo, Turbo);
