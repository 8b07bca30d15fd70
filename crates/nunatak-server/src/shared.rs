//! What all threads of a server share.

use crate::acl::Acl;
use crate::ages::Ages;
use crate::certificate::OwnCertificate;
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::config::Policy;
use crate::pubsub::Subscriptions;
use crate::pubsub::monitors::Monitors;
use crate::replica::{Replica, Target};
use crate::sample::{for_random_keys, highest_of_part, random_below};
use crate::settings::Settings;
use crate::slowlog::SlowLog;
use crate::spikes::Spikes;
use crate::stats::Stats;
use crate::store::record::Record;
use crate::store::{Store, databases};
use parking_lot::{Mutex, RwLock};
use rustls::ClientConfig;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Counts of what has happened. Threads add to them once for each batch.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) evicted: AtomicU64,
}

impl Counters {
    pub(crate) fn reset(&self) {
        let Self { connections, rejected, commands, hits, misses, evicted } = self;
        for counter in [connections, rejected, commands, hits, misses, evicted] {
            counter.store(0, Relaxed);
        }
    }
}

/// Why data was not saved.
#[derive(Debug)]
pub(crate) enum SaveError {
    /// The server has no file.
    NoFile,
    /// A backup is being made.
    IsSaving,
    Failed(nunatak::Error),
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => write!(f, "the data is in memory only: start with --file"),
            Self::IsSaving => write!(f, "Background save already in progress"),
            Self::Failed(error) => write!(f, "the data was not saved: {error}"),
        }
    }
}

