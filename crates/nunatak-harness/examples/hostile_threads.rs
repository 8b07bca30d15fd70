//! What hostile callers do on several threads at a time, for ThreadSanitizer (`.ci/sanitizers`), in
//! one process: guards and reclamation, thread-local guards, callers that block, and hashers that
//! contradict themselves.

use nunatak::{Dlht, Iceberg, Pea, Turbo};
use nunatak_harness::hostile::kinds;
use nunatak_harness::hostile::victim::Shared;
use nunatak_harness::hostile::watch::watched;
use nunatak_harness::hostile::{blocking, inconsistent, reclamation, thread_locals};

type Check = (&'static str, fn());

const GUARDS: [Check; 12] = [
    ("guards keep what they found: DLHT", reclamation::guards_keep_what_they_found::<Dlht>),
    ("guards keep what they found: IcebergHT", reclamation::guards_keep_what_they_found::<Iceberg>),
    ("guards keep what they found: Pea Hash", reclamation::guards_keep_what_they_found::<Pea>),
    ("guards keep what they found: TurboHash", reclamation::guards_keep_what_they_found::<Turbo>),
    ("owned values are seen by nobody", reclamation::owned_values_are_seen_by_nobody::<Dlht>),
    ("guards keep bytes: DLHT", reclamation::guards_keep_bytes::<Dlht>),
    ("guards keep bytes: IcebergHT", reclamation::guards_keep_bytes::<Iceberg>),
    ("guards keep bytes: Pea Hash", reclamation::guards_keep_bytes::<Pea>),
    ("guards keep bytes: TurboHash", reclamation::guards_keep_bytes::<Turbo>),
    ("guards outlive their threads", thread_locals::guards_outlive_their_threads),
    ("guards of many threads outlive them", thread_locals::guards_of_many_threads_outlive_them),
    ("numbers are free after the last guard", thread_locals::numbers_are_free_after_the_last_guard),
];

type Kind = (&'static str, fn() -> Shared);

const KINDS: [Kind; 12] = [
    ("DLHT", kinds::dlht_map),
    ("DLHT, boxed", kinds::dlht_boxed),
    ("DLHT, records", kinds::dlht_record),
    ("DLHT, hidden records", kinds::dlht_shadow_record),
    ("IcebergHT", kinds::iceberg_map),
    ("IcebergHT, boxed", kinds::iceberg_boxed),
    ("Pea Hash", kinds::pea_map),
    ("Pea Hash, boxed", kinds::pea_boxed),
    ("Pea Hash, many values", kinds::pea_multi),
    ("TurboHash", kinds::turbo_map),
    ("TurboHash, boxed", kinds::turbo_boxed),
    ("TurboHash, byte strings", kinds::turbo_blob),
];

fn main() {
    for (name, check) in GUARDS {
        println!("{name}");
        watched(check);
    }
    for (name, build) in KINDS {
        println!("callers that block: {name}");
        watched(move || blocking::callers_hold_nothing_up(build));
    }
    for (name, build) in KINDS {
        println!("wrong hashes: {name}");
        watched(move || inconsistent::wrong_hashes_are_harmless(build));
    }
    println!("nothing wrong");
}
