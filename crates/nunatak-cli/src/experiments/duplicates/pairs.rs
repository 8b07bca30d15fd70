//! Pairs with duplicate keys: power-law graphs, zipfian pairs, edge lists in files.

use crate::keys::Random;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::str::FromStr;

/// A source of pairs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A generated graph with the nodes and edges of a graph of the paper's table 2.
    Graph(Graph),
    /// Keys drawn with this skew from as many keys as there are pairs.
    Zipf(f64),
    /// An edge list in the format of SNAP: two numbers a line, comments after `#`.
    File(PathBuf),
}

/// Nodes and edges of a graph in table 2 of Pea Hash (SIGMOD '23).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Graph {
    name: &'static str,
    nodes: u64,
    edges: u64,
}

const GRAPHS: [Graph; 4] = [
    Graph { name: "wiki-talk", nodes: 2_394_385, edges: 5_021_410 },
    Graph { name: "cit-patents", nodes: 3_774_768, edges: 16_518_948 },
    Graph { name: "livejournal", nodes: 4_847_571, edges: 68_993_773 },
    Graph { name: "orkut", nodes: 3_072_441, edges: 117_185_083 },
];

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(&graph) = GRAPHS.iter().find(|graph| graph.name == text) {
            return Ok(Self::Graph(graph));
        }
        if let Some(skew) = text.strip_prefix("zipf-") {
            let skew: f64 = skew.parse().map_err(|_| format!("{skew} is not a skew"))?;
            if !(0.0..1.0).contains(&skew) {
                return Err("a skew is from 0 to below 1".into());
            }
            return Ok(Self::Zipf(skew));
        }
        let path = PathBuf::from(text);
        if path.is_file() {
            return Ok(Self::File(path));
        }
        let names: Vec<&str> = GRAPHS.iter().map(|graph| graph.name).collect();
        Err(format!("neither a file nor one of {}, zipf-0.5 and the like", names.join(", ")))
    }
}

/// Returns the text, if it names a source.
pub(in crate::experiments) fn checked(text: &str) -> Result<String, String> {
    text.parse().map(|_: Source| text.to_owned())
}

impl Source {
    /// Returns the pairs: the part `scale` of a graph, or `count` pairs of a distribution.
    pub(super) fn pairs(&self, scale: f64, count: u64) -> Result<Vec<(u64, u64)>, String> {
        match self {
            Self::Graph(graph) => {
                let part = |all: u64| ((all as f64 * scale) as u64).max(2);
                Ok(rmat(part(graph.nodes), part(graph.edges)))
            }
            Self::Zipf(skew) => Ok(zipf(*skew, count)),
            Self::File(path) => {
                let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
                edges(BufReader::new(file))
            }
        }
    }
}

/// Generates a power-law graph by R-MAT (Chakrabarti et al., SDM '04) with the probabilities of
/// Graph500: 0.57, 0.19, 0.19, 0.05. A bijection scatters the numbers of the nodes, so the number
/// of a hub looks like any other.
fn rmat(nodes: u64, edges: u64) -> Vec<(u64, u64)> {
    let levels = nodes.next_power_of_two().ilog2();
    let mut random = Random::new(nodes ^ edges);
    let mut pairs = Vec::with_capacity(edges as usize);
    while (pairs.len() as u64) < edges {
        let (mut from, mut to) = (0, 0);
        for _ in 0..levels {
            let quadrant = random.below(100);
            let (down, right) = match quadrant {
                0..57 => (0, 0),
                57..76 => (0, 1),
                76..95 => (1, 0),
                _ => (1, 1),
            };
            (from, to) = (from << 1 | down, to << 1 | right);
        }
        if from < nodes && to < nodes {
            pairs.push((scattered(from), scattered(to)));
        }
    }
    pairs
}

/// Permutes numbers of 32 bits.
fn scattered(node: u64) -> u64 {
    u64::from((node as u32).wrapping_mul(0x9E37_79B1))
}

/// Draws keys by the continuous distribution (Gray et al., SIGMOD '94).
fn zipf(skew: f64, count: u64) -> Vec<(u64, u64)> {
    let mut random = Random::new(count);
    let pair = |value| {
        let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = (uniform.powf(1.0 / (1.0 - skew)) * count as f64) as u64;
        (rank.wrapping_mul(0x9E37_79B9_7F4A_7C15), value)
    };
    (0..count).map(pair).collect()
}

fn edges(lines: impl BufRead) -> Result<Vec<(u64, u64)>, String> {
    let mut pairs = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line.map_err(|error| error.to_string())?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut nodes = line.split_whitespace().map(str::parse);
        match (nodes.next(), nodes.next()) {
            (Some(Ok(from)), Some(Ok(to))) => pairs.push((from, to)),
            _ => return Err(format!("line {}: not an edge: {line}", number + 1)),
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn degrees(pairs: &[(u64, u64)]) -> Vec<usize> {
        let mut degrees: HashMap<u64, usize> = HashMap::new();
        pairs.iter().for_each(|(from, _)| *degrees.entry(*from).or_default() += 1);
        let mut degrees: Vec<usize> = degrees.into_values().collect();
        degrees.sort_unstable_by_key(|&degree| std::cmp::Reverse(degree));
        degrees
    }

    #[test]
    fn graphs_have_hubs_and_many_nodes_of_one_edge() {
        let pairs = rmat(20_000, 100_000);
        assert_eq!(pairs.len(), 100_000);
        let degrees = degrees(&pairs);
        assert!(degrees.len() < 20_000 && degrees[0] > 500, "{}", degrees[0]);
        assert!(degrees.iter().filter(|&&degree| degree == 1).count() > 1000);
    }

    #[test]
    fn skew_makes_some_keys_popular() {
        let top = [0.0, 0.8].map(|skew| degrees(&zipf(skew, 100_000))[0]);
        assert!(top[0] < 12 && top[1] > 5000, "{top:?}");
    }

    #[test]
    fn edge_lists_are_read() {
        let text = "# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t11\n\n11 5\n";
        assert_eq!(edges(text.as_bytes()), Ok(vec![(0, 11), (11, 5)]));
        assert!(edges("1 2\n3\n".as_bytes()).is_err_and(|error| error.contains("line 2")));
        assert!("nonsense".parse::<Source>().is_err() && "zipf-1.5".parse::<Source>().is_err());
        assert_eq!("zipf-0.8".parse(), Ok(Source::Zipf(0.8)));
    }
}