/// How many changes may pass until the memory is looked at again.
const CHANGES: usize = 32;
/// How many keys are looked at for one that makes room.
const SAMPLES: usize = 16;
/// How many keys make room before a change fails.
const MOST_EVICTED: usize = 256;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) acl: Acl,
    /// Which slots are here, in cluster mode.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) replica: Replica,
    /// How other nodes are reached, if by TLS.
    pub(crate) node_tls: Option<Arc<ClientConfig>>,
    /// What the server shows in sessions of TLS.
    pub(crate) certificate: Option<Arc<OwnCertificate>>,
    pub(crate) counters: Counters,
    pub(crate) stats: Stats,
    pub(crate) slow_log: SlowLog,
    pub(crate) spikes: Spikes,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) monitors: Monitors,
    /// Seconds since 1970.
    pub(crate) started: u64,
    pub(crate) clients: AtomicUsize,
    pub(crate) registry: Clients,
    next_client: AtomicU64,
    last_save: AtomicU64,
    is_saving: AtomicBool,
    /// When the backup was asked for that waits to be made, in milliseconds since 1970.
    backup: Mutex<Option<u128>>,
    is_stopping: AtomicBool,
    /// Changes since the memory was looked at.
    changes: AtomicUsize,
    is_full: AtomicBool,
    ages: RwLock<Option<Arc<Ages>>>,
    has_ages: AtomicBool,
    /// Wakes all threads.
    pub(crate) wakers: Mutex<Vec<Arc<mio::Waker>>>,
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        settings: Settings,
        acl: Acl,
        (cluster, node_tls, certificate): (
            Option<Cluster>,
            Option<Arc<ClientConfig>>,
            Option<Arc<OwnCertificate>>,
        ),
        primary: Option<Target>,
    ) -> Self {
        let started = now().as_secs();
        let this = Self {
            store,
            replica: Replica::new(primary, &settings),
            settings,
            acl,
            cluster,
            node_tls,
            certificate,
            counters: Counters::default(),
            stats: Stats::default(),
            slow_log: SlowLog::default(),
            spikes: Spikes::default(),
            subscriptions: Subscriptions::default(),
            monitors: Monitors::default(),
            started,
            clients: AtomicUsize::new(0),
            registry: Clients::default(),
            next_client: AtomicU64::new(1),
            last_save: AtomicU64::new(started),
            is_saving: AtomicBool::new(false),
            backup: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            changes: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            ages: RwLock::default(),
            has_ages: AtomicBool::new(false),
            wakers: Mutex::default(),
        };
        this.fit_ages();
        this
    }

    pub(crate) fn next_client(&self) -> u64 {
        self.next_client.fetch_add(1, Relaxed)
    }

    /// Makes all threads end after what they are doing.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        for waker in &*self.wakers.lock() {
            // A thread that can't be woken sees the mark at its next wake-up.
            let _ = waker.wake();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    pub(crate) fn last_save(&self) -> u64 {
        self.last_save.load(Relaxed)
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.is_saving.load(Relaxed)
    }

    /// Makes all changes durable.
    pub(crate) fn save(&self) -> Result<(), SaveError> {
        if self.settings.file.is_none() {
            return Err(SaveError::NoFile);
        }
        self.store.sync().map_err(SaveError::Failed)?;
        self.last_save.store(now().as_secs(), Relaxed);
        Ok(())
    }

    /// The name of a backup: the file's, with the time.
    fn backup_path(&self, db: usize, time: u128) -> Option<PathBuf> {
        let file = self.settings.file.as_deref()?;
        let mut name = databases::path_of(file, db).into_os_string();
        name.push(format!(".backup-{time}"));
        Some(name.into())
    }

    /// Makes a backup, soon, in a thread that serves nobody.
    pub(crate) fn begin_backup(&self) -> Result<(), SaveError> {
        if self.settings.file.is_none() {
            return Err(SaveError::NoFile);
        }
        if self.is_saving.swap(true, Relaxed) {
            return Err(SaveError::IsSaving);
        }
        *self.backup.lock() = Some(now().as_millis());
        Ok(())
    }

    /// Makes the backup that was begun, if any. Called by a thread that serves nobody.
    pub(crate) fn run_backup(&self) {
        let Some(time) = self.backup.lock().take() else { return };
        let mut is_whole = true;
        for (db, space) in self.store.spaces().iter().enumerate() {
            let path = self.backup_path(db, time).unwrap_or_default();
            if let Err(error) = space.backup(&path) {
                is_whole = false;
                tell!("no backup at {}: {error}", path.display());
            }
        }
        if is_whole {
            self.last_save.store(now().as_secs(), Relaxed);
        }
        self.is_saving.store(false, Relaxed);
    }

    /// Whether a change may take memory. Makes room first, if memory is full. A replica has the keys of its
    /// primary, whatever they take.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.settings.max_memory.load(Relaxed) == 0 || self.replica.follows() || self.make_room()
    }

    fn used(&self) -> usize {
        let spaces = self.store.spaces().iter();
        spaces.map(|space| space.live_bytes() + space.len() * 24).sum()
    }

    #[cold]
    fn make_room(&self) -> bool {
        let most = self.settings.max_memory.load(Relaxed);
        if !self.changes.fetch_add(1, Relaxed).is_multiple_of(CHANGES)
            && !self.is_full.load(Relaxed)
        {
            return true;
        }
        let mut evicted = 0;
        while self.used() > most && evicted < MOST_EVICTED {
            match self.evict() {
                0 => break,
                count => evicted += count,
            }
        }
        self.counters.evicted.fetch_add(evicted as u64, Relaxed);
        let is_full = self.used() > most;
        self.is_full.store(is_full, Relaxed);
        !is_full
    }

    /// Removes some keys as the policy says, and returns how many.
    fn evict(&self) -> usize {
        let policy = self.settings.policy();
        let filled: Vec<usize> =
            (0..self.store.spaces().len()).filter(|&db| self.store.keys(db) > 0).collect();
        if policy == Policy::NoEviction || filled.is_empty() {
            return 0;
        }
        let db = filled[random_below(filled.len())];
        if policy.needs_ages() {
            return self.evict_by_use(policy, db);
        }
        let mut victims: Vec<(u64, Vec<u8>)> = Vec::new();
        for_random_keys(self.store.space(db), |key, record| {
            let expiry = Record::read_any(record).and_then(|record| record.expiry);
            let may_go = !policy.is_volatile() && !Record::is_hidden(record) || expiry.is_some();
            if may_go {
                victims.push((expiry.unwrap_or(u64::MAX), key.to_vec()));
            }
            victims.len() < SAMPLES
        });
        if policy == Policy::VolatileTtl {
            victims.sort_unstable();
            victims.truncate(1);
        }
        self.remove_all(db, victims.into_iter().map(|(_, key)| key))
    }

    fn remove_all(&self, db: usize, keys: impl Iterator<Item = Vec<u8>>) -> usize {
        let is_ours = |_: &[u8]| !self.replica.follows();
        keys.filter(|key| self.store.remove_if(db, key, is_ours).unwrap_or(false)).count()
    }

    /// Removes keys that were used long ago, or seldom.
    fn evict_by_use(&self, policy: Policy, db: usize) -> usize {
        // It may be missing while the policy changes.
        let Some(ages) = self.ages() else { return 0 };
        let (now, stripes) = (now().as_millis() as u64, &self.store.stripes);
        let victims = highest_of_part(self.store.space(db), |key, record| {
            let expires = || Record::may_expire(record);
            let may_go = !policy.is_volatile() && !Record::is_hidden(record) || expires();
            may_go.then(|| ages.rank(stripes.hash(db, key), now))
        });
        self.remove_all(db, victims.into_iter())
    }

    /// Returns when keys were used, if the policy needs to know it.
    #[inline]
    pub(crate) fn ages(&self) -> Option<Arc<Ages>> {
        // Relaxed: a hint. A batch that misses a change of the policy notes nothing.
        if self.has_ages.load(Relaxed) { self.ages.read().clone() } else { None }
    }

    /// Makes the table of uses larger if there are many keys.
    pub(crate) fn grow_ages(&self) {
        let keys = self.store.all_keys();
        let Some(before) = self.ages() else { return };
        if let Some(grown) = before.grown(keys) {
            // What is noted meanwhile is lost. The policy may have changed meanwhile, too.
            let mut ages = self.ages.write();
            if ages.as_ref().is_some_and(|ages| Arc::ptr_eq(ages, &before)) {
                *ages = Some(Arc::new(grown));
            }
        }
    }

    /// Fits the table of uses to the policy and the limit.
    pub(crate) fn fit_ages(&self) {
        let (policy, most) = (self.settings.policy(), self.settings.max_memory.load(Relaxed));
        let mut ages = self.ages.write();
        *ages = Ages::new(policy, most).map(Arc::new);
        self.has_ages.store(ages.is_some(), Relaxed);
    }
}
