//! What clients may see of the options, and change while the server runs: `CONFIG GET` and `SET`.

use crate::config::{AuthClients, Config, Durability, POLICIES, Policy, bytes};
use crate::histogram::Percentiles;
use crate::pubsub::limits::{AtomicLimits, Limits};
use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed,
};
use std::time::Duration;

/// Parses a parameter that is at least `least`. The error is a part of the reply.
fn integer(text: &str, least: i64) -> Result<i64, String> {
    let value = text.parse::<i64>();
    let value = value.map_err(|_| "argument couldn't be parsed into an integer".to_string())?;
    match value >= least {
        true => Ok(value),
        false => Err(format!("argument must be between {least} and {} inclusive", i64::MAX)),
    }
}

/// Parses a parameter of 31 bits that is at least `least`. The error is a part of the reply.
fn small(text: &str, least: i64) -> Result<u32, String> {
    let most = i32::MAX;
    let value = integer(text, least)?;
    match value <= most.into() {
        true => Ok(value as u32),
        false => Err(format!("argument must be between {least} and {most} inclusive")),
    }
}

/// Parses a parameter that is on or off. The error is a part of the reply.
fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

/// The values of `acl-pubsub-default`.
pub(crate) const CHANNELS: [&str; 2] = ["allchannels", "resetchannels"];

/// The longest command: places in a buffer have 32 bits, and a buffer may be twice as long.
const MOST_QUERY: usize = 1 << 30;

