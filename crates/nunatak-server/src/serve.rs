//! Servers: made of a configuration, run until they are stopped.

use crate::acl::Acl;
use crate::cluster::Cluster;
use crate::cluster::manage::ClusterCommand;
use crate::config::Config;
use crate::event::janitor;
use crate::event::listeners::{Listeners, TlsListener};
use crate::event::worker::Worker;
use crate::http::{Access, Content, Endpoint};
use crate::replica::Target;
use crate::replica::link::Link;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::store::Store;
#[cfg(target_os = "linux")]
use crate::store::databases;
#[cfg(target_os = "linux")]
use crate::store::file::FileError;
use crate::store::space::Space;
use crate::tls::Tls;
use clap::Parser;
use mio::net::{TcpListener, UnixListener};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::{fmt, io, thread};

/// Why a server can't be made, or has ended.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::{Config, Server};
/// let config = Config::parse_from(["", "--bind=0.0.0.0", "--port=0"]);
/// let error = Server::bind(config).unwrap_err();
/// assert!(error.to_string().contains("--requirepass"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The address to listen on is none.
    Address(String),
    /// The address is reached by other machines, and clients need neither a password nor a certificate.
    Unprotected(IpAddr),
    /// The metrics or the dashboard are reached by other machines at this address, and clients need neither a
    /// password nor a certificate.
    Readable(SocketAddr),
    /// The first option needs the second one.
    Missing(&'static str, &'static str),
    /// There is neither a port nor a Unix socket to listen on.
    Nowhere,
    /// A file with certificates or a key can't be used, for this reason.
    Tls(PathBuf, String),
    /// The users that the options or the file define can't be used, for this reason.
    Users(String),
    /// The system refused something.
    Io(&'static str, io::Error),
    /// The file with the data can't be opened.
    Data(PathBuf, nunatak::Error),
    /// The log beside the file can't be used: the text says why.
    Log(PathBuf, String),
    /// The map of slots can't be used: the text says why.
    Map(PathBuf, String),
    /// The file has more databases than were asked for: so many.
    Databases(PathBuf, usize),
    /// Files of maps need Linux.
    NoFiles,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(f, "`{text}` is no address of this machine"),
            Self::Unprotected(address) => {
                write!(
                    f,
                    "other machines reach {address}: set a password with --requirepass first, or \
                     let in only clients with certificates: --port off, --tls-auth-clients yes"
                )
            }
            Self::Readable(address) => {
                write!(
                    f,
                    "other machines reach {address}: set a password with --requirepass first, or \
                     let in only clients with certificates: --http-tls yes, --tls-auth-clients yes"
                )
            }
            Self::Missing(option, needs) => write!(f, "{option} needs {needs}"),
            Self::Nowhere => {
                write!(f, "no client could connect: set --port, --tls-port or --unixsocket")
            }
            Self::Tls(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Users(why) => write!(f, "the users: {why}"),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Data(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Log(path, why) => write!(f, "the log of {}: {why}", path.display()),
            Self::Map(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Databases(path, count) => write!(
                f,
                "{} has {count} databases: set --databases to that at least (a node of a cluster has one)",
                path.display()
            ),
            Self::NoFiles => write!(f, "--file needs Linux"),
        }
    }
}

impl std::error::Error for ServeError {}

/// A server that listens.
///
/// See [the crate](crate) for an example.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    address: Option<SocketAddr>,
    tls_address: Option<SocketAddr>,
    pins: bool,
    unix: Option<PathBuf>,
    metrics_address: Option<SocketAddr>,
    dashboard_address: Option<SocketAddr>,
    endpoints: Vec<Endpoint>,
    link: Link,
}

/// Stops a server.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::{Config, Server};
/// let server = Server::bind(Config::parse_from(["", "--port=0", "--threads=1"]))?;
/// server.stopper().stop();
/// server.run()?; // returns at once
/// # Ok::<(), nunatak_server::ServeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stopper {
    /// No more than a name: the server's data are closed when it ends.
    shared: Weak<Shared>,
}

impl Stopper {
    /// Makes [`Server::run`] return, after the commands that are being run.
    ///
    /// See [`Stopper`] for an example.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.stop();
        }
    }
}

/// Stops a server when it is dropped.
struct StopAll<'s>(&'s Shared);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |error| ServeError::Io(what, error)
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let socket = TcpListener::bind(address).map_err(io_error("can't listen on the port"))?;
    let address = socket.local_addr().map_err(io_error("the socket has no address"))?;
    Ok((socket, address))
}

#[cfg(target_os = "linux")]
fn refused(path: &std::path::Path, error: FileError) -> ServeError {
    match error {
        FileError::Map(error) => ServeError::Data(path.into(), error),
        FileError::Log(error) => ServeError::Log(path.into(), error.to_string()),
    }
}

