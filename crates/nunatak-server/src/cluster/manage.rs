//! The command of those who look after a cluster: makes maps, compares the nodes, moves slots.

use super::change_file;
use super::map::{Node, SlotMap, parse_range, show_range};
use crate::certificate::OwnCertificate;
use crate::protocol::client::{Answer, Connection, encode};
use crate::tls;
use clap::{Args, Subcommand};
use std::error::Error;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a node may take for a reply.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a node waits for another one while keys move, in milliseconds.
const MOVE: &str = "5000";

/// What to do with a cluster.
///
/// ```
/// use clap::Parser;
/// use nunatak_server::ClusterCommand;
/// #[derive(Parser)]
/// struct Command {
///     #[command(subcommand)]
///     command: ClusterCommand,
/// }
/// let directory = tempfile::tempdir()?;
/// let map = directory.path().join("map");
/// let path = map.display().to_string();
/// let nodes = ["alpha=127.0.0.1:7000", "beta=127.0.0.1:7001"];
/// Command::parse_from(["", "make", "--map", &path, nodes[0], nodes[1]]).command.run()?;
/// let text = std::fs::read_to_string(&map)?;
/// assert!(text.contains("alpha 127.0.0.1:7000 0-8191") && text.contains("8192-16383"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Subcommand)]
pub enum ClusterCommand {
    /// Make a map in which each node has an equal part of the slots.
    Make {
        /// The file, which must not exist.
        #[arg(long, value_name = "PATH")]
        map: PathBuf,
        /// The nodes, each as NAME=ADDRESS:PORT.
        #[arg(required = true, value_parser = node)]
        nodes: Vec<String>,
    },
    /// Ask all nodes which slots they have, and compare that with the map. Fails if they differ.
    Check(Reach),
    /// Move slots with their keys to another node, while clients go on.
    Move {
        /// How the nodes are reached.
        #[command(flatten)]
        reach: Reach,
        /// The slots, such as 7 or 0-99.
        #[arg(long, value_parser = slots, value_name = "FIRST-LAST")]
        slots: RangeInclusive<usize>,
        /// The node that gets them.
        #[arg(long, value_name = "NAME")]
        to: String,
        /// How many keys are locked at a time, at least, while they move.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        batch: u32,
    },
}

/// How the nodes are reached.
#[derive(Debug, Clone, Args)]
pub struct Reach {
    /// The map of slots.
    #[arg(long, value_name = "PATH")]
    pub map: PathBuf,
    /// The password of all nodes.
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "NUNATAK_REQUIREPASS",
        hide_env_values = true
    )]
    pub password: String,
    /// Connect by TLS.
    #[arg(long, requires = "cacert")]
    pub tls: bool,
    /// The authorities of the nodes' certificates.
    #[arg(long, value_name = "PATH", requires = "tls")]
    pub cacert: Option<PathBuf>,
    /// A certificate, if nodes need one of their clients.
    #[arg(long, value_name = "PATH", requires_all = ["tls", "key"])]
    pub cert: Option<PathBuf>,
    /// The private key of the certificate.
    #[arg(long, value_name = "PATH", requires = "cert")]
    pub key: Option<PathBuf>,
}

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn node(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, address)) => Ok(format!("{name} {address}")),
        None => Err("write NAME=ADDRESS:PORT".into()),
    }
}

fn slots(text: &str) -> Result<RangeInclusive<usize>, String> {
    parse_range(text)
}

impl ClusterCommand {
    /// Does it, and prints what was done.
    ///
    /// # Errors
    /// If the map can't be read or written, a node can't be reached or refuses, or the nodes differ from
    /// the map. A move that has failed is finished by the same command, given again.
    ///
    /// See [`ClusterCommand`] for an example.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Make { map, nodes } => make(map, nodes),
            Self::Check(reach) => check(reach),
            Self::Move { reach, slots, to, batch } => {
                move_slots(reach, slots, to, &batch.to_string())
            }
        }
    }
}

fn read(path: &Path) -> Done<SlotMap> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    Ok(SlotMap::parse(&text).map_err(|error| named(&error))?)
}

fn make(path: &Path, nodes: &[String]) -> Done {
    let parsed = SlotMap::parse(&nodes.join("\n")).map_err(|error| error.to_string())?;
    let map = SlotMap::even(parsed.nodes);
    let mut file = fs::File::create_new(path).map_err(|it| format!("{}: {it}", path.display()))?;
    io::Write::write_all(&mut file, map.to_string().as_bytes())?;
    file.sync_all()?;
    print!("{map}");
    Ok(())
}

impl Reach {
    fn connect(&self, node: &Node) -> Done<Connection> {
        let named = |error: io::Error| format!("{} at {}: {error}", node.name, node.address());
        let own = self.cert.as_deref().zip(self.key.as_deref());
        let own = own.map(|(cert, key)| OwnCertificate::read(cert, key)).transpose()?;
        let tls =
            self.cacert.as_deref().map(|ca_file| tls::client(ca_file, own.clone())).transpose()?;
        let connection = Connection::open(&node.host, node.port, PATIENCE, tls.as_ref());
        let mut connection = connection.map_err(named)?;
        if !self.password.is_empty() {
            connection.run(&[b"AUTH", self.password.as_bytes()]).map_err(named)?;
        }
        Ok(connection)
    }
}

/// Runs a command of words, and names the node in errors.
fn run(node: &Node, connection: &mut Connection, words: &[&str]) -> Done<Answer> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    connection.run(&words).map_err(|error| format!("{}: {error}", node.name).into())
}