/// What clients may see of the options, and change.
#[derive(Debug)]
pub(crate) struct Settings {
    /// 0 if there is none.
    pub(crate) port: u16,
    /// 0 if there is none.
    pub(crate) tls_port: u16,
    /// Options of TLS that do not change, with their names.
    tls: [(&'static str, String); 5],
    pub(crate) threads: usize,
    pub(crate) file: Option<PathBuf>,
    pub(crate) durability: Durability,
    pub(crate) query_buffer_limit: usize,
    bind: String,
    unix_socket: String,
    acl_file: String,
    databases: usize,
    cluster_map: Option<PathBuf>,
    password: RwLock<Arc<str>>,
    pub(crate) max_memory: AtomicUsize,
    policy: AtomicU8,
    pub(crate) max_clients: AtomicUsize,
    pub(crate) timeout: AtomicUsize,
    pub(crate) max_bulk: AtomicUsize,
    mailbox_limits: AtomicLimits,
    /// Microseconds. Nothing is slow if it is negative.
    pub(crate) slow_log_limit: AtomicI64,
    pub(crate) slow_log_len: AtomicUsize,
    /// Milliseconds. Nothing is an event if it is 0.
    pub(crate) spike_limit: AtomicI64,
    /// Whether new users may use all channels.
    opens_channels: AtomicBool,
    pub(crate) acl_log_len: AtomicUsize,
    pub(crate) tracks_latency: AtomicBool,
    latency_percentiles: RwLock<Percentiles>,
    primary_user: RwLock<Arc<str>>,
    primary_password: RwLock<Arc<str>>,
    pub(crate) replica_read_only: AtomicBool,
    pub(crate) serves_stale: AtomicBool,
    /// Seconds.
    repl_timeout: AtomicU32,
    pub(crate) replica_priority: AtomicU32,
    tls_replication: bool,
}

fn shown_bool(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

impl Settings {
    pub(crate) fn new(
        config: &Config,
        (port, tls_port): (u16, u16),
        threads: usize,
        databases: usize,
    ) -> Self {
        let shown = |path: &Option<PathBuf>| {
            path.as_ref().map_or(String::new(), |it| it.display().to_string())
        };
        let auth_clients = match config.auth_clients() {
            AuthClients::Yes => "yes",
            AuthClients::No => "no",
            AuthClients::Optional => "optional",
        };
        Self {
            port,
            tls_port,
            tls: [
                ("tls-auth-clients", auth_clients.into()),
                ("tls-ca-cert-file", shown(&config.tls_ca_cert_file)),
                ("tls-cert-file", shown(&config.tls_cert_file)),
                ("tls-cluster", if config.tls_cluster { "yes" } else { "no" }.into()),
                ("tls-key-file", shown(&config.tls_key_file)),
            ],
            threads,
            file: config.file.clone(),
            durability: config.durability,
            query_buffer_limit: config.client_query_buffer_limit.min(MOST_QUERY),
            bind: config.bind.clone(),
            unix_socket: shown(&config.unixsocket),
            acl_file: shown(&config.aclfile),
            databases,
            cluster_map: config.cluster_map.clone(),
            password: RwLock::new(config.requirepass.as_str().into()),
            max_memory: AtomicUsize::new(config.maxmemory),
            policy: AtomicU8::new(config.maxmemory_policy as u8),
            max_clients: AtomicUsize::new(config.maxclients),
            timeout: AtomicUsize::new(config.timeout),
            max_bulk: AtomicUsize::new(config.proto_max_bulk_len),
            mailbox_limits: AtomicLimits::new(
                Limits::parse(&config.client_output_buffer_limit).unwrap_or(Limits::DEFAULT),
            ),
            slow_log_limit: AtomicI64::new(config.slowlog_log_slower_than),
            slow_log_len: AtomicUsize::new(config.slowlog_max_len),
            spike_limit: AtomicI64::new(config.latency_monitor_threshold),
            opens_channels: AtomicBool::new(config.opens_channels()),
            acl_log_len: AtomicUsize::new(config.acllog_max_len),
            tracks_latency: AtomicBool::new(config.latency_tracking),
            latency_percentiles: RwLock::new(
                Percentiles::parse(&config.latency_tracking_info_percentiles).unwrap_or_default(),
            ),
            primary_user: RwLock::new(config.masteruser.as_str().into()),
            primary_password: RwLock::new(config.masterauth.as_str().into()),
            replica_read_only: AtomicBool::new(config.replica_read_only),
            serves_stale: AtomicBool::new(config.replica_serve_stale_data),
            repl_timeout: AtomicU32::new(config.repl_timeout),
            replica_priority: AtomicU32::new(config.replica_priority),
            tls_replication: config.tls_replication,
        }
    }

    pub(crate) fn password(&self) -> Arc<str> {
        Arc::clone(&self.password.read())
    }

    /// Returns the name and the password for the primary; empty if it needs none.
    pub(crate) fn primary_credentials(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.primary_user.read()), Arc::clone(&self.primary_password.read()))
    }

    /// Returns after how long a silent primary is lost.
    pub(crate) fn repl_timeout(&self) -> Duration {
        Duration::from_secs(self.repl_timeout.load(Relaxed).into())
    }

    pub(crate) fn policy(&self) -> Policy {
        POLICIES[usize::from(self.policy.load(Relaxed))]
    }

    /// Returns the path of the Unix socket; empty if there is none.
    pub(crate) fn unix_socket(&self) -> &str {
        &self.unix_socket
    }

    /// Returns how many bytes may wait for a connection that gets messages.
    pub(crate) fn mailbox_limits(&self) -> Limits {
        self.mailbox_limits.load()
    }

    pub(crate) fn latency_percentiles(&self) -> Percentiles {
        self.latency_percentiles.read().clone()
    }

    /// Returns from when on commands are slow, in microseconds, and events, in milliseconds.
    pub(crate) fn time_limits(&self) -> (i64, i64) {
        (self.slow_log_limit.load(Relaxed), self.spike_limit.load(Relaxed))
    }

    /// Whether new users may use all channels.
    pub(crate) fn opens_channels(&self) -> bool {
        self.opens_channels.load(Relaxed)
    }

    /// Whether a change is answered after a sync.
    pub(crate) fn syncs(&self) -> bool {
        self.file.is_some() && self.durability == Durability::Always
    }

    /// All parameters, with the names that Redis has for them.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let fsync = match self.durability {
            Durability::Process => "no",
            Durability::Everysec => "everysec",
            Durability::Always => "always",
        };
        let map = self.cluster_map.as_ref().map(|path| path.display().to_string());
        let mut all = vec![
            ("aclfile", self.acl_file.clone()),
            ("acl-pubsub-default", CHANNELS[usize::from(!self.opens_channels())].into()),
            ("acllog-max-len", self.acl_log_len.load(Relaxed).to_string()),
            ("appendfsync", fsync.into()),
            ("appendonly", if self.file.is_some() { "yes" } else { "no" }.into()),
            ("bind", self.bind.clone()),
            ("client-output-buffer-limit", self.mailbox_limits().to_string()),
            ("cluster-config-file", map.unwrap_or_default()),
            ("cluster-enabled", if self.cluster_map.is_some() { "yes" } else { "no" }.into()),
            ("databases", self.databases.to_string()),
            ("io-threads", self.threads.to_string()),
            ("latency-monitor-threshold", self.spike_limit.load(Relaxed).to_string()),
            (
                "latency-tracking",
                if self.tracks_latency.load(Relaxed) { "yes" } else { "no" }.into(),
            ),
            ("latency-tracking-info-percentiles", self.latency_percentiles().to_string()),
            ("masterauth", self.primary_credentials().1.to_string()),
            ("masteruser", self.primary_credentials().0.to_string()),
            ("maxclients", self.max_clients.load(Relaxed).to_string()),
            ("maxmemory", self.max_memory.load(Relaxed).to_string()),
            ("maxmemory-policy", self.policy().name().into()),
            ("port", self.port.to_string()),
            ("proto-max-bulk-len", self.max_bulk.load(Relaxed).to_string()),
            ("repl-timeout", self.repl_timeout.load(Relaxed).to_string()),
            ("replica-priority", self.replica_priority.load(Relaxed).to_string()),
            ("replica-read-only", shown_bool(self.replica_read_only.load(Relaxed))),
            ("replica-serve-stale-data", shown_bool(self.serves_stale.load(Relaxed))),
            ("requirepass", self.password().to_string()),
            ("save", String::new()),
            ("slowlog-log-slower-than", self.slow_log_limit.load(Relaxed).to_string()),
            ("slowlog-max-len", self.slow_log_len.load(Relaxed).to_string()),
            ("timeout", self.timeout.load(Relaxed).to_string()),
            ("tls-replication", shown_bool(self.tls_replication)),
            ("tls-port", self.tls_port.to_string()),
            ("unixsocket", self.unix_socket.clone()),
        ];
        all.extend(self.tls.iter().cloned());
        all
    }

    /// Changes a parameter. The error is the text of the reply.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let number = || {
            value
                .parse::<usize>()
                .map_err(|_| "argument couldn't be parsed into an integer".to_string())
        };
        let done = match name {
            "maxmemory" => bytes(value).map(|value| self.max_memory.store(value, Relaxed)),
            "maxmemory-policy" => match POLICIES.iter().position(|policy| policy.name() == value) {
                Some(policy) => {
                    self.policy.store(policy as u8, Relaxed);
                    Ok(())
                }
                None => Err("argument(s) must be one of the policies that the server has".into()),
            },
            "maxclients" => number().map(|value| self.max_clients.store(value, Relaxed)),
            "timeout" => number().map(|value| self.timeout.store(value, Relaxed)),
            "slowlog-log-slower-than" => {
                integer(value, -1).map(|value| self.slow_log_limit.store(value, Relaxed))
            }
            "slowlog-max-len" => {
                integer(value, 0).map(|value| self.slow_log_len.store(value as usize, Relaxed))
            }
            "acllog-max-len" => {
                integer(value, 0).map(|value| self.acl_log_len.store(value as usize, Relaxed))
            }
            "latency-monitor-threshold" => {
                integer(value, 0).map(|value| self.spike_limit.store(value, Relaxed))
            }
            "acl-pubsub-default" => {
                let found = CHANNELS.iter().position(|known| known.eq_ignore_ascii_case(value));
                let found = found.map(|at| self.opens_channels.store(at == 0, Relaxed));
                let known = CHANNELS.join(", ");
                found.ok_or(format!("argument(s) must be one of the following: {known}"))
            }
            "latency-tracking" => {
                yes_or_no(value).map(|value| self.tracks_latency.store(value, Relaxed))
            }
            "latency-tracking-info-percentiles" => {
                Percentiles::parse(value).map(|parsed| *self.latency_percentiles.write() = parsed)
            }
            "proto-max-bulk-len" => bytes(value).map(|value| self.max_bulk.store(value, Relaxed)),
            "client-output-buffer-limit" => {
                Limits::parse(value).map(|limits| self.mailbox_limits.store(limits))
            }
            "masterauth" | "primaryauth" => {
                *self.primary_password.write() = value.into();
                Ok(())
            }
            "masteruser" | "primaryuser" => {
                *self.primary_user.write() = value.into();
                Ok(())
            }
            "replica-read-only" | "slave-read-only" => {
                yes_or_no(value).map(|value| self.replica_read_only.store(value, Relaxed))
            }
            "replica-serve-stale-data" | "slave-serve-stale-data" => {
                yes_or_no(value).map(|value| self.serves_stale.store(value, Relaxed))
            }
            "repl-timeout" => small(value, 1).map(|value| self.repl_timeout.store(value, Relaxed)),
            "replica-priority" | "slave-priority" => {
                small(value, 0).map(|value| self.replica_priority.store(value, Relaxed))
            }
            "requirepass" => {
                *self.password.write() = value.into();
                Ok(())
            }
            _ if name == "replicaof" || self.all().iter().any(|(known, _)| *known == name) => {
                Err("can't set immutable config".into())
            }
            _ => {
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            }
        };
        done.map_err(|why| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        })
    }
}
