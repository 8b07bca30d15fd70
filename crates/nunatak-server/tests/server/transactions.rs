//! Changes of several keys are seen as a whole, and transactions do not interleave.

use crate::common::{Client, Ends, Local, Reply, encode};
use std::sync::atomic::{AtomicBool, Ordering};

const ACCOUNTS: usize = 8;

fn balances(reply: &Reply) -> Vec<i64> {
    let Reply::Many(_, items) = reply else { panic!("{reply:?}") };
    let number = |item: &Reply| match item {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).parse().expect("a balance"),
        other => panic!("{other:?}"),
    };
    items.iter().map(number).collect()
}

fn all_accounts(command: &str) -> String {
    (0..ACCOUNTS).fold(command.to_string(), |text, number| text + &format!(" account:{number}"))
}

/// Readers of all accounts always see the same sum, while others move money by transactions, by scripts
/// of `WATCH`, and by `MSET`.
#[test]
fn money_is_neither_made_nor_lost() {
    let local = Local::start(&["--threads=2"]);
    let mut setup = local.client();
    for number in 0..ACCOUNTS {
        setup.run(&format!("SET account:{number} 100"));
    }
    let total = 100 * ACCOUNTS as i64;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, local) = (&is_over, &local);
        let _ends = Ends(is_over);
        for mover in 0..2 {
            scope.spawn(move || {
                let mut client = local.client();
                for step in 0..1500_usize {
                    let (from, to) = ((step + mover) % ACCOUNTS, (step * 3 + 1) % ACCOUNTS);
                    for command in [
                        "MULTI".to_string(),
                        format!("INCRBY account:{from} -7"),
                        format!("INCRBY account:{to} 7"),
                        "EXEC".into(),
                    ] {
                        client.run(&command);
                    }
                }
            });
        }
        let watcher = scope.spawn(move || {
            let (mut client, mut done) = (local.client(), 0);
            while done < 200 {
                client.run("WATCH account:0 account:5");
                let before = balances(&client.run("MGET account:0 account:5"));
                client.run("MULTI");
                let moved = format!("MSET account:0 {} account:5 {}", before[0] - 1, before[1] + 1);
                client.run(&moved);
                done += usize::from(client.run("EXEC") != Reply::Line("*-1".into()));
            }
        });
        for way in 0..2 {
            scope.spawn(move || {
                let mut client = local.client();
                while !is_over.load(Ordering::Relaxed) {
                    let seen = match way {
                        0 => balances(&client.run(&all_accounts("MGET"))),
                        // One after the other in a transaction.
                        _ => {
                            let mut commands = encode(&["MULTI"]);
                            for number in 0..ACCOUNTS {
                                commands.extend(encode(&["GET", &format!("account:{number}")]));
                            }
                            commands.extend(encode(&["EXEC"]));
                            client.send(&commands);
                            (0..=ACCOUNTS).for_each(|_| drop(client.read()));
                            balances(&client.read())
                        }
                    };
                    assert_eq!(seen.iter().sum::<i64>(), total, "{seen:?}");
                }
            });
        }
        watcher.join().expect("the watcher ends");
    });
    assert_eq!(balances(&setup.run(&all_accounts("MGET"))).iter().sum::<i64>(), total);
}

/// A client that has seen one key of a change sees the others, too, by single gets.
#[test]
fn single_reads_see_changes_in_order() {
    let local = Local::start(&["--threads=2"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, local) = (&is_over, &local);
        let _ends = Ends(is_over);
        let writer = scope.spawn(move || {
            let mut client = local.client();
            for number in 0..4000 {
                client.run(&format!("MSET z {number} m {number} a {number}"));
            }
        });
        scope.spawn(move || {
            let mut client = local.client();
            let read = |client: &mut Client, key: &str| {
                client.line(&format!("GET {key}")).parse::<i64>().unwrap_or(-1)
            };
            while !is_over.load(Ordering::Relaxed) {
                let keys = ["a", "m", "z"];
                let seen: Vec<i64> = keys.iter().map(|key| read(&mut client, key)).collect();
                assert!(seen.is_sorted(), "{seen:?}");
                let seen: Vec<i64> = keys.iter().rev().map(|key| read(&mut client, key)).collect();
                assert!(seen.is_sorted(), "{seen:?}");
            }
        });
        writer.join().expect("the writer ends");
    });
}

/// A change by another client makes a transaction fail, whatever the change; others do not.
#[test]
fn watched_keys_are_watched() {
    let local = Local::start(&["--threads=2"]);
    let (mut one, mut other) = (local.client(), local.client());
    let failed = Reply::Line("*-1".into());
    for (change, fails) in [
        ("SET a 1", true),
        ("SET a 1", true),
        ("GET a", false),
        ("SET b 1", false),
        ("INCR a", true),
        ("EXPIRE a 100", true),
        ("DEL a", true),
        ("DEL a", false),
        ("RENAME b a", true),
        ("FLUSHALL", true),
        ("SADD a x", true),
        ("SADD a x", false),
        ("SELECT 1", false),
        ("SET a 1", false),
    ] {
        one.run("WATCH a");
        other.run(change);
        one.run("MULTI");
        one.run("PING");
        assert_eq!(one.run("EXEC") == failed, fails, "{change}");
    }
    one.run("WATCH a");
    other.run("SELECT 0");
    other.run("SET a 1");
    one.run("UNWATCH");
    one.run("MULTI");
    assert_eq!(one.run("EXEC"), Reply::Many("*0".into(), vec![]));
}
