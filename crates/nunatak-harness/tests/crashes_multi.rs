//! Crashes of durable maps of keys with many values, at every instant.
#![cfg(target_os = "linux")]

use nunatak::durable::{PeaMultiMap, Persistency};
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Thoroughness, crash_each_action, crash_history, multi_history, one_of_each,
};
use std::time::Duration;

type Map = PeaMultiMap<u64, u64>;

const EVERY_MOMENT: Thoroughness = Thoroughness { images: 16, second: 61, moments: 1, journal: 0 };
const SOME_MOMENTS: Thoroughness = Thoroughness { images: 4, second: 37, moments: 13, journal: 0 };

#[test]
fn each_kind_of_change_in_persistent_memory() {
    let images = crash_history::<Map>(&one_of_each(), Persistency::Lines, EVERY_MOMENT);
    assert!(images > 1000, "{images}");
}

#[test]
fn each_kind_of_change_in_the_page_cache() {
    let images = crash_each_action::<Map>(&one_of_each(), Persistency::Pages, SOME_MOMENTS);
    assert!(images > 1000, "{images}");
}

#[test]
fn histories_in_persistent_memory() {
    crash_history::<Map>(&multi_history(0, 400), Persistency::Lines, SOME_MOMENTS);
}

#[test]
fn histories_in_the_page_cache() {
    crash_history::<Map>(&multi_history(7, 400), Persistency::Pages, SOME_MOMENTS);
}

#[test]
fn crashed_histories_are_linearizable() {
    crashed_histories::<Map>(30, 30, Duration::ZERO);
    crashed_histories::<Map>(10, 30, Duration::from_micros(20));
}
