//! Users: their passwords and what they may do.

use super::selector::{Denied, RuleError, Selector};
use crate::commands::table::Command;
use crate::protocol::request::Args;
use ring::digest::{SHA256, digest};
use std::sync::Arc;

/// The SHA-256 of a password.
type Hash = [u8; 32];

fn hash(password: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, password).as_ref());
    hash
}

/// Returns bytes as digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hash(digits: &[u8]) -> Result<Hash, RuleError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(RuleError::Hash),
    };
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return Err(RuleError::Hash);
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(hash)
}

/// Compares hashes; the time it takes does not depend on where they differ.
fn are_equal(a: &Hash, b: &Hash) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn fresh_selector(opens_channels: bool) -> Selector {
    let mut selector = Selector::none();
    if opens_channels {
        selector.apply(b"allchannels").expect("the rule is right");
    }
    selector
}

/// A user. It is never changed: a changed copy takes its place.
#[derive(Debug, Clone)]
pub(crate) struct User {
    /// Differs from that of any other user, also of one that had the name before.
    pub(crate) id: u64,
    pub(crate) name: Arc<[u8]>,
    is_on: bool,
    /// Whether any password is right.
    needs_no_password: bool,
    /// `skip-sanitize-payload` and `sanitize-payload`, which are kept and mean nothing: `RESTORE` always checks.
    sanitizes: Option<bool>,
    passwords: Vec<Hash>,
    /// The first one is the user's own; the others are in parentheses.
    selectors: Vec<Selector>,
    /// Whether everything is allowed.
    pub(crate) is_unlimited: bool,
    /// Whether what is made anew allows all channels: `acl-pubsub-default` when a rule is applied.
    pub(crate) opens_channels: bool,
}

impl User {
    /// Returns a user that is off and may do nothing.
    pub(crate) fn new(id: u64, name: &[u8], opens_channels: bool) -> Self {
        Self {
            id,
            name: name.into(),
            is_on: false,
            needs_no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![fresh_selector(opens_channels)],
            is_unlimited: false,
            opens_channels,
        }
    }

    /// Returns a user that may do everything, for commands that no client has sent.
    pub(crate) fn unlimited(name: &[u8]) -> Self {
        Self { is_unlimited: true, ..Self::new(0, name, true) }
    }

    /// Applies a rule. Some of it may have been applied if it fails.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("nopass") => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            _ if is("skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is("sanitize-payload") => self.sanitizes = Some(true),
            [b'>', password @ ..] => self.add_password(hash(password)),
            [b'#', digits @ ..] => self.add_password(parse_hash(digits)?),
            [b'<', password @ ..] => self.remove_password(hash(password))?,
            [b'!', digits @ ..] => self.remove_password(parse_hash(digits)?)?,
            [b'(', rules @ .., b')'] => {
                let mut selector = fresh_selector(self.opens_channels);
                let rules = rules.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty());
                rules.into_iter().try_for_each(|rule| selector.apply(rule))?;
                self.selectors.push(selector);
            }
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                let fresh = Self::new(self.id, &self.name, self.opens_channels);
                *self = Self { sanitizes: Some(true), ..fresh };
            }
            _ => self.selectors[0].apply(rule)?,
        }
        self.is_unlimited = self.selectors.iter().any(Selector::is_unlimited);
        Ok(())
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, hash: Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|it| *it == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Whether the user needs no password and is on.
    pub(crate) fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    pub(crate) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether a client with this password is this user.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        let given = hash(password);
        // All passwords are compared, so that the time tells nothing.
        let is_known = self.passwords.iter().fold(false, |found, it| are_equal(it, &given) | found);
        self.is_on && (self.needs_no_password || is_known)
    }

    /// Checks a command. The error is that of the selector that comes closest to allowing it.
    pub(crate) fn check(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        let mut closest = Denied::Command;
        for selector in &self.selectors {
            match selector.check(command, args) {
                Ok(()) => return Ok(()),
                Err(denied) => closest = closest.max(denied),
            }
        }
        Err(closest)
    }

    pub(crate) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|it| it.allows_channel(channel, is_pattern))
    }

    /// The user's own selector, then those in parentheses.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        match self.sanitizes {
            Some(true) => flags.push("sanitize-payload"),
            Some(false) => flags.push("skip-sanitize-payload"),
            None => {}
        }
        flags
    }

    /// Returns the hashes of the passwords.
    pub(crate) fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(|hash| hexadecimal(hash)).collect()
    }

    /// Returns the line that makes this user, as `ACL LIST` and the file have it.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut parts = vec![b"user".to_vec(), self.name.to_vec()];
        parts.extend(self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
        parts.extend(self.passwords().into_iter().map(|hash| format!("#{hash}").into_bytes()));
        for (at, selector) in self.selectors.iter().enumerate() {
            let rules = selector.to_rules();
            parts.push(if at == 0 { rules } else { [b"(", &rules[..], b")"].concat() });
        }
        parts.join(&b' ')
    }
}

/// Joins the parts of each selector in parentheses. Fails with the beginning of one that does not end.
pub(crate) fn join_selectors<'a>(
    rules: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let (mut joined, mut open) = (Vec::new(), None);
    for rule in rules {
        let (begin, mut text) = match open.take() {
            None => (rule, rule.to_vec()),
            Some((begin, text)) => (begin, [text, rule.to_vec()].join(&b' ')),
        };
        if begin.first() == Some(&b'(') && rule.last() != Some(&b')') {
            open = Some((begin, text));
        } else {
            joined.push(std::mem::take(&mut text));
        }
    }
    match open {
        None => Ok(joined),
        Some((begin, _)) => Err(begin),
    }
}
