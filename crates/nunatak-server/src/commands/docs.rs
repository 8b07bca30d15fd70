//! `COMMAND DOCS`: what commands do, and their arguments, from which clients make hints.
//!
//! `docs.txt` has a line for each command and subcommand: name, group and first version of Redis that had it,
//! cost, sentence, arguments; and, if Redis advises another command, which one and since when. Arguments are
//! written so:
//!
//! ```text
//! name            a string            name=TOKEN    behind the word TOKEN
//! name:i          an integer          TOKEN         a word alone; name!TOKEN if it has another name
//! name:d          a decimal number    name(a|b)     one of these
//! name:p          a pattern           name{a b}     all of these
//! name:t          a Unix time         ...^6.2.0     since that version; ~6.2.0 advised against since then
//! name:k0         a key, of the       ...?          may be left out
//!                 command's first     ...*          may be repeated; *+ with its word
//!                 place of keys
//! ```

use super::table::{self, Command};
use crate::protocol::reply::Reply;

const TEXT: &str = include_str!("docs.txt");

/// What precedes the command that Redis advises.
const INSTEAD: &str = "instead: ";
/// Marks a command that only servers send.
const INTERNAL: &str = "internal";

#[derive(Debug, Default, PartialEq, Eq)]
struct Argument<'t> {
    name: String,
    kind: &'static str,
    key_place: Option<u8>,
    token: Option<&'t str>,
    since: Option<&'t str>,
    deprecated_since: Option<&'t str>,
    flags: Vec<&'static str>,
    parts: Vec<Argument<'t>>,
}

/// A text that is read from its beginning.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn takes(&mut self, first: char) -> bool {
        let rest = self.0.strip_prefix(first);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes everything in front of the next mark.
    fn word(&mut self) -> &'t str {
        let end = self.0.find(|char| " ()|{}=!^~?*+".contains(char)).unwrap_or(self.0.len());
        let word;
        (word, self.0) = self.0.split_at(end);
        word
    }

    /// Takes arguments with this between them.
    fn arguments(&mut self, between: char) -> Vec<Argument<'t>> {
        let mut all = vec![self.argument()];
        while self.takes(between) {
            all.push(self.argument());
        }
        all
    }

    fn argument(&mut self) -> Argument<'t> {
        let word = self.word();
        let mut argument = Argument { name: word.into(), kind: "string", ..Argument::default() };
        let kinds = [(":i", "integer"), (":d", "double"), (":p", "pattern"), (":t", "unix-time")];
        for (mark, kind) in kinds.into_iter().chain([(":k0", "key"), (":k1", "key")]) {
            if let Some(name) = word.strip_suffix(mark) {
                (argument.name, argument.kind) = (name.into(), kind);
                let place = if kind == "key" { mark.bytes().last() } else { None };
                argument.key_place = place.map(|place| place - b'0');
            }
        }
        if self.takes('(') {
            (argument.kind, argument.parts) = ("oneof", self.arguments('|'));
            self.takes(')');
        } else if self.takes('{') {
            (argument.kind, argument.parts) = ("block", self.arguments(' '));
            self.takes('}');
        } else if self.takes('!') {
            (argument.kind, argument.token) = ("pure-token", Some(self.word()));
        } else if !word.contains(|char: char| char.is_ascii_lowercase()) {
            argument.name = word.to_ascii_lowercase();
            (argument.kind, argument.token) = ("pure-token", Some(word));
        }
        if self.takes('=') {
            argument.token = Some(self.word());
        }
        if self.takes('^') {
            argument.since = Some(self.word());
        }
        if self.takes('~') {
            argument.deprecated_since = Some(self.word());
        }
        for (mark, flag) in [('?', "optional"), ('*', "multiple"), ('+', "multiple_token")] {
            if self.takes(mark) {
                argument.flags.push(flag);
            }
        }
        argument
    }
}

impl Argument<'_> {
    fn tell(&self, reply: &mut Reply<'_>) {
        let texts = [
            ("token", self.token),
            ("since", self.since),
            ("deprecated_since", self.deprecated_since),
        ];
        let known = texts.iter().filter(|(_, text)| text.is_some()).count();
        let more = [self.key_place.is_some(), !self.flags.is_empty(), !self.parts.is_empty()];
        reply.map(2 + known + more.into_iter().filter(|it| *it).count());
        [("name", self.name.as_str()), ("type", self.kind)].into_iter().for_each(
            |(field, text)| {
                reply.text(field);
                reply.text(text);
            },
        );
        if let Some(place) = self.key_place {
            reply.text("key_spec_index");
            reply.integer(place.into());
        }
        for (field, text) in texts {
            if let Some(text) = text {
                reply.text(field);
                reply.text(text);
            }
        }
        if !self.flags.is_empty() {
            reply.text("flags");
            reply.set(self.flags.len());
            self.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if !self.parts.is_empty() {
            reply.text("arguments");
            tell_all(&self.parts, reply);
        }
    }
}

