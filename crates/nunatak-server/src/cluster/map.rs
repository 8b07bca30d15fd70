//! The map of slots: a file that says which node has which slots, and where it listens.
//!
//! ```text
//! # node   address          slots
//! alpha    127.0.0.1:7000   0-5460
//! beta     127.0.0.1:7001   5461-10922 16000
//! gamma    10.0.0.7:7002    10923-15999 16001-16383
//! moving   0-99 alpha beta
//! ```
//!
//! The last line: the keys of these slots move from one node to the other.

use super::slot::SLOTS;
use std::fmt;
use std::ops::RangeInclusive;

/// The longest name of a node, so that its id can be made of it.
const MOST_NAME: usize = 20;

/// The word that begins a line about slots whose keys move.
const MOVING: &str = "moving";

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Node {
    /// Returns the id that clients see: 40 hexadecimal digits, as Redis's have.
    pub(crate) fn id(&self) -> String {
        let digits: String = self.name.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits:0<40}")
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.id() == name
    }

    /// Returns the address as it is in the file and in redirections.
    pub(crate) fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Who has a slot, by the nodes' places in the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) owner: Option<u16>,
    /// Where the slot's keys move to.
    pub(crate) target: Option<u16>,
}

/// All nodes and slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotMap {
    /// Comments, which precede the nodes.
    comments: Vec<String>,
    pub(crate) nodes: Vec<Node>,
    /// By slot.
    pub(crate) places: Vec<Place>,
}

/// What is wrong with a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapError {
    line: usize,
    why: String,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for MapError {}

/// Parses `7` or `7-9`.
pub(crate) fn parse_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last && last < SLOTS => Ok(first..=last),
        _ => Err(format!("`{text}` is no range of slots from 0 to {}", SLOTS - 1)),
    }
}

fn parse_node(name: &str, address: &str) -> Result<Node, String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.len() > MOST_NAME || !name.bytes().all(is_fine) {
        return Err(format!(
            "`{name}`: a name has up to {MOST_NAME} letters, digits, `-`, `_`, `.`"
        ));
    }
    let wrong = || format!("`{address}` is no address and port");
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match port.parse() {
        Ok(port) if port > 0 && !host.is_empty() => {
            Ok(Node { name: name.into(), host: host.into(), port })
        }
        _ => Err(wrong()),
    }
}

impl SlotMap {
    /// Makes a map in which each node has an equal part of the slots.
    pub(crate) fn even(nodes: Vec<Node>) -> Self {
        let count = nodes.len().max(1);
        let owner = |slot| Some((slot * count / SLOTS) as u16).filter(|_| !nodes.is_empty());
        let places = (0..SLOTS).map(|slot| Place { owner: owner(slot), target: None }).collect();
        Self { comments: vec!["# node, address, slots".into()], nodes, places }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, MapError> {
        let mut map =
            Self { comments: Vec::new(), nodes: Vec::new(), places: vec![Place::default(); SLOTS] };
        // After all nodes: a line about moving slots may precede theirs.
        let mut moving = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |why| MapError { line: number + 1, why };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => map.comments.push(line.into()),
                [MOVING, ..] => moving.push((number, words)),
                [_] => return Err(wrong(format!("`{line}` has no address"))),
                [name, address, ref slots @ ..] => map.add(name, address, slots).map_err(wrong)?,
            }
        }
        for (number, words) in moving {
            let wrong = |why| MapError { line: number + 1, why };
            let [_, slots, from, to] = words[..] else {
                return Err(wrong("write `moving FIRST-LAST FROM TO`".into()));
            };
            map.note_moving(slots, from, to).map_err(wrong)?;
        }
        Ok(map)
    }

    fn add(&mut self, name: &str, address: &str, slots: &[&str]) -> Result<(), String> {
        let node = parse_node(name, address)?;
        if self.find(name).is_some() {
            return Err(format!("there are two nodes `{name}`"));
        }
        if self.nodes.iter().any(|other| other.address() == node.address()) {
            return Err(format!("two nodes have the address {address}"));
        }
        let number = self.nodes.len() as u16;
        self.nodes.push(node);
        for range in slots {
            for slot in parse_range(range)? {
                if self.places[slot].owner.replace(number).is_some() {
                    return Err(format!("slot {slot} has two owners"));
                }
            }
        }
        Ok(())
    }

    fn note_moving(&mut self, slots: &str, from: &str, to: &str) -> Result<(), String> {
        let find = |name: &str| self.find(name).ok_or_else(|| format!("there is no node `{name}`"));
        let (from, to) = (find(from)?, find(to)?);
        for slot in parse_range(slots)? {
            if self.places[slot].owner != Some(from) || from == to {
                return Err(format!("slot {slot} can't move there"));
            }
            self.places[slot].target = Some(to);
        }
        Ok(())
    }

    /// Returns the place of the node that has this name or id.
    pub(crate) fn find(&self, name: &str) -> Option<u16> {
        self.nodes.iter().position(|node| node.is_named(name)).map(|at| at as u16)
    }

    /// Returns the runs of slots that are alike.
    pub(crate) fn runs(&self) -> Vec<(RangeInclusive<usize>, Place)> {
        runs(&self.places)
    }

    /// Returns the slots of a node, as ranges.
    pub(crate) fn slots_of(&self, node: u16) -> Vec<RangeInclusive<usize>> {
        let owners: Vec<Option<u16>> = self.places.iter().map(|place| place.owner).collect();
        runs(&owners).into_iter().filter(|run| run.1 == Some(node)).map(|run| run.0).collect()
    }
}

