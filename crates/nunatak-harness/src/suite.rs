//! Lists of checks, as macros that make a test of each check.

/// Makes one test for each check.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($key:ty, $value:ty, $subject:expr; $($($part:ident)::+;)*) => {
        $($crate::__tests!(@one [$key, $value, &$subject] [$($part)::+] $($part)::+);)*
    };
    (of its map, $key:ty, $value:ty, $subject:expr; $($($part:ident)::+;)*) => {
        $($crate::__tests!(@one [$key, $value, &$crate::Of::subject(&$subject)] [$($part)::+] $($part)::+);)*
    };
    (@one $arguments:tt [$($path:tt)+] $head:ident :: $($tail:ident)::+) => {
        $crate::__tests!(@one $arguments [$($path)+] $($tail)::+);
    };
    (@one [$key:ty, $value:ty, $subject:expr] [$($path:tt)+] $name:ident) => {
        #[test]
        fn $name() {
            $crate::$($path)+::<$key, $value, _>($subject);
        }
    };
}

/// The checks for a map of one thread.
#[doc(hidden)]
#[macro_export]
macro_rules! __sequential_tests {
    ($key:ty, $value:ty, $subject:expr) => {
        $crate::__tests! { of its map, $key, $value, $subject;
            model::agrees_with_a_hash_map;
            closures::panics_change_nothing;
            closures::closures_may_use_the_map;
            closures::retain_looks_again;
            closures::retain_asks_once;
            closures::changes_during_iteration;
            closures::iteration_outlives_many_resizes;
            stress::memory::shrinking_gives_memory_back;
            stress::memory::reserved_room_suffices;
        }
    };
}

/// The further checks for a map of many threads.
#[doc(hidden)]
#[macro_export]
macro_rules! __shared_tests {
    ($key:ty, $value:ty, $subject:expr) => {
        $crate::__tests! { of its map, $key, $value, $subject;
            closures::closures_hold_nothing_up;
            record::histories_are_linearizable;
            stress::conservation::transfers_keep_the_total;
            stress::conservation::values_are_conserved;
            stress::conservation::values_are_conserved_by_many_threads;
            stress::cuts::reads_keep_the_order;
            stress::cuts::snapshots_are_cuts;
            stress::cuts::snapshots_hold_no_gaps;
            stress::cuts::snapshots_of_growing_maps_are_whole;
            stress::memory::churn_needs_no_more;
            stress::presence::stable_keys_are_never_missed;
            stress::presence::values_belong_to_their_keys;
            stress::threads::length_is_exact_at_rest;
            stress::threads::maps_come_and_go;
            stress::threads::threads_come_and_go;
            stress::winners::one_insert_wins;
            stress::winners::one_remove_wins;
            stress::winners::retain_and_clear_compete;
        }
    };
}

/// Makes the whole suite for a map of `u64` to `u64` that threads share, in a module of this name:
/// `suite_inline!(name, subject)`, where the subject is a `Subject<u64, u64>`. For other types:
/// `suite_inline!(name, K, V, subject)`.
#[macro_export]
macro_rules! suite_inline {
    ($name:ident, $subject:expr) => {
        $crate::suite_inline!($name, u64, u64, $subject);
    };
    ($name:ident, $key:ty, $value:ty, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may be a path from the root")]
            use super::*;
            $crate::__sequential_tests!($key, $value, $subject);
            $crate::__shared_tests!($key, $value, $subject);
        }
    };
}

/// Makes the whole suite for a map of any keys and values that threads share, in a module of this
/// name: `suite_boxed!(name, subject)`, where the subject is a `Subject<K, V>` for all `K: Data, V:
/// Data`.
#[macro_export]
macro_rules! suite_boxed {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may be a path from the root")]
            use super::*;
            $crate::__sequential_tests!(String, String, $subject);
            $crate::__shared_tests!(String, String, $subject);

            #[test]
            fn everything_is_dropped_once() {
                $crate::drops::everything_is_dropped_once(&$subject);
            }

            #[test]
            fn everything_is_dropped_once_by_threads() {
                $crate::drops::everything_is_dropped_once_by_threads(&$subject);
            }

            #[test]
            fn clearing_drops_everything() {
                $crate::drops::clearing_drops_everything(&$subject);
            }

            #[test]
            fn garbage_is_bounded() {
                $crate::drops::garbage_is_bounded(&$subject);
            }

            #[test]
            fn panics_of_keys_and_values_are_harmless() {
                $crate::fragile::panics_are_harmless(&$subject);
            }
        }
    };
}

/// Makes the suite for a map of one thread, in a module of this name: `suite_sequential!(name, K,
/// V, subject)`.
#[macro_export]
macro_rules! suite_sequential {
    ($name:ident, $key:ty, $value:ty, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may be a path from the root")]
            use super::*;
            $crate::__sequential_tests!($key, $value, $subject);
        }
    };
}

/// Makes the suite for a map with the caller's hasher, in a module of this name:
/// `suite_hashers!(name, K, V, subject)`, where the subject is a `HashedSubject<K, V>`.
#[macro_export]
macro_rules! suite_hashers {
    ($name:ident, $key:ty, $value:ty, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may be a path from the root")]
            use super::*;
            $crate::__tests! { $key, $value, $subject;
                collisions::collisions_are_harmless;
                collisions::collisions_under_contention;
                collisions::many_keys_of_one_hash;
                collisions::panics_are_harmless;
                record::histories_with_panics_are_linearizable;
            }
        }
    };
}
