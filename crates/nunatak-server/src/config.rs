//! Options of a server.

use crate::histogram::Percentiles;
use crate::pubsub::limits::Limits;
use crate::replica::Target;
use crate::settings::CHANNELS;
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

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

pub(crate) const POLICIES: [Policy; 8] = [
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
#[command(
    after_help = "`nunatak-server cluster --help` says how to look after a cluster of servers."
)]
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
    /// Reach other nodes by TLS, where keys move to them: `yes` or `no`.
    #[arg(long, default_value = "no", action = ArgAction::Set, env = "NUNATAK_TLS_CLUSTER", value_parser = BoolishValueParser::new())]
    pub tls_cluster: bool,
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
    /// Make a user: a name and rules, such as `alice on >secret ~cache:* +get`. May be given several times.
    #[arg(
        long,
        value_name = "NAME RULES",
        value_delimiter = '\n',
        env = "NUNATAK_USER",
        hide_env_values = true
    )]
    pub user: Vec<String>,
    /// Read the users from this file, to which `ACL SAVE` writes them.
    #[arg(long, value_name = "PATH", env = "NUNATAK_ACLFILE")]
    pub aclfile: Option<PathBuf>,
    /// How many entries `ACL LOG` keeps.
    #[arg(long, default_value_t = 128, env = "NUNATAK_ACLLOG_MAX_LEN")]
    pub acllog_max_len: usize,
    /// Which channels new users may use: `resetchannels` is none, `allchannels` is all.
    #[arg(long, default_value = CHANNELS[1], env = "NUNATAK_ACL_PUBSUB_DEFAULT", value_parser = CHANNELS)]
    pub acl_pubsub_default: String,
    /// How many threads serve connections [default: one for each core].
    #[arg(long, env = "NUNATAK_THREADS", value_parser = threads)]
    pub threads: Option<usize>,
    /// Keep the data in this file. It is created if it does not exist.
    #[arg(long, value_name = "PATH", env = "NUNATAK_FILE")]
    pub file: Option<PathBuf>,
    /// When a change is answered, with --file.
    #[arg(long, value_enum, default_value_t, env = "NUNATAK_DURABILITY")]
    pub durability: Durability,
    /// How many databases there are. With --file each has a file, which is made with its first key.
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
    /// Keep commands that take so many milliseconds as events for `LATENCY`; 0 keeps none.
    #[arg(long, default_value_t = 0, env = "NUNATAK_LATENCY_MONITOR_THRESHOLD", value_parser = clap::value_parser!(i64).range(0..))]
    pub latency_monitor_threshold: i64,
    /// Keep a histogram of the times of each command: `yes` or `no`.
    #[arg(long, default_value = "yes", action = ArgAction::Set, env = "NUNATAK_LATENCY_TRACKING", value_parser = BoolishValueParser::new())]
    pub latency_tracking: bool,
    /// Which percentiles of these times `INFO latencystats` tells.
    #[arg(long, default_value = "50 99 99.9", env = "NUNATAK_LATENCY_TRACKING_INFO_PERCENTILES", value_parser = percentiles)]
    pub latency_tracking_info_percentiles: String,
    /// Answer `GET /metrics` at this address by HTTP: metrics for Prometheus.
    #[arg(long, value_name = "ADDRESS:PORT", env = "NUNATAK_METRICS_ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Serve a page at this address by HTTP that shows what the server does.
    #[arg(long, value_name = "ADDRESS:PORT", env = "NUNATAK_DASHBOARD")]
    pub dashboard: Option<SocketAddr>,
    /// Serve the metrics and the dashboard by TLS, with the certificate of the server: `yes` or `no`.
    #[arg(long, default_value = "no", action = ArgAction::Set, env = "NUNATAK_HTTP_TLS", value_parser = BoolishValueParser::new())]
    pub http_tls: bool,
    /// Be a node of a cluster: this file says which node has which slots. It is read again when it changes.
    #[arg(long, value_name = "PATH", requires = "cluster_node", env = "NUNATAK_CLUSTER_MAP")]
    pub cluster_map: Option<PathBuf>,
    /// Which of the nodes in the map this server is.
    #[arg(long, value_name = "NAME", requires = "cluster_map", env = "NUNATAK_CLUSTER_NODE")]
    pub cluster_node: Option<String>,
    /// Be a replica of this Redis or Valkey: its host and its port, as in `10.0.0.1 6379`.
    #[arg(long, alias = "slaveof", value_name = "HOST PORT", conflicts_with = "cluster_map", env = "NUNATAK_REPLICAOF", value_parser = primary)]
    pub replicaof: Option<String>,
    /// Who the server is to its primary.
    #[arg(
        long,
        alias = "primaryuser",
        default_value = "",
        hide_default_value = true,
        env = "NUNATAK_MASTERUSER"
    )]
    pub masteruser: String,
    /// The password that the primary wants.
    #[arg(
        long,
        alias = "primaryauth",
        default_value = "",
        hide_default_value = true,
        env = "NUNATAK_MASTERAUTH",
        hide_env_values = true
    )]
    pub masterauth: String,
    /// Whether a replica refuses changes of clients: `yes` or `no`.
    #[arg(long, alias = "slave-read-only", default_value = "yes", action = ArgAction::Set, env = "NUNATAK_REPLICA_READ_ONLY", value_parser = BoolishValueParser::new())]
    pub replica_read_only: bool,
    /// Whether a replica serves what it has while the link to its primary is down: `yes` or `no`.
    #[arg(long, alias = "slave-serve-stale-data", default_value = "yes", action = ArgAction::Set, env = "NUNATAK_REPLICA_SERVE_STALE_DATA", value_parser = BoolishValueParser::new())]
    pub replica_serve_stale_data: bool,
    /// After how many seconds of silence the link to the primary is lost.
    #[arg(long, default_value_t = 60, env = "NUNATAK_REPL_TIMEOUT", value_parser = clap::value_parser!(u32).range(1..))]
    pub repl_timeout: u32,
    /// Which replica Redis Sentinel prefers: the one with the lowest number; 0 is never promoted.
    #[arg(long, alias = "slave-priority", default_value_t = 100, env = "NUNATAK_REPLICA_PRIORITY")]
    pub replica_priority: u32,
    /// Whether the link to the primary is encrypted by TLS: `yes` or `no`. The primary's certificate must come
    /// from an authority of --tls-ca-cert-file; the server shows that of --tls-cert-file, if there is one.
    #[arg(long, default_value = "no", action = ArgAction::Set, env = "NUNATAK_TLS_REPLICATION", value_parser = BoolishValueParser::new())]
    pub tls_replication: bool,
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