/// Writes `7` or `7-9`.
pub(crate) fn show_range(range: &RangeInclusive<usize>) -> String {
    match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}-{}", range.start(), range.end()),
    }
}

fn runs<T: Copy + PartialEq>(all: &[T]) -> Vec<(RangeInclusive<usize>, T)> {
    let mut runs = Vec::new();
    let mut first = 0;
    for run in all.chunk_by(|a, b| a == b) {
        runs.push((first..=first + run.len() - 1, run[0]));
        first += run.len();
    }
    runs
}

impl fmt::Display for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.comments.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        for (number, node) in self.nodes.iter().enumerate() {
            write!(f, "{} {}", node.name, node.address())?;
            for range in self.slots_of(number as u16) {
                write!(f, " {}", show_range(&range))?;
            }
            writeln!(f)?;
        }
        for (range, place) in self.runs() {
            if let (Some(from), Some(to)) = (place.owner, place.target) {
                let name = |node: u16| &self.nodes[usize::from(node)].name;
                writeln!(f, "{MOVING} {} {} {}", show_range(&range), name(from), name(to))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
# two machines
alpha 127.0.0.1:7000 0-5460
beta [::1]:7001 5461-10922 16000
gamma host.example:7002 10923-15998 16001-16383
moving 0-99 alpha beta
moving 100 alpha gamma
";

    #[test]
    fn maps_are_read_as_they_are_written() {
        let map = SlotMap::parse(MAP).unwrap();
        assert_eq!(map.to_string(), MAP);
        assert_eq!(map.places[15_999], Place::default());
        assert_eq!(map.places[100], Place { owner: Some(0), target: Some(2) });
        assert_eq!(map.nodes[1].address(), "[::1]:7001");
        assert_eq!(map.nodes[0].id().len(), 40);
        assert_eq!(map.find(&map.nodes[2].id()), Some(2));
        let even = SlotMap::even(map.nodes.clone());
        let lens: Vec<usize> = (0..3).map(|node| even.slots_of(node)[0].clone().count()).collect();
        assert_eq!(lens.iter().sum::<usize>(), SLOTS);
        assert!(lens.iter().all(|len| (5461..=5462).contains(len)));
        assert_eq!(SlotMap::parse(&even.to_string()).unwrap(), even);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            ("alpha", "line 1: `alpha` has no address"),
            ("alpha nowhere", "line 1: `nowhere` is no address and port"),
            ("alpha a:0", "line 1: `a:0` is no address and port"),
            ("alpha a:1 9-8", "line 1: `9-8` is no range of slots from 0 to 16383"),
            ("alpha a:1 16384", "line 1: `16384` is no range of slots from 0 to 16383"),
            ("alpha a:1 0-9\nbeta a:2 9", "line 2: slot 9 has two owners"),
            ("alpha a:1\nalpha a:2", "line 2: there are two nodes `alpha`"),
            ("alpha a:1\nbeta a:1", "line 2: two nodes have the address a:1"),
            ("moving 1 a b\nb x:1", "line 1: there is no node `a`"),
            ("a x:1\nb x:2\nmoving 1 a b", "line 3: slot 1 can't move there"),
            ("a x:1 1\nmoving 1 a a", "line 2: slot 1 can't move there"),
            ("moving 1", "line 1: write `moving FIRST-LAST FROM TO`"),
        ];
        for (text, error) in cases {
            assert_eq!(SlotMap::parse(text).unwrap_err().to_string(), error);
        }
        assert!(SlotMap::parse("a/b x:1").is_err());
        assert!(SlotMap::parse(&format!("{} x:1", "a".repeat(21))).is_err());
    }
}
