use super::*;
use crate::commands::table;
use crate::protocol::request::Span;
use clap::Parser;

fn check(user: &User, call: &str) -> Result<(), selector::Denied> {
    let (mut spans, mut start) = (Vec::new(), 0);
    for word in call.split(' ') {
        spans.push(Span { start, end: start + word.len() as u32 });
        start += word.len() as u32 + 1;
    }
    let args = crate::protocol::request::Args::new(call.as_bytes(), &spans);
    let command = table::find(args.at(0)).expect("a command");
    user.check(command, args)
}

/// The rules that a user is told by make the same user.
#[test]
fn lines_make_the_same_user() {
    for rules in [
        "",
        "on nopass ~* &* +@all",
        "on >p >q %R~a ~b &c +@read -get +config|get (~x* +set) (%W~y &* +@all -@admin)",
        "reset +select|1 -@hash +@all -flushall",
        "skip-sanitize-payload +client -client|kill -@connection +client|list",
    ] {
        let words = file::words(rules.as_bytes());
        let user = file::define(User::new(1, b"u", false), &words).unwrap();
        let line = user.line();
        let again = file::define(User::new(1, b"u", false), &file::words(&line)[2..]).unwrap();
        assert_eq!(again.line(), line);
        for call in ["get a", "set x 1", "config get x", "client kill x", "client list", "select 1"]
        {
            assert_eq!(check(&user, call), check(&again, call), "{rules}: {call}");
        }
    }
}

#[test]
fn unlimited_users_are_told_apart() {
    let unlimited = |rules: &str| {
        file::define(User::new(1, b"u", false), &file::words(rules.as_bytes()))
            .unwrap()
            .is_unlimited
    };
    assert!(unlimited("~* &* +@all") && unlimited("(allkeys allchannels allcommands)"));
    assert!(unlimited("~* &* +@all -get +@all") && unlimited("~* &* +@fast +@slow"));
    for limited in ["&* +@all", "~* +@all", "~* &*", "~* &* +@all -get", "~* &* +@fast"] {
        assert!(!unlimited(limited), "{limited}");
    }
    // Every bit of the table stands for a command.
    let all = file::define(User::new(1, b"u", false), &[b"+@all"]).unwrap();
    let none = User::new(1, b"u", false);
    for command in table::COMMANDS.iter().filter(|it| !it.has(table::NO_AUTH)) {
        let call = [command.name, command.subcommands().first().unwrap_or(&"x")].join(" ");
        assert_ne!(check(&all, &call), Err(selector::Denied::Command), "{call}");
        assert_eq!(check(&none, &call), Err(selector::Denied::Command), "{call}");
    }
}

/// The version counts changes, and a user that has another's name is another.
#[test]
fn versions_and_users_differ() {
    let acl = Acl::new(&Config::parse_from([""])).unwrap();
    let before = acl.version();
    acl.set_user(b"a", [&b"on"[..]].into_iter()).unwrap();
    let first = acl.find(b"a").unwrap();
    acl.set_user(b"a", [&b"off"[..]].into_iter()).unwrap();
    assert_eq!(acl.find(b"a").unwrap().id, first.id);
    assert!(acl.set_user(b"a", [&b"on"[..], b"what"].into_iter()).is_err());
    assert_eq!(acl.find(b"a").unwrap().flags(), ["off"], "nothing changed");
    assert_eq!(acl.remove([&b"a"[..], b"b"].into_iter()), 1);
    acl.set_user(b"a", std::iter::empty()).unwrap();
    assert_ne!(acl.find(b"a").unwrap().id, first.id);
    assert!(acl.version() > before);
}
