//! Selectors: which commands a user may run, with which keys and channels.

use crate::commands::access::{self, READS, WRITES};
use crate::commands::categories;
use crate::commands::table::{self, Command, Entry, NO_AUTH};
use crate::protocol::glob;
use crate::protocol::request::Args;
use std::collections::BTreeMap;
use std::fmt;

/// Why a rule can't be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleError {
    Syntax,
    UnknownCommand,
    AfterAllKeys,
    AfterAllChannels,
    NoSuchPassword,
    Hash,
    FirstArgOfSubcommand,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "Syntax error",
            Self::UnknownCommand => "Unknown command or category name in ACL",
            Self::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
                 have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does \
                 not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

/// What a command may not do. The numbers are those of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    Command,
    Key(usize),
    Channel(usize),
}

/// Patterns of keys that may be read, written, or both.
#[derive(Debug, Clone)]
struct KeyPattern {
    access: u8,
    pattern: Vec<u8>,
}

/// A set of commands and subcommands, by their slots in the table.
#[derive(Debug, Clone, PartialEq)]
struct CommandSet(Box<[u64]>);

impl CommandSet {
    fn none() -> Self {
        Self(vec![0; table::slots().div_ceil(64)].into())
    }

    #[inline]
    fn contains(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 64)] >> (slot % 64) & 1 == 1
    }

    fn set(&mut self, slot: u16, is_in: bool) {
        let (word, bit) = (&mut self.0[usize::from(slot / 64)], 1 << (slot % 64));
        if is_in { *word |= bit } else { *word &= !bit }
    }
}

/// Rules that hold together: a command is allowed if its name, its keys and its channels are.
#[derive(Debug, Clone)]
pub(crate) struct Selector {
    commands: CommandSet,
    /// Whether the rules begin with all commands, or with none.
    begins_with_all: bool,
    /// The rules about commands behind that, in their order: whether they allow, and what.
    rules: Vec<(bool, String)>,
    /// First arguments that are allowed of commands that are not, by the commands' slots.
    first_args: BTreeMap<u16, Vec<Vec<u8>>>,
    /// `None` stands for all.
    keys: Option<Vec<KeyPattern>>,
    /// `None` stands for all.
    channels: Option<Vec<Vec<u8>>>,
}

/// The texts of a selector, as `ACL GETUSER` tells them.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) commands: Vec<u8>,
    pub(crate) keys: Vec<u8>,
    pub(crate) channels: Vec<u8>,
}

fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 11))
}