fn tell_all(arguments: &[Argument<'_>], reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| argument.tell(reply));
}

/// A line of the text.
struct Doc {
    name: &'static str,
    group: &'static str,
    since: &'static str,
    cost: Option<&'static str>,
    summary: &'static str,
    arguments: Vec<Argument<'static>>,
    /// What Redis advises, and since when.
    instead: Option<(&'static str, &'static str)>,
    is_internal: bool,
}

impl Doc {
    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split(" ; ");
        let [name, origin, cost, summary, arguments] = [(); 5].map(|()| fields.next());
        let (group, since) = origin?.split_once(' ')?;
        let mut doc = Self {
            name: name?,
            group,
            since,
            cost: cost.filter(|text| *text != "-"),
            summary: summary?,
            arguments: Vec::new(),
            instead: None,
            is_internal: false,
        };
        if let Some(text) = arguments.filter(|text| *text != "-") {
            let mut rest = Rest(text);
            doc.arguments = rest.arguments(' ');
            rest.0.is_empty().then_some(())?;
        }
        for field in fields {
            match field.strip_prefix(INSTEAD) {
                Some(advice) => doc.instead = Some(advice.split_once(" since ")?),
                None => doc.is_internal = field == INTERNAL,
            }
        }
        Some(doc)
    }

    fn tell(&self, subcommands: &[&Doc], reply: &mut Reply<'_>) {
        let (instead, since) = self.instead.unzip();
        let flags: Vec<&str> = [(self.is_internal, "syscmd"), (instead.is_some(), "deprecated")]
            .into_iter()
            .filter_map(|(has, flag)| has.then_some(flag))
            .collect();
        let texts = [
            ("summary", Some(self.summary)),
            ("since", Some(self.since)),
            ("group", Some(self.group)),
            ("complexity", self.cost),
        ];
        let advice = [("deprecated_since", since), ("replaced_by", instead)];
        let known = texts.iter().chain(&advice).filter(|(_, text)| text.is_some()).count();
        let more = [!flags.is_empty(), !self.arguments.is_empty(), !subcommands.is_empty()];
        reply.map(known + more.into_iter().filter(|it| *it).count());
        let tell_texts = |texts: &[(&str, Option<&str>)], reply: &mut Reply<'_>| {
            for (field, text) in texts {
                if let Some(text) = text {
                    reply.text(field);
                    reply.text(text);
                }
            }
        };
        tell_texts(&texts, reply);
        if !flags.is_empty() {
            reply.text("doc_flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        tell_texts(&advice, reply);
        if !self.arguments.is_empty() {
            reply.text("arguments");
            tell_all(&self.arguments, reply);
        }
        if !subcommands.is_empty() {
            reply.text("subcommands");
            reply.map(subcommands.len());
            for subcommand in subcommands {
                reply.text(subcommand.name);
                subcommand.tell(&[], reply);
            }
        }
    }
}

fn all() -> Vec<Doc> {
    TEXT.lines().filter_map(Doc::parse).collect()
}

/// Answers what these commands do, or all if there is none. Those that are not there are left out.
pub(super) fn tell<'n>(names: impl Iterator<Item = &'n [u8]>, reply: &mut Reply<'_>) {
    let all = all();
    let named: Vec<&[u8]> = names.collect();
    let is_chosen = |doc: &&Doc| match named.is_empty() {
        true => !doc.name.contains('|'),
        false => named.iter().any(|name| name.eq_ignore_ascii_case(doc.name.as_bytes())),
    };
    let chosen: Vec<&Doc> = all.iter().filter(is_chosen).collect();
    reply.map(chosen.len());
    for doc in chosen {
        let subcommands = table::find(doc.name.as_bytes()).map_or(&[][..], Command::subcommands);
        let subcommands: Vec<&Doc> = subcommands
            .iter()
            .filter_map(|name| {
                let name = format!("{}|{name}", doc.name);
                all.iter().find(|doc| doc.name == name)
            })
            .collect();
        reply.text(doc.name);
        doc.tell(&subcommands, reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_subcommand_has_a_line() {
        let names: Vec<String> = table::all_entries().map(|entry| entry.name()).collect();
        let docs = all();
        assert_eq!(docs.len(), TEXT.lines().count(), "each line is understood");
        assert_eq!(docs.iter().map(|doc| doc.name).collect::<Vec<_>>(), names);
    }

    #[test]
    fn arguments_are_read() {
        let all = Rest("key:k1 at(seconds:i=EX^2.6.12|KEEPTTL)? ip:port~2.8.12?*+ {a b:d}")
            .arguments(' ');
        let told: Vec<_> =
            all.iter().map(|it| (it.name.as_str(), it.kind, it.token, it.parts.len())).collect();
        let expected = [
            ("key", "key", None, 0),
            ("at", "oneof", None, 2),
            ("ip:port", "string", None, 0),
            ("", "block", None, 2),
        ];
        assert_eq!(told, expected);
        assert_eq!((all[0].key_place, all[1].flags.as_slice()), (Some(1), &["optional"][..]));
        let [seconds, keep] = &all[1].parts[..] else { panic!("two parts") };
        assert_eq!(
            (seconds.token, seconds.since, seconds.kind),
            (Some("EX"), Some("2.6.12"), "integer")
        );
        assert_eq!(
            (keep.name.as_str(), keep.token, keep.kind),
            ("keepttl", Some("KEEPTTL"), "pure-token")
        );
        assert_eq!(all[2].deprecated_since, Some("2.8.12"));
        assert_eq!(all[2].flags, ["optional", "multiple", "multiple_token"]);
        assert_eq!(all[3].parts[1].kind, "double");
    }
}
