//! Options of a server, and the settings that clients may change.

use crate::histogram::Percentiles;
use crate::pubsub::limits::{AtomicLimits, Limits};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, ValueEnum};
use parking_lot::RwLock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// When a change of a server with a file is answered.
///
/// ```
/// use nunatak_server::Durability;
/// assert_eq!(Durability::default(), Durability::Process);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Durability {
    /// At once. It survives the process, but perhaps not the power.
    #[default]
    Process,
    /// At once. A sync in the background begins every second.
    Everysec,
    /// After a sync, which all changes of a batch share: it survives a power cut.
    Always,
}

/// Which keys make room when memory is full.
///
/// ```
/// use nunatak_server::Policy;
/// assert_eq!(Policy::default(), Policy::NoEviction);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Policy {
    /// None: changes that need memory fail.
    #[default]
    #[value(name = "noeviction")]
    NoEviction,
    /// Random keys.
    AllkeysRandom,
    /// Random keys among those that expire.
    VolatileRandom,
    /// Keys that expire soonest, among some.
    VolatileTtl,
    /// Keys that were not used for the longest time, among some.
    AllkeysLru,
    /// The same, among those that expire.
    VolatileLru,
    /// Keys that were used least often, among some.
    AllkeysLfu,
    /// The same, among those that expire.
    VolatileLfu,
}

const POLICIES: [Policy; 8] = [
    Policy::NoEviction,
    Policy::AllkeysRandom,
    Policy::VolatileRandom,
    Policy::VolatileTtl,
    Policy::AllkeysLru,
    Policy::VolatileLru,
    Policy::AllkeysLfu,
    Policy::VolatileLfu,
];

impl Policy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoEviction => "noeviction",
            Self::AllkeysRandom => "allkeys-random",
            Self::VolatileRandom => "volatile-random",
            Self::VolatileTtl => "volatile-ttl",
            Self::AllkeysLru => "allkeys-lru",
            Self::VolatileLru => "volatile-lru",
            Self::AllkeysLfu => "allkeys-lfu",
            Self::VolatileLfu => "volatile-lfu",
        }
    }

    /// Whether uses of keys are counted.
    pub(crate) fn counts_uses(self) -> bool {
        matches!(self, Self::AllkeysLfu | Self::VolatileLfu)
    }

    /// Whether uses of keys are noted.
    pub(crate) fn needs_ages(self) -> bool {
        self.counts_uses() || matches!(self, Self::AllkeysLru | Self::VolatileLru)
    }

    /// Whether only keys that expire make room.
    pub(crate) fn is_volatile(self) -> bool {
        matches!(
            self,
            Self::VolatileRandom | Self::VolatileTtl | Self::VolatileLru | Self::VolatileLfu
        )
    }
}

/// Where a server listens.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::{Config, Port};
/// let config = Config::parse_from(["nunatak-server", "--port=off", "--tls-port=6380"]);
/// assert_eq!((config.port, config.tls_port), (Port::Off, Port::Number(6380)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Nowhere.
    Off,
    /// At any free port.
    Any,
    /// At this port.
    Number(u16),
}

impl Port {
    /// Returns the number that the system is asked for, if any.
    pub(crate) fn number(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::Any => Some(0),
            Self::Number(number) => Some(number),
        }
    }

    fn parse(text: &str, zero: Self) -> Result<Self, String> {
        match (text, text.parse()) {
            ("off", _) => Ok(Self::Off),
            ("any", _) => Ok(Self::Any),
            (_, Ok(0)) => Ok(zero),
            (_, Ok(number)) => Ok(Self::Number(number)),
            _ => Err("a port is a number up to 65535, `any` or `off`".into()),
        }
    }
}

/// Whether clients of TLS need a certificate.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::{AuthClients, Config};
/// let config = Config::parse_from(["nunatak-server", "--tls-auth-clients=optional"]);
/// assert_eq!(config.tls_auth_clients, Some(AuthClients::Optional));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthClients {
    /// They need one.
    Yes,
    /// They are not asked for one.
    No,
    /// They need none, but one that they have must be valid.
    Optional,
}