/// Finds a command, or `command|subcommand`.
fn find(name: &[u8]) -> Option<Entry> {
    let (name, subcommand) = match name.iter().position(|&byte| byte == b'|') {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    let command = table::find(name)?;
    match subcommand {
        None => Some(Entry { slot: command.slot, command, subcommand: None }),
        Some(subcommand) => command.entries().find(|it| {
            it.subcommand.is_some_and(|it| subcommand.eq_ignore_ascii_case(it.as_bytes()))
        }),
    }
}

impl Selector {
    /// Returns one that allows nothing.
    pub(crate) fn none() -> Self {
        Self {
            commands: CommandSet::none(),
            begins_with_all: false,
            rules: Vec::new(),
            first_args: BTreeMap::new(),
            keys: Some(Vec::new()),
            channels: Some(Vec::new()),
        }
    }

    /// Whether everything is allowed.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.keys.is_none()
            && self.channels.is_none()
            && table::all_entries().all(|entry| self.commands.contains(entry.slot))
    }

    /// Applies a rule. Nothing has changed if it fails.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || rule == b"~*" => self.keys = None,
            _ if is("resetkeys") => self.keys = Some(Vec::new()),
            _ if is("allchannels") || rule == b"&*" => self.channels = None,
            _ if is("resetchannels") => self.channels = Some(Vec::new()),
            _ if is("allcommands") || is("+@all") => self.set_all_commands(true),
            _ if is("nocommands") || is("-@all") => self.set_all_commands(false),
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', pattern @ ..] => self.add_channels(pattern)?,
            [sign @ (b'+' | b'-'), b'@', name @ ..] => self.set_category(*sign == b'+', name)?,
            [b'+', name @ ..] => self.add_command(name)?,
            [b'-', name @ ..] => {
                let entry = find(name).ok_or(RuleError::UnknownCommand)?;
                self.change_commands(false, name, |this| this.set_command(entry, false));
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all_commands(&mut self, is_allowed: bool) {
        table::all_entries().for_each(|entry| self.commands.set(entry.slot, is_allowed));
        self.begins_with_all = is_allowed;
        self.rules.clear();
        self.first_args.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let Some(keys) = &mut self.keys else { return Err(RuleError::AfterAllKeys) };
        let (access, pattern) = match rule {
            [b'~', pattern @ ..] => (READS | WRITES, pattern),
            _ => {
                let end = rule.iter().position(|&byte| byte == b'~').ok_or(RuleError::Syntax)?;
                let mut access = 0;
                for letter in &rule[1..end] {
                    let one = match letter.to_ascii_uppercase() {
                        b'R' => READS,
                        b'W' => WRITES,
                        _ => return Err(RuleError::Syntax),
                    };
                    if access & one != 0 {
                        return Err(RuleError::Syntax);
                    }
                    access |= one;
                }
                if access == 0 {
                    return Err(RuleError::Syntax);
                }
                (access, &rule[end + 1..])
            }
        };
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match keys.iter_mut().find(|it| it.pattern == pattern) {
            Some(known) => known.access |= access,
            None => keys.push(KeyPattern { access, pattern: pattern.to_vec() }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let Some(channels) = &mut self.channels else { return Err(RuleError::AfterAllChannels) };
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !channels.iter().any(|it| it == pattern) {
            channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_category(&mut self, is_allowed: bool, name: &[u8]) -> Result<(), RuleError> {
        let category = categories::find(name).ok_or(RuleError::UnknownCommand)?;
        self.change_commands(is_allowed, &[b"@", name].concat(), |this| {
            table::all_entries()
                .filter(|entry| categories::of(entry) & category != 0)
                .for_each(|entry| this.set_command(entry, is_allowed));
        });
        Ok(())
    }

    fn add_command(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let entry = find(name).ok_or(RuleError::UnknownCommand)?;
            self.change_commands(true, name, |this| this.set_command(entry, true));
            return Ok(());
        };
        let entry = find(&name[..bar]).ok_or(RuleError::UnknownCommand)?;
        let first_arg = &name[bar + 1..];
        if entry.subcommand.is_some() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if first_arg.is_empty() || has_spaces(first_arg) {
            return Err(RuleError::Syntax);
        }
        if entry.command.subcommands().is_empty() {
            self.change_commands(true, name, |this| {
                let first_args = this.first_args.entry(entry.slot).or_default();
                if !first_args.iter().any(|it| it.eq_ignore_ascii_case(first_arg)) {
                    first_args.push(first_arg.to_vec());
                }
            });
        } else {
            let entry = find(name).ok_or(RuleError::UnknownCommand)?;
            self.change_commands(true, name, |this| this.set_command(entry, true));
        }
        Ok(())
    }

    /// Allows or forbids a command with all its subcommands, or one subcommand.
    fn set_command(&mut self, entry: Entry, is_allowed: bool) {
        self.commands.set(entry.slot, is_allowed);
        if entry.subcommand.is_none() {
            entry.command.entries().for_each(|it| self.commands.set(it.slot, is_allowed));
        }
        self.first_args.remove(&entry.slot);
    }

    /// Changes commands by a rule, which is noted in place of earlier ones that it makes meaningless. A rule
    /// that changes nothing is not noted.
    fn change_commands(&mut self, is_allowed: bool, name: &[u8], change: impl FnOnce(&mut Self)) {
        let before = (self.commands.clone(), self.first_args.clone());
        change(self);
        if (&before.0, &before.1) == (&self.commands, &self.first_args) {
            return;
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        self.rules.retain(|(_, rule)| {
            rule.strip_prefix(&*name).is_none_or(|rest| !(rest.is_empty() || rest.starts_with('|')))
        });
        self.rules.push((is_allowed, name));
    }

    /// Checks a command with its arguments.
    pub(crate) fn check(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        if !command.has(NO_AUTH) && !self.commands.contains(command.slot_of(args)) {
            let first_args = self.first_args.get(&command.slot);
            let is_first_arg = |it: &Vec<u8>| args.len() > 1 && it.eq_ignore_ascii_case(args.at(1));
            if !first_args.is_some_and(|all| all.iter().any(is_first_arg)) {
                return Err(Denied::Command);
            }
        }
        if let Some(keys) = &self.keys {
            let allows = |key: &[u8], access| {
                keys.iter()
                    .any(|it| it.access & access == access && glob::matches(&it.pattern, key))
            };
            let denied = access::keys(command, args).find(|&(at, how)| !allows(args.at(at), how));
            if let Some((at, _)) = denied {
                return Err(Denied::Key(at));
            }
        }
        if self.channels.is_some() {
            let (channels, are_patterns) = access::channels(command, args);
            let mut channels = channels;
            if let Some(at) = channels.find(|&at| !self.allows_channel(args.at(at), are_patterns)) {
                return Err(Denied::Channel(at));
            }
        }
        Ok(())
    }

    /// Whether a channel is allowed. A pattern to subscribe to must be one of those that are allowed.
    pub(crate) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.channels.as_ref().is_none_or(|all| {
            all.iter().any(|it| match is_pattern {
                true => it == channel,
                false => glob::matches(it, channel),
            })
        })
    }

    pub(crate) fn describe(&self) -> Description {
        let mut commands = vec![if self.begins_with_all { "+@all" } else { "-@all" }.to_owned()];
        let sign = |is_allowed| if is_allowed { '+' } else { '-' };
        commands
            .extend(self.rules.iter().map(|(is_allowed, it)| format!("{}{it}", sign(*is_allowed))));
        let keys = self.keys.as_ref().map_or(vec![b"~*".to_vec()], |keys| {
            let prefix = |access| match access {
                READS => &b"%R~"[..],
                WRITES => b"%W~",
                _ => b"~",
            };
            keys.iter().map(|it| [prefix(it.access), &it.pattern].concat()).collect()
        });
        let channels = self.channels.as_ref().map_or(vec![b"&*".to_vec()], |channels| {
            channels.iter().map(|it| [b"&", &it[..]].concat()).collect()
        });
        Description {
            commands: commands.join(" ").into_bytes(),
            keys: keys.join(&b' '),
            channels: channels.join(&b' '),
        }
    }

    /// Returns the rules that make this selector of one that allows nothing.
    pub(crate) fn to_rules(&self) -> Vec<u8> {
        let Description { commands, keys, channels } = self.describe();
        let mut parts = vec![keys];
        if self.channels.is_some() {
            parts.push(b"resetchannels".to_vec());
        }
        parts.extend([channels, commands]);
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}
