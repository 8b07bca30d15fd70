//! Cluster mode: which slots this server has, by a file that all nodes of the cluster have.
//!
//! 1. The file is the truth. It is read again when it changes, and a command that changes slots changes
//!    the file first.
//! 2. A command looks at the states of its slots while it holds the locks of its keys; a read looks
//!    between the beginning and the end of the read. So a key that moves away is seen here before, or
//!    there after.
//! 3. When slots begin to move away, all locks are taken once after the states have changed: who has
//!    seen the states of before has ended. From then on no key is made here in these slots.

pub(crate) mod manage;
pub(crate) mod map;
pub(crate) mod slot;

use crate::watched::Watched;
use map::{MapError, Node, Place, SlotMap};
use parking_lot::{Mutex, RwLock};
use slot::SLOTS;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What this node does with the keys of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Another node serves them, or nobody.
    Elsewhere,
    /// It serves them.
    Here,
    /// It serves those that it still has. The others are at the node to which the slot moves.
    Leaving,
    /// It serves those that clients ask for, after the other node has sent them here.
    Arriving,
}

impl State {
    fn of(place: Place, me: u16) -> Self {
        match (place.owner == Some(me), place.target) {
            (true, None) => Self::Here,
            (true, Some(_)) => Self::Leaving,
            (false, Some(target)) if target == me => Self::Arriving,
            (false, _) => Self::Elsewhere,
        }
    }
}

const STATES: [State; 4] = [State::Elsewhere, State::Here, State::Leaving, State::Arriving];

/// Why a map of slots can't be used.
#[derive(Debug)]
pub(crate) enum ClusterError {
    Io(io::Error),
    Map(MapError),
    /// This node is not in the map.
    NotThere(String),
    /// The change does not fit the map.
    Refused(String),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Map(error) => write!(f, "{error}"),
            Self::NotThere(name) => write!(f, "there is no node `{name}`"),
            Self::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl From<io::Error> for ClusterError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<MapError> for ClusterError {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

/// The cluster, as one of its nodes sees it.
#[derive(Debug)]
pub(crate) struct Cluster {
    path: PathBuf,
    /// The name of this node.
    name: String,
    map: RwLock<Arc<SlotMap>>,
    states: Box<[AtomicU8]>,
    /// Locked while the map changes.
    watched: Mutex<Watched<1>>,
    /// How many maps there have been.
    pub(crate) epoch: AtomicU64,
}

impl Cluster {
    /// Reads the map for the node of this name.
    pub(crate) fn new(path: &Path, name: &str) -> Result<Self, ClusterError> {
        let cluster = Self {
            path: path.into(),
            name: name.into(),
            map: RwLock::new(Arc::new(SlotMap::parse("")?)),
            states: (0..SLOTS).map(|_| AtomicU8::new(State::Elsewhere as u8)).collect(),
            // Before the file is read: a change meanwhile is seen later.
            watched: Mutex::new(Watched::new([path])),
            epoch: AtomicU64::new(0),
        };
        cluster.apply(SlotMap::parse(&fs::read_to_string(path)?)?)?;
        Ok(cluster)
    }

    pub(crate) fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.read())
    }

    /// Returns this node's place in a map.
    pub(crate) fn me(&self, map: &SlotMap) -> Option<u16> {
        map.find(&self.name)
    }

    /// Reads the file again if it has changed. Returns whether it was read. A file that is wrong is told once.
    pub(crate) fn reload(&self) -> Result<bool, ClusterError> {
        let mut watched = self.watched.lock();
        if !watched.has_changed([&self.path]) {
            return Ok(false);
        }
        self.apply(SlotMap::parse(&fs::read_to_string(&self.path)?)?)?;
        Ok(true)
    }