/// The options of a server. Each is a flag, a variable of the environment, and a line of a file.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::{Config, Port};
/// let config = Config::parse_from(["nunatak-server", "--port", "7000", "--threads", "2"]);
/// assert_eq!((config.port, config.threads), (Port::Number(7000), Some(2)));
/// ```
#[derive(Debug, Clone, Parser)]
#[command(version, about = "Serves maps by Redis's protocol")]
pub struct Config {
    /// Read options from this file: a name and a value on each line. Flags outweigh it, and it outweighs
    /// the environment.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The port to listen on; 0 or `any` is any free port, `off` is none.
    #[arg(long, default_value = "6379", env = "NUNATAK_PORT", value_parser = port)]
    pub port: Port,
    /// The port to listen on for TLS; 0 or `off` is none, `any` is any free port.
    #[arg(long, default_value = "off", env = "NUNATAK_TLS_PORT", value_parser = tls_port)]
    pub tls_port: Port,
    /// The certificate of TLS, in PEM, with those of its authorities behind it.
    #[arg(long, value_name = "PATH", env = "NUNATAK_TLS_CERT_FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of the certificate, in PEM, without a password.
    #[arg(long, value_name = "PATH", env = "NUNATAK_TLS_KEY_FILE")]
    pub tls_key_file: Option<PathBuf>,
    /// The certificates of the authorities from which clients have theirs, in PEM.
    #[arg(long, value_name = "PATH", env = "NUNATAK_TLS_CA_CERT_FILE")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients of TLS need a certificate [default: yes with --tls-ca-cert-file, no without].
    #[arg(long, value_enum, env = "NUNATAK_TLS_AUTH_CLIENTS")]
    pub tls_auth_clients: Option<AuthClients>,
    /// The address to listen on. An address that other machines reach needs a password, or TLS only, with
    /// certificates of clients.
    #[arg(long, default_value = "127.0.0.1", env = "NUNATAK_BIND")]
    pub bind: String,
    /// A Unix socket to listen on, too.
    #[arg(long, value_name = "PATH", env = "NUNATAK_UNIXSOCKET")]
    pub unixsocket: Option<PathBuf>,
    /// The password of the user `default`.
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "NUNATAK_REQUIREPASS",
        hide_env_values = true
    )]
    pub requirepass: String,
    /// How many threads serve connections [default: one for each core].
    #[arg(long, env = "NUNATAK_THREADS", value_parser = threads)]
    pub threads: Option<usize>,
    /// Keep the data in this file. It is created if it does not exist.
    #[arg(long, value_name = "PATH", env = "NUNATAK_FILE")]
    pub file: Option<PathBuf>,
    /// When a change is answered, with --file.
    #[arg(long, value_enum, default_value_t, env = "NUNATAK_DURABILITY")]
    pub durability: Durability,
    /// How many databases there are; with --file one.
    #[arg(long, default_value_t = 16, env = "NUNATAK_DATABASES", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub databases: u16,
    /// How many bytes the data may take, such as 100mb; 0 is no limit.
    #[arg(long, default_value = "0", env = "NUNATAK_MAXMEMORY", value_parser = bytes)]
    pub maxmemory: usize,
    /// Which keys make room when memory is full.
    #[arg(long, value_enum, default_value_t, env = "NUNATAK_MAXMEMORY_POLICY")]
    pub maxmemory_policy: Policy,
    /// How many connections there may be.
    #[arg(long, default_value_t = 10_000, env = "NUNATAK_MAXCLIENTS")]
    pub maxclients: usize,
    /// Close connections that are idle for so many seconds; 0 is never.
    #[arg(long, default_value_t = 0, env = "NUNATAK_TIMEOUT")]
    pub timeout: usize,
    /// The longest argument of a command.
    #[arg(long, default_value = "512mb", env = "NUNATAK_PROTO_MAX_BULK_LEN", value_parser = bytes)]
    pub proto_max_bulk_len: usize,
    /// Close connections of which so many bytes wait for a command to be complete.
    #[arg(long, default_value = "1gb", env = "NUNATAK_CLIENT_QUERY_BUFFER_LIMIT", value_parser = bytes)]
    pub client_query_buffer_limit: usize,
    /// Close connections that get messages, if more bytes wait for them: the class `pubsub`, a hard limit,
    /// a soft limit, and for how many seconds more than the soft limit may wait.
    #[arg(long, default_value = "pubsub 32mb 8mb 60", env = "NUNATAK_CLIENT_OUTPUT_BUFFER_LIMIT", value_parser = mailbox_limits)]
    pub client_output_buffer_limit: String,
    /// Log commands that take so many microseconds; -1 logs none.
    #[arg(long, default_value_t = 10_000, env = "NUNATAK_SLOWLOG_LOG_SLOWER_THAN", value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    pub slowlog_log_slower_than: i64,
    /// How many slow commands are kept.
    #[arg(long, default_value_t = 128, env = "NUNATAK_SLOWLOG_MAX_LEN")]
    pub slowlog_max_len: usize,
    /// Keep a histogram of the times of each command: `yes` or `no`.
    #[arg(long, default_value = "yes", action = ArgAction::Set, env = "NUNATAK_LATENCY_TRACKING", value_parser = BoolishValueParser::new())]
    pub latency_tracking: bool,
    /// Which percentiles of these times `INFO latencystats` tells.
    #[arg(long, default_value = "50 99 99.9", env = "NUNATAK_LATENCY_TRACKING_INFO_PERCENTILES", value_parser = percentiles)]
    pub latency_tracking_info_percentiles: String,
    /// Answer `GET /metrics` at this address by HTTP, without a password: metrics for Prometheus.
    #[arg(long, value_name = "ADDRESS:PORT", env = "NUNATAK_METRICS_ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Serve a page at this address by HTTP, without a password, that shows what the server does.
    #[arg(long, value_name = "ADDRESS:PORT", env = "NUNATAK_DASHBOARD")]
    pub dashboard: Option<SocketAddr>,
    /// Be a node of a cluster: this file says which node has which slots. It is read again when it changes.
    #[arg(long, value_name = "PATH", requires = "cluster_node", env = "NUNATAK_CLUSTER_MAP")]
    pub cluster_map: Option<PathBuf>,
    /// Which of the nodes in the map this server is.
    #[arg(long, value_name = "NAME", requires = "cluster_map", env = "NUNATAK_CLUSTER_NODE")]
    pub cluster_node: Option<String>,
    /// Bind thread i to the i-th core.
    #[arg(long, env = "NUNATAK_PIN")]
    pub pin: bool,
}