/// Closes the data of a server that has ended.
#[cfg(target_os = "linux")]
fn close(shared: Arc<Shared>) -> Result<(), ServeError> {
    let file = shared.settings.file.clone().unwrap_or_default();
    match Arc::into_inner(shared) {
        Some(shared) => {
            let closed = shared.store.close();
            closed.map_err(|(db, error)| refused(&databases::path_of(&file, db), error))
        }
        // Somebody is stopping the server a second time, and closes the file afterwards.
        None => Ok(()),
    }
}

/// There is nothing to close in RAM.
#[cfg(not(target_os = "linux"))]
fn close(_: Arc<Shared>) -> Result<(), ServeError> {
    Ok(())
}

/// Opens the data.
fn open(config: &Config) -> Result<Vec<Space>, ServeError> {
    // The nodes of a cluster have one database.
    let asked = if config.cluster_map.is_some() { 1 } else { usize::from(config.databases) };
    let Some(path) = &config.file else {
        return Ok((0..asked).map(|_| Space::in_ram()).collect());
    };
    #[cfg(target_os = "linux")]
    {
        let found =
            databases::count(path).map_err(io_error("can't read the folder of the file"))?;
        if asked < found {
            return Err(ServeError::Databases(path.clone(), found));
        }
        let open = |db| {
            let (path, durability) = (databases::path_of(path, db), config.durability);
            if db > 0 && path.symlink_metadata().is_err() {
                return Ok(Space::in_later_file(path, durability));
            }
            Space::in_file(&path, durability).map_err(|error| refused(&path, error))
        };
        (0..asked).map(open).collect()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        Err(ServeError::NoFiles)
    }
}

/// Reads the map of slots, in cluster mode.
fn cluster(config: &Config) -> Result<Option<Cluster>, ServeError> {
    let (Some(path), Some(name)) = (&config.cluster_map, &config.cluster_node) else {
        return Ok(None);
    };
    let cluster = Cluster::new(path, name);
    cluster.map(Some).map_err(|error| ServeError::Map(path.clone(), error.to_string()))
}

