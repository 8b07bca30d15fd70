//! What the types promise about lifetimes and threads. Programs that break a promise are refused,
//! with the messages beside them; types that should be `Send` or `Sync` are.
//!
//! After a change of the messages run `TRYBUILD=overwrite cargo test -p nunatak --test
//! compile_fail`, and read what changed.

#![cfg(not(any(loom, shuttle, miri)))]

use nunatak::alloc::{Arena, Global};
use nunatak::entry::{Format, InPlace, Named, Plain, VARIABLE};
use nunatak::mode::SingleThread;
use nunatak::{
    BlobMap, BoxedMap, Detached, Dlht, DlhtBoxedMap, DlhtLocalMap, DlhtMap, DlhtRecordMap, DlhtSet,
    DlhtShadowMap, DlhtShadowRecordMap, Iceberg, IcebergBoxedMap, IcebergMap, InlineMap, Modulo,
    Pea, PeaBoxedMap, PeaMap, PeaMap8, PeaMap12, PeaMultiMap, RandomState, RecordMap, RecordShadow,
    Removed, Shadow, SlotHandle, Turbo, TurboBlobMap, TurboBoxedMap, TurboMap,
};
use std::cell::Cell;

fn is_send<T: Send>() {}
fn is_shared<T: Send + Sync>() {}

/// The compiler version of the messages beside the programs: other versions word them differently.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn what_breaks_a_promise_is_refused() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(compiler).arg("-V").output().expect("a compiler");
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(COMPILER) {
        println!("left out: {version} has other messages than {COMPILER}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

#[test]
fn maps_are_shared_by_threads() {
    is_shared::<DlhtMap<u64, u64>>();
    is_shared::<DlhtMap<u64, u64, Modulo>>();
    is_shared::<DlhtSet<u64>>();
    is_shared::<DlhtBoxedMap<String, Vec<u8>>>();
    is_shared::<DlhtShadowMap<u64, u64>>();
    is_shared::<DlhtShadowRecordMap>();
    is_shared::<DlhtRecordMap<Format, Arena>>();
    is_shared::<DlhtRecordMap<Format<VARIABLE, VARIABLE, Named>>>();
    is_shared::<DlhtRecordMap<Format<8, 16, Plain, InPlace>>>();
    is_shared::<RecordMap<Format, Global, RandomState, Iceberg>>();
    is_shared::<BlobMap<RandomState, Pea>>();
    is_shared::<IcebergMap<u64, u64>>();
    is_shared::<IcebergBoxedMap<String, String>>();
    is_shared::<PeaMap<u64, u64>>();
    is_shared::<PeaMap8<u32, u32>>();
    is_shared::<PeaMap12<u32, u64>>();
    is_shared::<PeaMultiMap<u64, u64>>();
    is_shared::<PeaBoxedMap<String, String>>();
    is_shared::<TurboMap<u64, u64>>();
    is_shared::<TurboBlobMap>();
    is_shared::<TurboBoxedMap<String, String>>();
    is_shared::<SlotHandle>();
}

/// A map of one thread may move to another thread, also if its values can't be shared.
#[test]
fn maps_of_one_thread_are_sent() {
    is_send::<DlhtLocalMap<u64, u64>>();
    is_send::<BoxedMap<String, Cell<u64>, RandomState, Dlht<SingleThread>>>();
    is_send::<RecordMap<Format, Global, RandomState, Dlht<SingleThread>>>();
    is_send::<DlhtBoxedMap<String, Cell<u64>>>();
}

/// An entry that was removed from a map may be dropped by another thread.
#[test]
fn what_is_taken_out_is_sent() {
    is_send::<Removed<'static, String, String>>();
    is_send::<Removed<'static, String, String, RandomState, Turbo>>();
    is_send::<Detached<'static, nunatak::entry::Records, Dlht>>();
    is_send::<Shadow<'static, u64, u64>>();
    is_send::<RecordShadow<'static>>();
}

/// Snapshots of inline maps are copies.
#[test]
fn snapshots_of_words_are_sent() {
    fn is_sent<T: Send + 'static>(snapshot: T) -> T {
        snapshot
    }
    let map: DlhtMap<u64, u64> = [(1, 2)].into_iter().collect();
    let inline = is_sent(map.snapshot().expect("memory"));
    drop(map);
    assert_eq!(std::thread::spawn(|| inline.count()).join().ok(), Some(1));
    drop(is_sent(InlineMap::<u64, u64, RandomState, Iceberg>::new().snapshot().expect("memory")));
    drop(is_sent(PeaMultiMap::<u64, u64>::new().snapshot().expect("memory")));
    drop(is_sent(DlhtSet::<u64>::new().snapshot().expect("memory")));
    drop(is_sent(TurboMap::<u64, u64>::new().snapshot().expect("memory")));
}