fn primary(text: &str) -> Result<String, String> {
    match Target::parse(text) {
        Some(target) => Ok(format!("{} {}", target.host, target.port)),
        None => Err("a host and a port, with a space between".into()),
    }
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
    /// Whether new users may use all channels.
    pub(crate) fn opens_channels(&self) -> bool {
        self.acl_pubsub_default == CHANNELS[0]
    }

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

    /// Whether every client of the metrics and the dashboard has shown a certificate.
    pub(crate) fn knows_readers(&self) -> bool {
        self.http_tls && self.auth_clients() == AuthClients::Yes
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
    fn a_primary_is_named_in_a_file() {
        for line in ["replicaof 10.0.0.1  6379", "slaveof 10.0.0.1 6379"] {
            let flags = Config::flags_of(line).unwrap();
            let config = Config::parse_from(["".to_string()].into_iter().chain(flags));
            assert_eq!(config.replicaof.as_deref(), Some("10.0.0.1 6379"));
        }
        assert!(Config::try_parse_from(["", "--replicaof=here"]).is_err());
        let config = Config::parse_from(["", "--primaryauth=a", "--slave-read-only=no"]);
        assert_eq!((config.masterauth.as_str(), config.replica_read_only), ("a", false));
    }

    #[test]
    fn policies_have_their_numbers() {
        for (number, policy) in POLICIES.into_iter().enumerate() {
            assert_eq!(policy as usize, number);
        }
    }
}
