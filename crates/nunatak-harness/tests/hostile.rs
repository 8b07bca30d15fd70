//! Every kind of map withstands callers that do what safe Rust allows.

use nunatak_harness::hostile::kinds::LOCAL;
use nunatak_harness::hostile::{blocking, inconsistent, panics, reentrance};
use nunatak_harness::{hostile_kinds, hostile_tests};

hostile_kinds!(wrong_hashes_are_harmless, inconsistent::wrong_hashes_are_harmless);
hostile_kinds!(callers_may_call_back, reentrance::callers_may_call_back);
hostile_kinds!(callers_of_threads_may_call_back, reentrance::callers_of_threads_may_call_back);
hostile_kinds!(panics_are_harmless, panics::panics_are_harmless);
hostile_kinds!(panics_amid_growth_are_harmless, panics::panics_amid_growth_are_harmless);
hostile_kinds!(callers_hold_nothing_up, blocking::callers_hold_nothing_up);
hostile_kinds!(hashers_hold_nothing_up, blocking::hashers_hold_nothing_up);
hostile_kinds!(callers_may_cut_at_the_same_time, blocking::callers_may_cut_at_the_same_time);

mod callers_may_call_back_locally {
    use super::*;

    hostile_tests! {
        inline => reentrance::callers_may_call_back_locally(LOCAL[0].1);
        boxed => reentrance::callers_may_call_back_locally(LOCAL[1].1);
        record => reentrance::callers_may_call_back_locally(LOCAL[2].1);
    }
}
