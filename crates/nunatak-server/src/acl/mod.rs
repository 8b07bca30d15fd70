//! Users and their permissions, as Redis's ACL.
//!
//! A session holds its user, which never changes: a changed user takes the place of the one before in the
//! registry, and the version is counted up. Before each command a session compares the version with the one
//! that it has seen, and looks its user up again if they differ. So a check costs one load of a word that
//! is seldom written, and a change holds from the next command of every session on.

pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod selector;
pub(crate) mod user;

use crate::config::Config;
use file::Users;
use log::AclLog;
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use user::{User, join_selectors};

/// The name of the user that each client is at first.
pub(crate) const DEFAULT: &[u8] = b"default";

/// All users of a server.
#[derive(Debug)]
pub(crate) struct Acl {
    users: RwLock<Users>,
    version: AtomicU64,
    next_id: AtomicU64,
    /// Whether new users may use all channels. Stored and read relaxed: nothing else is ordered by it.
    opens_channels: AtomicBool,
    file: Option<PathBuf>,
    /// Held while the file is read or written.
    using_file: Mutex<()>,
    pub(crate) log: AclLog,
}

/// Why a user can't be changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChangeError {
    Unmatched(Vec<u8>),
    Rule(Vec<u8>, selector::RuleError),
}

/// Returns the user `default` as it is with a password, or without one if that is empty.
fn default_user(id: u64, password: &str) -> User {
    let mut user = User::new(id, DEFAULT, false);
    let password = match password {
        "" => "nopass".into(),
        password => format!(">{password}"),
    };
    for rule in ["on", &password, "allkeys", "allchannels", "allcommands"] {
        user.apply(rule.as_bytes()).expect("the rules are right");
    }
    user
}

impl Acl {
    /// Makes the users that the options name: those of the file, or those of `--user`.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let this = Self {
            users: RwLock::default(),
            version: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            opens_channels: AtomicBool::new(config.opens_channels()),
            file: config.aclfile.clone(),
            using_file: Mutex::default(),
            log: AclLog::default(),
        };
        let mut users = Users::new();
        if let Some(path) = &config.aclfile {
            if !config.user.is_empty() {
                return Err("users are in the file or in options, not in both".into());
            }
            users = this.read(path)?;
        }
        for text in &config.user {
            let words = file::words(text.as_bytes());
            let [name, rules @ ..] = &words[..] else { return Err("a user needs a name".into()) };
            let user = file::define(this.new_user(name), rules)
                .map_err(|error| format!("user '{}': {error}", String::from_utf8_lossy(name)))?;
            if users.insert(Arc::clone(&user.name), Arc::new(user)).is_some() {
                return Err(format!("user '{}' is there twice", String::from_utf8_lossy(name)));
            }
        }
        this.fill_in_default(&mut users, &config.requirepass);
        *this.users.write() = users;
        Ok(this)
    }

    fn next_id(&self) -> u64 {
        // Relaxed: the numbers only differ.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn new_user(&self, name: &[u8]) -> User {
        User::new(self.next_id(), name, self.opens_channels.load(Ordering::Relaxed))
    }

    /// Changes whether new users, and rules that are applied from now on, allow all channels.
    pub(crate) fn open_channels(&self, opens: bool) {
        self.opens_channels.store(opens, Ordering::Relaxed);
    }

    fn fill_in_default(&self, users: &mut Users, password: &str) {
        let default = || Arc::new(default_user(self.next_id(), password));
        users.entry(DEFAULT.into()).or_insert_with(default);
    }

    fn read(&self, path: &Path) -> Result<Users, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        file::parse(path, &text, |name| self.new_user(name))
    }

    /// Returns a number that differs when a user has changed.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        // Acquire: pairs with the release of `change`. Who sees the number finds the changed users.
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// Returns the user `default`, which is always there.
    pub(crate) fn default_user(&self) -> Arc<User> {
        self.find(DEFAULT).expect("it is never removed")
    }

    /// Returns all users, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    fn change<R>(&self, change: impl FnOnce(&mut Users) -> R) -> R {
        let mut users = self.users.write();
        let result = change(&mut users);
        // Release: see `version`.
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    /// Makes or changes a user by rules. If one is wrong, nothing changes.
    pub(crate) fn set_user<'a>(
        &self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), ChangeError> {
        let rules = join_selectors(rules).map_err(|it| ChangeError::Unmatched(it.to_vec()))?;
        self.change(|users| {
            let known = users.get(name).map(|user| User::clone(user));
            let mut user = known.unwrap_or_else(|| self.new_user(name));
            user.opens_channels = self.opens_channels.load(Ordering::Relaxed);
            for rule in rules {
                user.apply(&rule).map_err(|error| ChangeError::Rule(rule, error))?;
            }
            users.insert(Arc::clone(&user.name), Arc::new(user));
            Ok(())
        })
    }

    /// Gives the user `default` this password alone, or none if it is empty.
    pub(crate) fn set_default_password(&self, password: &str) {
        let rule = if password.is_empty() { "nopass".into() } else { format!(">{password}") };
        let rules = [&b"resetpass"[..], rule.as_bytes()];
        self.set_user(DEFAULT, rules.into_iter()).expect("the rules are right");
    }

    /// Removes users, and returns how many were there.
    pub(crate) fn remove<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> usize {
        self.change(|users| names.filter(|name| users.remove(*name).is_some()).count())
    }

    /// The file with the users, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Writes all users to a file.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        let _using = self.using_file.lock();
        let users = self.users.read().clone();
        file::write(path, &users)
    }

    /// Replaces all users by those of a file. A name that stays is the same user, whose rules may have
    /// changed. If the file is wrong, nothing changes.
    pub(crate) fn load(&self, path: &Path, default_password: &str) -> Result<(), String> {
        let _using = self.using_file.lock();
        let mut loaded = self.read(path)?;
        self.fill_in_default(&mut loaded, default_password);
        self.change(|users| {
            for (name, user) in &mut loaded {
                if let Some(before) = users.get(name) {
                    Arc::make_mut(user).id = before.id;
                }
            }
            *users = loaded;
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
