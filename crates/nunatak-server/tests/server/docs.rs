//! `COMMAND DOCS`.

use crate::common::{Client, Local, Redis, Reply};
use std::io::{Read, Write};

/// Returns the pairs of a map, which is an array in version 2 of the protocol.
fn pairs(reply: Reply, kind: char) -> Vec<(String, Reply)> {
    let Reply::Many(line, items) = reply else { panic!("{reply:?}") };
    assert!(line.starts_with(kind), "{line}");
    let mut items = items.into_iter();
    let mut all = Vec::new();
    while let Some(name) = items.next() {
        let Reply::Bulk(name) = name else { panic!("{name:?}") };
        let name = String::from_utf8(name).expect("text");
        all.push((name, items.next().expect("a value")));
    }
    all
}

/// Asks what a command does. `None` if the server does not know it.
fn docs<S: Read + Write>(
    client: &mut Client<S>,
    name: &str,
    kind: char,
) -> Option<Vec<(String, Reply)>> {
    let (told, fields) = pairs(client.run(&format!("COMMAND DOCS {name}")), kind).pop()?;
    assert_eq!(told, name.to_ascii_lowercase());
    Some(pairs(fields, kind))
}

/// Sentences are this server's own, and the history is that of Redis.
fn is_told_alike(field: &str) -> bool {
    !["summary", "complexity", "replaced_by", "history", "subcommands"].contains(&field)
}

#[test]
fn commands_are_documented_as_redis_documents_them() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&[]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    for kind in ['*', '%'] {
        if kind == '%' {
            ours.run("HELLO 3");
            theirs.run("HELLO 3");
        }
        let all = pairs(ours.run("COMMAND DOCS"), kind);
        let mut names: Vec<String> = all.into_iter().map(|it| it.0).collect();
        assert!(names.len() > 120, "{}", names.len());
        for name in names.clone() {
            for (field, value) in docs(&mut ours, &name, kind).expect("it was listed") {
                if field == "subcommands" {
                    names.extend(pairs(value, kind).into_iter().map(|it| it.0));
                }
            }
        }
        for name in &names {
            let mut told = docs(&mut ours, &name.to_uppercase(), kind).expect("it was listed");
            let texts: Vec<_> = told.iter().filter(|it| it.0 == "summary").collect();
            assert!(matches!(&texts[..], [(_, Reply::Bulk(text))] if text.len() > 8), "{name}");
            // The commands that move slots are this server's.
            if ["cluster|setslotrange", "cluster|scanslots"].contains(&name.as_str()) {
                continue;
            }
            let mut expected = docs(&mut theirs, name, kind).expect("Redis has the command");
            told.retain(|it| is_told_alike(&it.0));
            expected.retain(|it| is_told_alike(&it.0));
            assert_eq!(told, expected, "{name}");
        }
        assert_eq!(pairs(ours.run("COMMAND DOCS nothing lpush"), kind), []);
        assert_eq!(pairs(ours.run("COMMAND DOCS GET nothing config|GET"), kind).len(), 2);
    }
}