impl Server {
    /// Opens the data and listens. Clients that connect wait for [`run`](Self::run).
    ///
    /// # Errors
    /// If other machines could reach the address without a password or a certificate, a certificate, a key
    /// or the users can't be used, the address is taken, or the file can't be opened.
    ///
    /// See [the crate](crate) for an example.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        let ip: IpAddr = match config.bind.as_str() {
            "localhost" => IpAddr::from([127, 0, 0, 1]),
            text => text.parse().map_err(|_| ServeError::Address(text.into()))?,
        };
        let (port, tls_port) = (config.port.number(), config.tls_port.number());
        if port.is_none() && tls_port.is_none() && config.unixsocket.is_none() {
            return Err(ServeError::Nowhere);
        }
        let acl = Acl::new(&config).map_err(ServeError::Users)?;
        let is_reached = !ip.is_loopback() && (port.is_some() || tls_port.is_some());
        if is_reached && acl.default_user().is_open() && !config.knows_clients() {
            return Err(ServeError::Unprotected(ip));
        }
        for address in [config.metrics_address, config.dashboard].into_iter().flatten() {
            let is_reached = !address.ip().is_loopback() && !config.knows_readers();
            if is_reached && acl.default_user().is_open() {
                return Err(ServeError::Readable(address));
            }
        }
        let tls = Tls::configure(&config)?;
        let http_tls = tls.server.clone().filter(|_| config.http_tls);
        let access = Access { tls: http_tls, knows_clients: config.knows_readers() };
        let tcp = port.map(|port| listen(SocketAddr::new(ip, port))).transpose()?;
        let secure = tls.server.zip(tls_port).map(|(config, port)| {
            let (socket, address) = listen(SocketAddr::new(ip, port))?;
            Ok((TlsListener { socket, config }, address))
        });
        let (tcp, address) = tcp.unzip();
        let (secure, tls_address) = secure.transpose()?.unzip();
        let unix = config.unixsocket.as_ref().map(UnixListener::bind).transpose();
        let unix = unix.map_err(io_error("can't listen on the Unix socket"))?;
        let cluster = cluster(&config)?;
        let spaces = open(&config)?;
        let threads = match config.threads {
            Some(threads) => threads,
            None => thread::available_parallelism().map_or(1, usize::from),
        };
        let ports = [address, tls_address].map(|it| it.map_or(0, |address| address.port()));
        let settings = Settings::new(&config, ports.into(), threads, spaces.len());
        let seed = crate::sample::random_below(usize::MAX) as u64;
        let store = Store::new(spaces, seed).map_err(|(db, error)| {
            let path = config.file.clone().unwrap_or_default();
            ServeError::Data(databases::path_of(&path, db), error)
        })?;
        let primary = config.replicaof.as_deref().and_then(Target::parse);
        let shared = Arc::new(Shared::new(
            store,
            settings,
            acl,
            (cluster, tls.nodes, tls.certificate),
            primary,
        ));
        let link = Link::new(&shared, tls.primary);
        let link = link.map_err(io_error("can't make the thread of a replica"))?;
        let workers: io::Result<Vec<Worker>> =
            (0..threads).map(|_| Worker::new(Arc::clone(&shared))).collect();
        let mut workers = workers.map_err(io_error("can't make a thread's poll"))?;
        let inboxes = workers.iter().map(Worker::inbox).collect();
        workers[0]
            .listen(Listeners { tcp, tls: secure, unix }, inboxes)
            .map_err(io_error("can't wait for connections"))?;
        let mut endpoints = Vec::new();
        let mut serve = |address: Option<SocketAddr>, content: Content, what| {
            let Some(address) = address else { return Ok(None) };
            let content = (content, access.clone());
            let endpoint = Endpoint::bind(address, Arc::clone(&shared), content);
            let endpoint = endpoint.map_err(io_error(what))?;
            let address = endpoint.address();
            endpoints.push(endpoint);
            Ok(Some(address))
        };
        let (wanted, content) = (config.metrics_address, Content::default().with_metrics(&shared));
        let failure = "can't listen for metrics";
        let (metrics_address, dashboard_address) = if wanted == config.dashboard {
            let both = serve(wanted, content.with_dashboard(&shared), failure)?;
            (both, both)
        } else {
            let page = Content::default().with_dashboard(&shared);
            let metrics = serve(wanted, content, failure)?;
            (metrics, serve(config.dashboard, page, "can't listen for the dashboard")?)
        };
        let (pins, unix) = (config.pin, config.unixsocket);
        Ok(Self {
            shared,
            workers,
            address,
            tls_address,
            pins,
            unix,
            metrics_address,
            dashboard_address,
            endpoints,
            link,
        })
    }

    /// Returns the address that clients connect to without TLS, unless the port is off.
    ///
    /// See [the crate](crate) for an example.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the address that clients connect to with TLS, if it is on.
    ///
    /// ```
    /// use clap::Parser;
    /// use nunatak_server::{Config, Server};
    /// let server = Server::bind(Config::parse_from(["", "--port=any", "--threads=1"]))?;
    /// assert_eq!(server.tls_address(), None);
    /// # Ok::<(), nunatak_server::ServeError>(())
    /// ```
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Returns the address of the metrics, if there are any.
    ///
    /// ```
    /// use clap::Parser;
    /// use nunatak_server::{Config, Server};
    /// let flags = ["", "--port=0", "--threads=1", "--metrics-address=127.0.0.1:0"];
    /// let server = Server::bind(Config::parse_from(flags))?;
    /// assert_ne!(server.metrics_address().unwrap().port(), 0);
    /// # Ok::<(), nunatak_server::ServeError>(())
    /// ```
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Returns the address of the dashboard, if there is one.
    ///
    /// ```
    /// use clap::Parser;
    /// use nunatak_server::{Config, Server};
    /// let flags = ["", "--port=0", "--threads=1", "--dashboard=127.0.0.1:0"];
    /// let server = Server::bind(Config::parse_from(flags))?;
    /// assert_ne!(server.dashboard_address().unwrap().port(), 0);
    /// # Ok::<(), nunatak_server::ServeError>(())
    /// ```
    pub fn dashboard_address(&self) -> Option<SocketAddr> {
        self.dashboard_address
    }

    /// Returns what stops this server.
    ///
    /// See [`Stopper`] for an example.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::downgrade(&self.shared) }
    }

    /// Serves until the server is stopped. Then all changes are made durable and the file is closed, if
    /// there is one.
    ///
    /// # Errors
    /// If the system refuses to wait for events, or the file can't be closed.
    ///
    /// See [the crate](crate) for an example.
    pub fn run(self) -> Result<(), ServeError> {
        let Self { shared, workers, pins, unix, endpoints, mut link, .. } = self;
        let served = thread::scope(|scope| {
            let janitor = scope.spawn(|| janitor::run(&shared));
            let following = scope.spawn(|| {
                // A panic ends the server: it would be a replica that falls behind.
                let _stop = StopAll(&shared);
                link.run();
                // It has the shared data, which are closed in the end.
                drop(link);
            });
            let answer = |mut endpoint: Endpoint| {
                scope.spawn(move || {
                    if let Err(error) = endpoint.run() {
                        tell!("nothing answers at {} any more: {error}", endpoint.address());
                    }
                })
            };
            let answering: Vec<_> = endpoints.into_iter().map(answer).collect();
            let cores = core_affinity::get_core_ids().unwrap_or_default();
            let serve = |(number, mut worker): (usize, Worker)| {
                let core = cores.get(number % cores.len().max(1)).copied().filter(|_| pins);
                let shared = &shared;
                scope.spawn(move || {
                    if let Some(core) = core {
                        core_affinity::set_for_current(core);
                    }
                    // A thread that ends, or panics, ends the others.
                    let _stop = StopAll(shared);
                    worker.run()
                })
            };
            let threads: Vec<_> = workers.into_iter().enumerate().map(serve).collect();
            let mut served = Ok(());
            for thread in threads {
                match thread.join() {
                    Ok(result) => served = served.and(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            // It only ends.
            let _ = janitor.join();
            if let Err(panic) = following.join() {
                std::panic::resume_unwind(panic);
            }
            // A panic there has told its reason, and does not end the server.
            answering.into_iter().for_each(|thread| drop(thread.join()));
            served
        });
        if let Some(path) = unix {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(path);
        }
        served.map_err(io_error("can't wait for events"))?;
        close(shared)
    }
}

/// Runs a server as the command does: with options of the command line, the environment and the file
/// that `--config` names. Ends when the process gets SIGINT or SIGTERM. If the first argument behind the program's name is
/// `cluster`, does what [`ClusterCommand`] says instead.
///
/// ```no_run
/// std::process::exit(match nunatak_server::main(["nunatak-server".into()]) {
///     code if code == std::process::ExitCode::SUCCESS => 0,
///     _ => 1,
/// });
/// ```
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let done = match args.get(1) {
        Some(first) if first == "cluster" => ClusterArgs::parse_from(&args[1..]).command.run(),
        _ => run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Looks after a cluster of servers.
#[derive(Debug, Parser)]
#[command(bin_name = "nunatak-server cluster")]
struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

/// Adds the options of the file that `--config` names, unless they are given already.
fn with_file(args: &[OsString]) -> Result<Vec<OsString>, Box<dyn std::error::Error>> {
    let mut all = args.to_vec();
    let Some(path) = Config::parse_from(args).config else { return Ok(all) };
    let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| named(&error))?;
    let flags = Config::flags_of(&text).map_err(|error| named(&error))?;
    let is_given = |flag: &str| {
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        args.iter().any(|arg| name(&arg.to_string_lossy()) == name(flag))
    };
    all.extend(flags.into_iter().filter(|flag| !is_given(flag)).map(OsString::from));
    Ok(all)
}

fn run(args: Vec<OsString>) -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::parse_from(with_file(&args)?);
    let http_tls = config.http_tls;
    let server = Server::bind(config)?;
    let stopper = server.stopper();
    let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    for (address, how) in [(server.address(), ""), (server.tls_address(), " by TLS")] {
        if let Some(address) = address {
            tell!("ready{how} at {address}");
        }
    }
    if let Some(path) = &server.unix {
        tell!("ready at {}", path.display());
    }
    if let Some(address) = server.dashboard_address() {
        tell!("the dashboard is at {}://{address}/", if http_tls { "https" } else { "http" });
    }
    server.run()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::stripes::Stripes;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    /// A read waits for the end of a change of several keys, alone and in a window; a read of several
    /// keys waits for any change.
    #[test]
    fn readers_wait_for_the_end_of_a_change() {
        let server = Server::bind(Config::parse_from(["", "--port=0", "--threads=1"])).unwrap();
        let (address, stopper) = (server.address().unwrap(), server.stopper());
        let shared = Arc::clone(&server.shared);
        let serving = thread::spawn(move || server.run());
        let mut client = TcpStream::connect(address).unwrap();
        let (get, mget) = ("GET a\r\n", "MGET a b\r\n");
        for (request, many, waits) in [
            (get.to_string(), true, true),
            (get.repeat(8), true, true),
            (get.repeat(8), false, false),
            (mget.to_string(), false, true),
            (mget.repeat(4), false, true),
            (mget.repeat(4), true, true),
        ] {
            let stripes = &shared.store.stripes;
            let stripe = Stripes::of(stripes.hash(0, b"a"));
            stripes.lock(stripe, many);
            client.write_all(request.as_bytes()).unwrap();
            client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut replies = [0; 1000];
            let is_late = client.read(&mut replies).is_err();
            stripes.unlock(stripe, true);
            assert_eq!(is_late, waits, "{request} {many}");
            if waits {
                client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                assert!(client.read(&mut replies).unwrap() > 0);
            }
        }
        stopper.stop();
        serving.join().unwrap().unwrap();
    }
}