fn port(text: &str) -> Result<Port, String> {
    Port::parse(text, Port::Any)
}

fn tls_port(text: &str) -> Result<Port, String> {
    Port::parse(text, Port::Off)
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=512) => Ok(threads),
        _ => Err("from 1 to 512".into()),
    }
}

fn mailbox_limits(text: &str) -> Result<String, String> {
    Limits::parse(text).map(|limits| limits.to_string())
}

fn percentiles(text: &str) -> Result<String, String> {
    Percentiles::parse(text).map(|percentiles| percentiles.to_string())
}

/// Parses a number of bytes with a unit.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        other => return Err(format!("`{other}` is no unit of memory")),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| format!("`{text}` is no number of bytes"))
}

impl Config {
    /// Whether clients of TLS need a certificate. Without authorities none could be checked.
    pub(crate) fn auth_clients(&self) -> AuthClients {
        let default = match self.tls_ca_cert_file {
            Some(_) => AuthClients::Yes,
            None => AuthClients::No,
        };
        self.tls_auth_clients.unwrap_or(default)
    }

    /// Whether every client that comes by a network has shown a certificate.
    pub(crate) fn knows_clients(&self) -> bool {
        self.port == Port::Off && self.auth_clients() == AuthClients::Yes
    }

    /// Reads the options of a file: a name and a value on each line, as in a file of Redis's.
    ///
    /// # Errors
    /// A text that names the line, if it has no value.
    ///
    /// ```
    /// use nunatak_server::Config;
    /// let flags = Config::flags_of("# a comment\nport 7000\nmaxmemory 100mb\n")?;
    /// assert_eq!(flags, ["--port=7000", "--maxmemory=100mb"]);
    /// assert!(Config::flags_of("port").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn flags_of(text: &str) -> Result<Vec<String>, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let options = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        options
            .map(|(number, line)| match line.split_once(char::is_whitespace) {
                Some((name, value)) => Ok(format!("--{}={}", name, value.trim().trim_matches('"'))),
                None => Err(format!("line {} has no value: {line}", number + 1)),
            })
            .collect()
    }
}

