//! Users and their permissions.

use crate::common::{Client, Local, Redis, Reply, encode, read_to_end};
use std::fs;
use std::io::{Read, Write};

/// A command that one of several clients sends.
type Step = (usize, &'static str);

/// What each script is sent; a number is that of a client.
const SCRIPTS: &[&[Step]] = &[
    // Rules, and how they are told.
    &[
        (0, "ACL LIST"),
        (0, "ACL USERS"),
        (0, "ACL WHOAMI"),
        (0, "ACL GETUSER default"),
        (0, "ACL GETUSER nobody"),
        (0, "ACL SETUSER a"),
        (0, "ACL GETUSER a"),
        (0, "ACL SETUSER a on >p >q ~x* %R~y* %w~z %Rw~b* &c* +get (~k* +get) (%R~q &d +@read)"),
        (0, "ACL GETUSER a"),
        (0, "ACL LIST"),
        (0, "ACL SETUSER a %R~z %W~y* >p ~x* &c*"),
        (0, "ACL LIST"),
        (0, "ACL SETUSER a <p +@all -@dangerous"),
        (0, "ACL LIST"),
        (
            0,
            "ACL SETUSER a nopass skip-sanitize-payload allkeys allchannels clearselectors -@all +@hash -hget",
        ),
        (0, "ACL LIST"),
        (0, "ACL SETUSER a sanitize-payload resetpass resetkeys resetchannels -@all +HGET"),
        (0, "ACL GETUSER a"),
        (0, "ACL SETUSER a OFF nocommands +config|GET"),
        (0, "ACL LIST"),
        (0, "ACL SETUSER a -@all +config -config|set"),
        (0, "ACL LIST"),
        (0, "ACL SETUSER a allcommands"),
        (0, "ACL SETUSER a ~* &*"),
        (0, "ACL GETUSER a"),
        (0, "ACL SETUSER a reset"),
        (0, "ACL LIST"),
        (
            0,
            "ACL SETUSER b #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 +select|0 +SELECT|1",
        ),
        (0, "ACL GETUSER b"),
        (0, "ACL DRYRUN b select 1"),
        (0, "ACL DRYRUN b select 2"),
        (
            0,
            "ACL SETUSER b !148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 -@all",
        ),
        (0, "ACL GETUSER b"),
        (0, "ACL DELUSER a b nobody"),
        (0, "ACL USERS"),
    ],
    // Errors.
    &[
        (0, "ACL"),
        (0, "ACL NOSUCH"),
        (0, "ACL SETUSER"),
        (0, "ACL GETUSER"),
        (0, "ACL DELUSER"),
        (0, "ACL LIST x"),
        (0, "ACL GETUSER x y"),
        (0, "ACL HELP"),
        (0, "ACL HELP x"),
        (0, "ACL CAT"),
        (0, "ACL CAT nosuch"),
        (0, "ACL CAT read write"),
        (0, "ACL GENPASS 0"),
        (0, "ACL GENPASS 4097"),
        (0, "ACL GENPASS x"),
        (0, "ACL GENPASS 1 2"),
        (0, "ACL LOG x"),
        (0, "ACL LOG 1 2"),
        (0, "ACL SAVE"),
        (0, "ACL LOAD"),
        (0, "ACL DELUSER default"),
        (0, "ACL SETUSER a >p %Q~x"),
        (0, "ACL SETUSER a %~x"),
        (0, "ACL SETUSER a %RR~x"),
        (0, "ACL SETUSER a +nosuch"),
        (0, "ACL SETUSER a -nosuch"),
        (0, "ACL SETUSER a +@nosuch"),
        (0, "ACL SETUSER a +config|nosuch"),
        (0, "ACL SETUSER a +config|"),
        (0, "ACL SETUSER a -select|0"),
        (0, "ACL SETUSER a +config|get|x"),
        (0, "ACL SETUSER a #12"),
        (0, "ACL SETUSER a !12"),
        (0, "ACL SETUSER a <p"),
        (0, "ACL SETUSER a what"),
        (0, "ACL SETUSER a (what)"),
        (0, "ACL SETUSER a (on)"),
        (0, "ACL SETUSER a (~x"),
        (0, "ACL SETUSER a (~x +get"),
        (0, "ACL SETUSER a allkeys ~x"),
        (0, "ACL SETUSER a allchannels &x"),
        (0, "ACL USERS"),
    ],
    // Passwords.
    &[
        (0, "AUTH p"),
        (0, "AUTH default p"),
        (0, "ACL SETUSER a on >p +@all ~*"),
        (1, "AUTH a q"),
        (1, "AUTH nobody q"),
        (1, "AUTH a b c"),
        (1, "HELLO 2 AUTH a q"),
        (1, "HELLO 2 AUTH a"),
        (1, "ACL WHOAMI"),
        (1, "AUTH a p"),
        (1, "ACL WHOAMI"),
        (1, "GET x"),
        (0, "ACL SETUSER a off"),
        (1, "GET x"),
        (0, "ACL LOG"),
        (1, "AUTH a p"),
        (1, "RESET"),
        (1, "ACL WHOAMI"),
        (0, "CONFIG SET requirepass secret"),
        (1, "ACL WHOAMI"),
        (1, "RESET"),
        (1, "PING"),
        (1, "GET x"),
        (1, "HELLO"),
        (1, "AUTH wrong"),
        (1, "AUTH secret"),
        (1, "ACL LIST"),
        (1, "CONFIG GET requirepass"),
        (1, "RESET"),
        (0, "ACL SETUSER default nopass"),
        (1, "PING"),
        (0, "ACL SETUSER default >other"),
        (1, "PING"),
        (1, "HELLO 2 AUTH default other"),
        (0, "CONFIG SET requirepass "),
        (0, "ACL LIST"),
    ],
    // What is denied, alone and in transactions.
    &[
        (0, "ACL SETUSER a on nopass ~a* %R~r* %W~w* &news* +@all -@dangerous -mget"),
        (1, "AUTH a x"),
        (1, "SET a1 1"),
        (1, "GET a1"),
        (1, "GET r1"),
        (1, "SET r1 1"),
        (1, "SET w1 1"),
        (1, "SET w1 1 GET"),
        (1, "GET w1"),
        (1, "EXISTS w1"),
        (1, "EXISTS a1 x1"),
        (1, "MGET a1"),
        (1, "CONFIG GET maxmemory"),
        (1, "CONFIG NOSUCH"),
        (1, "CONFIG"),
        (1, "NOSUCH"),
        (1, "GET"),
        (1, "PUBLISH news1 x"),
        (1, "PUBLISH other x"),
        (1, "PUBLISH other x"),
        (1, "KEYS *"),
        (0, "ACL LOG"),
        (0, "ACL LOG 1"),
        (0, "ACL LOG 0"),
        (0, "ACL LOG RESET"),
        (0, "ACL LOG"),
        (1, "MULTI"),
        (1, "GET x1"),
        (1, "EXEC"),
        (0, "ACL LOG"),
        (1, "MULTI"),
        (1, "GET a1"),
        (1, "INCR a1"),
        (1, "PUBLISH news1 x"),
        (1, "ECHO a"),
        (0, "ACL SETUSER a -echo %R~a* resetchannels resetkeys %R~a*"),
        (1, "EXEC"),
        (0, "ACL LOG"),
        (0, "ACL LOG RESET"),
        (1, "AUTH default x"),
        (0, "ACL DELUSER a"),
    ],
    // Channels.
    &[
        (0, "ACL SETUSER a on nopass &news* &b +@pubsub"),
        (1, "AUTH a x"),
        (1, "SUBSCRIBE news1"),
        (1, "SUBSCRIBE b"),
        (1, "SUBSCRIBE other"),
        (1, "PSUBSCRIBE news*"),
        (1, "PSUBSCRIBE news1*"),
        (1, "UNSUBSCRIBE other"),
        (1, "SSUBSCRIBE other"),
        (1, "PING"),
    ],
    // Which channels new users, selectors and users that are reset may use.
    &[
        (0, "CONFIG GET acl-pubsub-default"),
        (0, "ACL SETUSER a on nopass (+get)"),
        (0, "CONFIG SET acl-pubsub-default some"),
        (0, "CONFIG SET acl-pubsub-default AllChannels"),
        (0, "CONFIG GET acl-pubsub-default"),
        (0, "ACL GETUSER a"),
        (0, "ACL SETUSER a (+set)"),
        (0, "ACL SETUSER b on nopass +@pubsub"),
        (0, "ACL LIST"),
        (1, "AUTH b x"),
        (1, "PUBLISH any x"),
        (0, "CONFIG SET acl-pubsub-default resetchannels"),
        (1, "PUBLISH any x"),
        (0, "ACL SETUSER a reset"),
        (0, "ACL GETUSER a"),
        (0, "CONFIG SET acl-pubsub-default allchannels"),
        (0, "ACL SETUSER a reset"),
        (0, "ACL GETUSER a"),
        (0, "CONFIG SET acl-pubsub-default resetchannels"),
    ],
    // A selector that comes closest tells the error.
    &[
        (0, "ACL SETUSER a on nopass +get ~a (+set ~b) (+publish &c) (+mget ~a ~b)"),
        (0, "ACL DRYRUN a get a"),
        (0, "ACL DRYRUN a get b"),
        (0, "ACL DRYRUN a set b 1"),
        (0, "ACL DRYRUN a set a 1"),
        (0, "ACL DRYRUN a mget a b c"),
        (0, "ACL DRYRUN a publish b x"),
        (0, "ACL DRYRUN a del a"),
        (0, "ACL DRYRUN a get"),
        (0, "ACL DRYRUN a nosuch"),
        (0, "ACL DRYRUN a config nosuch"),
        (0, "ACL DRYRUN a config get x"),
        (0, "ACL DRYRUN a"),
        (0, "ACL DRYRUN nobody get a"),
        (0, "CLIENT KILL USER nobody"),
        (0, "CLIENT KILL USER a"),
    ],
];

/// Takes away what differs between servers: times, clients and their numbers.
fn without_clients(reply: Reply) -> Reply {
    match reply {
        Reply::Many(line, mut items) => {
            for at in 1..items.len() {
                let is = |name: &str| items[at - 1] == Reply::Bulk(name.into());
                if is("age-seconds") || is("client-info") || is("id") {
                    items[at] = Reply::Line(String::new());
                }
            }
            Reply::Many(line, items.into_iter().map(without_clients).collect())
        }
        reply => reply,
    }
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Line(line) => line.clone(),
        Reply::Bulk(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Reply::Many(line, items) => {
            format!("{line} [{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
    }
}

fn replies<S: Read + Write>(clients: &mut [Client<S>; 2], script: &[Step]) -> Vec<Reply> {
    let run = |&(client, command): &Step| without_clients(clients[client].run(command));
    script.iter().map(run).collect()
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    for (script, hello) in SCRIPTS.iter().flat_map(|it| [(it, "HELLO 2"), (it, "HELLO 3")]) {
        let local = Local::start(&["--threads=2"]);
        let (mut ours, mut theirs) =
            ([(); 2].map(|()| local.client()), [(); 2].map(|()| redis.client()));
        ours.iter_mut().for_each(|client| drop(client.run(hello)));
        theirs.iter_mut().for_each(|client| drop(client.run(hello)));
        let ours = replies(&mut ours, script);
        let mut all = script.iter().zip(ours).zip(replies(&mut theirs, script));
        let differ = all.find(|((_, ours), theirs)| ours != theirs);
        if let Some((((_, command), ours), theirs)) = differ {
            panic!("{hello}, {command}:\nours   {}\ntheirs {}", shown(&ours), shown(&theirs));
        }
        let mut admin = redis.client();
        for command in ["ACL DELUSER a b", "ACL LOG RESET", "FLUSHALL"] {
            admin.run(command);
        }
    }
}

/// A command of the table: its name, how many arguments it needs, and where its first key is.
fn table(client: &mut Client) -> Vec<(String, usize, usize)> {
    let Reply::Many(_, commands) = client.run("COMMAND") else { panic!("no commands") };
    let number = |reply: &Reply| match reply {
        Reply::Line(line) => line[1..].parse::<i64>().expect("a number").unsigned_abs() as usize,
        other => panic!("{other:?}"),
    };
    let describe = |command: &Reply| match command {
        Reply::Many(_, parts) => {
            let Reply::Bulk(name) = &parts[0] else { panic!("{parts:?}") };
            (String::from_utf8_lossy(name).into_owned(), number(&parts[1]), number(&parts[3]))
        }
        other => panic!("{other:?}"),
    };
    commands.iter().map(describe).collect()
}

/// Returns a call of each command that has keys, with this key wherever there may be one.
fn calls(client: &mut Client, key: &str) -> Vec<Vec<String>> {
    // These name keys in places that the table does not have.
    let special = [
        format!("watch {key}"),
        format!("memory usage {key}"),
        format!("migrate 127.0.0.1 1 {key} 0 100"),
        format!("migrate 127.0.0.1 1  0 100 KEYS {key}"),
        format!("migrate 127.0.0.1 1  0 100 AUTH KEYS AUTH2 a KEYS REPLACE KEYS {key}"),
        format!("set {key} 1 GET"),
        format!("sintercard 1 {key}"),
        format!("sintercard 2 {key} {key} LIMIT 1"),
    ];
    let special = special.map(|call| call.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let with_keys = table(client).into_iter().filter(|(.., first)| *first > 0);
    let usual = with_keys.map(|(name, arity, first)| {
        let mut call = vec![key.to_owned(); arity.max(first + 1)];
        if name == "object" {
            call[1] = "encoding".into();
        }
        call[0] = name;
        call
    });
    special.into_iter().chain(usual).collect()
}

/// Whatever path a command takes: alone, in a window of a batch, queued, or run by `EXEC`.
#[test]
fn no_command_reaches_a_forbidden_key() {
    let server = Local::start(&["--threads=1"]);
    let mut admin = server.client();
    admin.run("ACL SETUSER limited on >p ~ok +@all");
    admin.run("ACL SETUSER queuing on >p ~* +@all");
    admin.run("SET forbidden 1");
    let calls = calls(&mut admin, "forbidden");
    assert!(calls.len() > 70, "{calls:?}");
    let is_denied =
        |reply: &Reply| matches!(reply, Reply::Line(line) if line.starts_with("-NOPERM"));
    let get = encode(&["GET", "ok"]);
    for call in &calls {
        let bytes = encode(call);
        let mut client = server.client();
        // In front of the call in the same pipeline: it was parsed when the client was another user still.
        client.send(&[encode(&["AUTH", "limited", "p"]), bytes.clone()].concat());
        assert_eq!(client.read(), Reply::Line("+OK".into()));
        assert!(is_denied(&client.read()), "{call:?} behind AUTH");
        client.send(&bytes);
        assert!(is_denied(&client.read()), "{call:?} alone");
        client.send(&[&get.repeat(6)[..], &bytes, &bytes, &get.repeat(6)].concat());
        for at in 0..14 {
            assert_eq!(is_denied(&client.read()), (6..8).contains(&at), "{call:?} in a window");
        }
        client.send(&bytes.repeat(8));
        (0..8).for_each(|_| assert!(is_denied(&client.read()), "{call:?} eight times"));
        client.run("MULTI");
        client.send(&bytes);
        assert!(is_denied(&client.read()), "{call:?} queued");
        assert!(matches!(client.run("EXEC"), Reply::Line(line) if line.starts_with("-EXECABORT")));
        if call[0] == "watch" {
            continue;
        }
        // Allowed when it is queued, and not any more when it runs.
        client.run("AUTH queuing p");
        client.run("MULTI");
        client.send(&bytes);
        assert_eq!(client.read(), Reply::Line("+QUEUED".into()), "{call:?}");
        admin.run("ACL SETUSER queuing resetkeys");
        match client.run("EXEC") {
            Reply::Many(_, replies) => assert!(is_denied(&replies[0]), "{call:?} by EXEC"),
            other => panic!("{call:?}: {other:?}"),
        }
        admin.run("ACL SETUSER queuing allkeys");
    }
    // A password is no key.
    let migrate = "ACL DRYRUN limited migrate 127.0.0.1 1  0 100 AUTH KEYS AUTH2 KEYS KEYS KEYS ok";
    assert_eq!(admin.line(migrate), "+OK");
    assert_eq!(admin.line("GET forbidden"), "1");
    assert_eq!(admin.line("DBSIZE"), ":1");
}

/// Which keys a command reads and which it changes is as in Redis, and so are the categories.
#[test]
fn the_table_is_that_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = Local::start(&["--threads=1"]);
    let (mut ours, mut theirs) = (server.client(), redis.client());
    let rules = "ACL SETUSER a %R~r %W~w ~b +@all";
    assert_eq!(ours.run(rules), theirs.run(rules));
    for first in ["r", "w", "b", "x"] {
        for mut call in calls(&mut ours, "r").into_iter().chain(calls(&mut ours, "w")) {
            let at = if ["object", "memory"].contains(&&*call[0]) { 2 } else { 1 };
            call[at] = first.into();
            // `MIGRATE` reads and removes keys. (Redis wants no permission for those behind `KEYS`.)
            if call[0] == "migrate" {
                continue;
            }
            let words = ["ACL", "DRYRUN", "a"].map(str::to_owned);
            let bytes = encode(&words.into_iter().chain(call.clone()).collect::<Vec<_>>());
            ours.send(&bytes);
            theirs.send(&bytes);
            assert_eq!(ours.read(), theirs.read(), "{call:?}");
        }
    }
    let names = |reply: Reply| match reply {
        Reply::Many(_, items) => items,
        other => panic!("{other:?}"),
    };
    let categories = names(ours.run("ACL CAT"));
    let all = |client: &mut Client| {
        let mut all = names(client.run("ACL CAT slow"));
        all.extend(names(client.run("ACL CAT fast")));
        all
    };
    let here = all(&mut ours);
    for category in categories {
        let Reply::Bulk(category) = category else { panic!("{category:?}") };
        let command = format!("ACL CAT {}", String::from_utf8_lossy(&category));
        let (mut mine, mut redis) = (names(ours.run(&command)), names(theirs.run(&command)));
        redis.retain(|name| here.contains(name));
        let is_own = |name: &Reply| {
            ["cluster|scanslots", "cluster|setslotrange"]
                .iter()
                .any(|own| *name == Reply::Bulk((*own).into()))
        };
        mine.retain(|name| !is_own(name));
        mine.sort();
        redis.sort();
        assert_eq!(mine, redis, "{command}");
    }
}

/// Checks that the connection ends, and that nothing came before.
fn assert_ended(client: &mut Client) {
    assert_eq!(read_to_end(client.stream()), b"");
}

/// A change holds at once for connections of any thread.
#[test]
fn live_sessions_follow_their_user() {
    let server = Local::start(&["--threads=3"]);
    let mut admin = server.client();
    admin.run("ACL SETUSER a on >p ~* &* +@all");
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| drop(client.run("AUTH a p")));
    let list = admin.line("CLIENT LIST");
    assert_eq!((list.matches(" user=a ").count(), list.matches(" user=default ").count()), (6, 1));
    for (rules, is_allowed) in [("-set", false), ("+set resetkeys", false), ("~x*", true)] {
        admin.run(&format!("ACL SETUSER a {rules}"));
        for client in &mut clients {
            assert_eq!(client.line("SET x 1") == "+OK", is_allowed, "{rules}");
        }
    }
    // Also in the middle of a pipeline.
    let get = encode(&["GET", "x"]).repeat(8);
    clients[5].send(&[get.clone(), encode(&["ACL", "SETUSER", "a", "-get"]), get].concat());
    for at in 0..17 {
        let is_denied =
            matches!(clients[5].read(), Reply::Line(line) if line.starts_with("-NOPERM"));
        assert_eq!(is_denied, at > 8);
    }
    // Subscribers of a channel that is forbidden now are closed; others stay.
    clients[0].run("SUBSCRIBE news");
    clients[1].run("PSUBSCRIBE *");
    clients[2].run("SUBSCRIBE weather");
    admin.run("ACL SETUSER a resetchannels &weather");
    admin.run("PUBLISH news x");
    clients[..2].iter_mut().for_each(assert_ended);
    admin.run("PUBLISH weather x");
    assert!(clients[2].try_read().is_some());
    // The rights of a user that is gone are gone, too, also if another one has its name.
    clients[3].send(&encode(&["MULTI"]));
    clients[3].read();
    let again = encode(&["ACL", "SETUSER", "a", "on", "nopass", "~*", "&*", "+@all"]);
    admin.send(&[encode(&["ACL", "DELUSER", "a"]), again].concat());
    assert_eq!([admin.read(), admin.read()], [":1", "+OK"].map(|it| Reply::Line(it.into())));
    clients[2..].iter_mut().for_each(assert_ended);
    // A client that removes its own user gets the reply.
    let mut own = server.client();
    own.run("AUTH a x");
    own.send(&[encode(&["ACL", "DELUSER", "a"]), encode(&["PING"])].concat());
    assert_eq!(own.read(), Reply::Line(":1".into()));
    assert_ended(&mut own);
    // `KILL` closes those of one user.
    admin.run("ACL SETUSER b on nopass ~* +@all");
    let mut killed = server.client();
    killed.run("AUTH b x");
    assert_eq!(admin.line("CLIENT KILL USER b"), ":1");
    assert_ended(&mut killed);
    assert_eq!(admin.line("PING"), "+PONG");
}

#[test]
fn users_are_saved_and_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users");
    fs::write(&path, "# comment\n\nuser alice on >secret ~a* (~b* +get) +get\r\n").unwrap();
    let flag = format!("--aclfile={}", path.display());
    let server = Local::start(&["--threads=2", &flag, "--requirepass=admin"]);
    let (mut admin, mut alice) = (server.client(), server.client());
    assert_eq!(admin.line("AUTH admin"), "+OK");
    assert_eq!(alice.line("AUTH alice secret"), "+OK");
    assert_eq!(alice.line("SET a 1").split(' ').next(), Some("-NOPERM"));
    admin.run("ACL SETUSER bob on nopass ~* +@all");
    let mut bob = server.client();
    assert_eq!(bob.line("AUTH bob x"), "+OK");
    let before = admin.run("ACL LIST");
    assert_eq!(admin.line("ACL SAVE"), "+OK");
    let saved = fs::read_to_string(&path).unwrap();
    assert_eq!(saved.lines().count(), 3, "{saved}");
    assert!(!saved.contains("secret") && fs::read_dir(directory.path()).unwrap().count() == 1);
    // A file with errors changes nothing. All of them are told.
    fs::write(&path, "user alice on +nosuch\nuser carl\nusr x\nuser carl on\nuser d (~x\n")
        .unwrap();
    let error = admin.line("ACL LOAD");
    for line in ["users:1: ", "users:3: ", "users:4: ", "users:5: "] {
        assert!(error.contains(line), "{error}");
    }
    assert!(error.starts_with("-ERR ") && !error.contains("users:2: "), "{error}");
    assert_eq!(admin.run("ACL LIST"), before);
    // A file replaces all users: a name that stays is the same user, a connection of one that is gone ends.
    fs::write(
        &path,
        saved.lines().filter(|it| !it.contains(" bob ")).collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
    admin.run("ACL SETUSER alice +set");
    assert_eq!(alice.line("SET a 1"), "+OK");
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    assert_eq!(alice.line("SET a 1").split(' ').next(), Some("-NOPERM"));
    assert_ended(&mut bob);
    // Without a line of `default` the option holds.
    fs::write(&path, "").unwrap();
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    assert_eq!(server.client().line("PING").split(' ').next(), Some("-NOAUTH"));
    fs::remove_file(&path).unwrap();
    assert!(admin.line("ACL LOAD").starts_with("-ERR "));
}

#[test]
fn users_are_options() {
    use clap::Parser;
    use nunatak_server::{Config, Server};
    let users = ["--user=alice on >secret ~a* +get", "--user", "default off"];
    let server = Local::start(&[&["--threads=1"], &users[..]].concat());
    let mut client = server.client();
    assert_eq!(client.line("PING").split(' ').next(), Some("-NOAUTH"));
    assert_eq!(client.line("HELLO 2").split(' ').next(), Some("-NOAUTH"));
    client.run("HELLO 3 AUTH alice secret");
    assert_eq!(client.run("GET a"), Reply::Line("_".into()));
    let error = |flags: &[&str]| {
        let flags = ["test", "--port=0", "--threads=1"].iter().chain(flags);
        Server::bind(Config::parse_from(flags)).map(drop).unwrap_err().to_string()
    };
    assert!(error(&["--user=a +nosuch"]).contains("user 'a': rule '+nosuch'"));
    assert!(error(&["--user=a", "--user=a"]).contains("twice"));
    assert!(error(&["--user=a", "--aclfile=x"]).contains("not in both"));
    assert!(error(&["--aclfile=/nonexistent/users"]).contains("/nonexistent/users"));
    // Nobody gets in without a password: other machines may connect.
    let flags = ["test", "--port=0", "--threads=1", "--bind=0.0.0.0", "--user=default off"];
    assert!(Server::bind(Config::parse_from(flags)).is_ok());
    assert!(error(&["--bind=0.0.0.0", "--user=a on >p"]).contains("--requirepass"));
}

/// Passwords are not shown to others.
#[test]
fn passwords_are_hidden() {
    let server = Local::start(&["--threads=1", "--slowlog-log-slower-than=0"]);
    let (mut client, mut monitor) = (server.client(), server.client());
    monitor.run("MONITOR");
    client.run("ACL SETUSER a on >secret");
    client.run("AUTH a secret");
    client.run("HELLO 2 AUTH a secret");
    let log = format!("{:?}", server.client().run("SLOWLOG GET"));
    let secret = format!("{:?}", b"secret".to_vec());
    assert!(log.contains("redacted") || log.contains(&format!("{:?}", b"(redacted)".to_vec())));
    assert!(!log.contains(secret.trim_matches(['[', ']'])), "{log}");
    let seen = [(); 2].map(|()| shown(&monitor.read())).concat();
    assert!(seen.contains("AUTH") && !seen.contains("secret"), "{seen}");
}