    fn apply(&self, map: SlotMap) -> Result<(), ClusterError> {
        let Some(me) = self.me(&map) else { return Err(ClusterError::NotThere(self.name.clone())) };
        let map = Arc::new(map);
        *self.map.write() = Arc::clone(&map);
        for (slot, place) in map.places.iter().enumerate() {
            // Release: who sees it sees what was stored before, as the keys that have arrived.
            self.states[slot].store(State::of(*place, me) as u8, Ordering::Release);
        }
        // Relaxed: a number to show.
        self.epoch.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Changes the map and its file.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut SlotMap) -> Result<(), String>,
    ) -> Result<(), ClusterError> {
        let mut watched = self.watched.lock();
        let map = change_file(&self.path, change)?;
        watched.have_been_written([&self.path]);
        self.apply(map)
    }

    #[inline]
    pub(crate) fn state(&self, slot: u16) -> State {
        // Acquire: pairs with the release of `apply`.
        STATES[usize::from(self.states[usize::from(slot)].load(Ordering::Acquire))]
    }

    /// Whether this node serves these keys, and no slot of theirs is moving.
    #[inline]
    pub(crate) fn serves<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let (mut slots, mut first) = (keys.map(slot::slot_of), None);
        slots.all(|slot| *first.get_or_insert(slot) == slot && self.state(slot) == State::Here)
    }

    /// Returns the state of a slot with the node that has it and the one to which it moves, of one map. It
    /// may be newer than what [`state`](Self::state) returns: the map is replaced first.
    pub(crate) fn place(&self, slot: u16) -> (State, Option<Node>, Option<Node>) {
        let map = self.map();
        let place = map.places[usize::from(slot)];
        let node = |number: u16| map.nodes[usize::from(number)].clone();
        let state = self.me(&map).map_or(State::Elsewhere, |me| State::of(place, me));
        (state, place.owner.map(node), place.target.map(node))
    }
}

/// Changes a map in its file: another process sees the old one or the new one.
pub(crate) fn change_file(
    path: &Path,
    change: impl FnOnce(&mut SlotMap) -> Result<(), String>,
) -> Result<SlotMap, ClusterError> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // The lock has a file of its own, which stays: the map's is replaced.
    let lock = File::options().create(true).truncate(false).write(true).open(beside(".lock"))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).map_err(io::Error::from)?;
    let mut map = SlotMap::parse(&fs::read_to_string(path)?)?;
    change(&mut map).map_err(ClusterError::Refused)?;
    let next = beside(".next");
    let mut file = File::create(&next)?;
    file.write_all(map.to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(next, path)?;
    drop(lock);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_when_they_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        fs::write(&path, "a x:1 0-99\nb x:2 100-199\n").unwrap();
        assert!(Cluster::new(&path, "c").unwrap_err().to_string().contains("no node `c`"));
        let [a, b] = ["a", "b"].map(|name| Cluster::new(&path, name).unwrap());
        assert_eq!(
            [a.state(7), b.state(7), a.state(200)],
            [State::Here, State::Elsewhere, State::Elsewhere]
        );
        assert!(!b.reload().unwrap());
        a.change(|map| {
            map.places[7].target = map.find("b");
            Ok(())
        })
        .unwrap();
        assert!(!b.reload().unwrap(), "it may be written still");
        assert!(b.reload().unwrap());
        assert_eq!([a.state(7), b.state(7)], [State::Leaving, State::Arriving]);
        assert!(!a.reload().unwrap() && !a.reload().unwrap(), "its own change");
        // A wrong file changes nothing, and is told once.
        fs::write(&path, "a x:1 0-99999\n").unwrap();
        assert!(!b.reload().unwrap() && b.reload().is_err());
        assert!(!b.reload().unwrap());
        assert_eq!(b.state(7), State::Arriving);
    }

    #[test]
    fn served_keys_have_one_slot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        fs::write(&path, "a x:1 0-16383\n").unwrap();
        let cluster = Cluster::new(&path, "a").unwrap();
        let serves = |keys: &[&str]| cluster.serves(keys.iter().map(|key| key.as_bytes()));
        assert!(serves(&[]) && serves(&["foo"]) && serves(&["{foo}1", "{foo}2"]));
        assert!(!serves(&["foo", "bar"]));
        cluster
            .change(|map| {
                map.places[12182] = Place::default();
                Ok(())
            })
            .unwrap();
        assert!(!serves(&["foo"]) && serves(&["bar"]));
    }
}