fn check(reach: &Reach) -> Done {
    let map = read(&reach.map)?;
    let mut differ = Vec::new();
    for (number, node) in map.nodes.iter().enumerate() {
        let mut connection = reach.connect(node)?;
        let told = run(node, &mut connection, &["CLUSTER", "NODES"])?.text();
        let keys = run(node, &mut connection, &["DBSIZE"])?;
        let keys = if let Answer::Integer(keys) = keys { keys } else { 0 };
        let slots = map.slots_of(number as u16);
        let count: usize = slots.iter().map(|range| range.clone().count()).sum();
        println!("{:<20} {:<24} {count:>6} slots {keys:>12} keys", node.name, node.address());
        let wanted: Vec<String> = slots.iter().map(show_range).collect();
        let mine = told.lines().find(|line| line.contains("myself")).unwrap_or_default();
        let words: Vec<&str> = mine.split(' ').collect();
        let has = words.iter().skip(8).filter(|word| !word.starts_with('['));
        if words.first().is_none_or(|id| *id != node.id()) || !has.eq(&wanted) {
            differ.push(node.name.clone());
        }
    }
    let owned = map.places.iter().filter(|place| place.owner.is_some()).count();
    if owned < map.places.len() {
        println!("{} slots have no node", map.places.len() - owned);
    }
    let moving = map.places.iter().filter(|place| place.target.is_some()).count();
    if moving > 0 {
        println!("{moving} slots are moving");
    }
    match differ.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("these nodes have other slots than the map: {}", differ.join(", ")).into())
        }
    }
}

/// Moves slots. Each step may be repeated, so a move that was interrupted is finished by another one.
fn move_slots(reach: &Reach, slots: &RangeInclusive<usize>, to: &str, batch: &str) -> Done {
    let map = read(&reach.map)?;
    let to = map.find(to).ok_or_else(|| format!("there is no node `{to}` in the map"))?;
    let target = &map.nodes[usize::from(to)];
    let mut moved = 0;
    for (range, place) in map.runs() {
        let first = *range.start().max(slots.start());
        let last = *range.end().min(slots.end());
        let Some(from) = place.owner.filter(|&from| from != to && first <= last) else { continue };
        let source = &map.nodes[usize::from(from)];
        println!("slots {} from {} to {}", show_range(&(first..=last)), source.name, target.name);
        let (first, last) = (first.to_string(), last.to_string());
        let range = ["CLUSTER", "SETSLOTRANGE", &first, &last];
        let mut at_target = reach.connect(target)?;
        let mut at_source = reach.connect(source)?;
        let set = |node: &Node, connection: &mut Connection, how: &[&str]| {
            run(node, connection, &[&range[..], how].concat())
        };
        set(target, &mut at_target, &["IMPORTING", &source.id()])?;
        set(source, &mut at_source, &["MIGRATING", &target.id()])?;
        moved += move_keys(reach, (source, &mut at_source), target, (&first, &last, batch))?;
        // First where the keys are: from now on a client that is sent there is served at once.
        set(target, &mut at_target, &["NODE", &target.id()])?;
        set(source, &mut at_source, &["NODE", &target.id()])?;
        for (number, node) in map.nodes.iter().enumerate() {
            if number != usize::from(from) && number != usize::from(to) {
                set(node, &mut reach.connect(node)?, &["NODE", &target.id()])?;
            }
        }
        // The nodes may have files of their own.
        change_file(&reach.map, |map| {
            let (first, last) = (first.parse().unwrap_or(0), last.parse().unwrap_or(0));
            for slot in first..=last {
                map.places[slot] = super::map::Place { owner: Some(to), target: None };
            }
            Ok(())
        })?;
    }
    println!("{moved} keys have moved");
    Ok(())
}

/// Moves the keys of slots that are leaving: no new ones are made at the source, so one walk is enough.
fn move_keys(
    reach: &Reach,
    (source, connection): (&Node, &mut Connection),
    target: &Node,
    (first, last, batch): (&str, &str, &str),
) -> Done<usize> {
    let (mut cursor, mut moved) = ("0".to_string(), 0);
    let port = target.port.to_string();
    loop {
        let scan = ["CLUSTER", "SCANSLOTS", first, last, &cursor, "COUNT", batch];
        let Answer::Array(parts) = run(source, connection, &scan)? else {
            return Err(format!("{}: CLUSTER SCANSLOTS returned no array", source.name).into());
        };
        let [next, Answer::Array(keys)] = &parts[..] else {
            return Err(format!("{}: CLUSTER SCANSLOTS returned no keys", source.name).into());
        };
        for keys in keys.chunks(batch.parse().unwrap_or(1)) {
            let mut words: Vec<&[u8]> = vec![
                b"MIGRATE",
                target.host.as_bytes(),
                port.as_bytes(),
                b"",
                b"0",
                MOVE.as_bytes(),
                b"REPLACE",
            ];
            if !reach.password.is_empty() {
                words.extend([b"AUTH", reach.password.as_bytes()]);
            }
            words.push(b"KEYS");
            words.extend(keys.iter().filter_map(|key| match key {
                Answer::Bulk(key) => Some(&key[..]),
                _ => None,
            }));
            let mut bytes = Vec::new();
            encode(&mut bytes, words.into_iter());
            connection.send(&bytes)?;
            match connection.read()? {
                Answer::Error(text) => return Err(format!("{}: {text}", source.name).into()),
                _ => moved += keys.len(),
            }
        }
        cursor = next.text();
        if cursor == "0" {
            return Ok(moved);
        }
    }
}