/// Parses a parameter that is at least `least`. The error is a part of the reply.
fn integer(text: &str, least: i64) -> Result<i64, String> {
    let value = text.parse::<i64>();
    let value = value.map_err(|_| "argument couldn't be parsed into an integer".to_string())?;
    match value >= least {
        true => Ok(value),
        false => Err(format!("argument must be between {least} and {} inclusive", i64::MAX)),
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
    tls: [(&'static str, String); 4],
    pub(crate) threads: usize,
    pub(crate) file: Option<PathBuf>,
    pub(crate) durability: Durability,
    pub(crate) query_buffer_limit: usize,
    bind: String,
    unix_socket: String,
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
    pub(crate) tracks_latency: AtomicBool,
    latency_percentiles: RwLock<Percentiles>,
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
                ("tls-key-file", shown(&config.tls_key_file)),
            ],
            threads,
            file: config.file.clone(),
            durability: config.durability,
            query_buffer_limit: config.client_query_buffer_limit.min(MOST_QUERY),
            bind: config.bind.clone(),
            unix_socket: shown(&config.unixsocket),
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
            tracks_latency: AtomicBool::new(config.latency_tracking),
            latency_percentiles: RwLock::new(
                Percentiles::parse(&config.latency_tracking_info_percentiles).unwrap_or_default(),
            ),
        }
    }

    pub(crate) fn password(&self) -> Arc<str> {
        Arc::clone(&self.password.read())
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
            ("appendfsync", fsync.into()),
            ("appendonly", if self.file.is_some() { "yes" } else { "no" }.into()),
            ("bind", self.bind.clone()),
            ("client-output-buffer-limit", self.mailbox_limits().to_string()),
            ("cluster-config-file", map.unwrap_or_default()),
            ("cluster-enabled", if self.cluster_map.is_some() { "yes" } else { "no" }.into()),
            ("databases", self.databases.to_string()),
            ("io-threads", self.threads.to_string()),
            ("latency-monitor-threshold", "0".into()),
            (
                "latency-tracking",
                if self.tracks_latency.load(Relaxed) { "yes" } else { "no" }.into(),
            ),
            ("latency-tracking-info-percentiles", self.latency_percentiles().to_string()),
            ("maxclients", self.max_clients.load(Relaxed).to_string()),
            ("maxmemory", self.max_memory.load(Relaxed).to_string()),
            ("maxmemory-policy", self.policy().name().into()),
            ("port", self.port.to_string()),
            ("proto-max-bulk-len", self.max_bulk.load(Relaxed).to_string()),
            ("requirepass", self.password().to_string()),
            ("save", String::new()),
            ("slowlog-log-slower-than", self.slow_log_limit.load(Relaxed).to_string()),
            ("slowlog-max-len", self.slow_log_len.load(Relaxed).to_string()),
            ("timeout", self.timeout.load(Relaxed).to_string()),
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
            "requirepass" => {
                *self.password.write() = value.into();
                Ok(())
            }
            _ if self.all().iter().any(|(known, _)| *known == name) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!((bytes("0"), bytes("100mb"), bytes("1K")), (Ok(0), Ok(100 << 20), Ok(1000)));
        assert!(bytes("").is_err() && bytes("1xb").is_err() && bytes("99999999999gb").is_err());
    }

    #[test]
    fn zero_is_any_port_but_no_port_of_tls() {
        assert_eq!((port("0"), tls_port("0")), (Ok(Port::Any), Ok(Port::Off)));
        assert_eq!((port("off"), tls_port("any")), (Ok(Port::Off), Ok(Port::Any)));
        assert!(port("65536").is_err() && port("").is_err() && tls_port("-1").is_err());
    }

    #[test]
    fn policies_have_their_numbers() {
        for (number, policy) in POLICIES.into_iter().enumerate() {
            assert_eq!(policy as usize, number);
        }
    }
}
