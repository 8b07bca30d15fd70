//! The file of earlier counts.

use std::collections::BTreeMap;
use traps::Cost;

/// By how much counts may exceed those of the file: hashes are drawn anew in each run, and the compiler's choices
/// change with the code round a map.
const TOLERANCE: f64 = 1.1;
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.tsv");
const HEADING: &str = "built for\tmap\toperation\tinstructions\tloads\tstores\n";

/// What a line of the file is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) built_for: String,
    pub(crate) map: String,
    pub(crate) operation: String,
}

/// A figure is not a number where nobody has counted it.
fn parse(figure: &str) -> f64 {
    if figure == "-" { f64::NAN } else { figure.parse().expect("a number") }
}

fn shown(figures: [f64; 3], between: &str) -> String {
    let shown =
        figures.map(|figure| if figure.is_nan() { "-".to_owned() } else { format!("{figure:.1}") });
    shown.join(between)
}

pub(crate) struct Recorded {
    file: BTreeMap<Line, [f64; 3]>,
    /// The counts of this run.
    counted: BTreeMap<Line, [f64; 3]>,
}

impl Recorded {
    pub(crate) fn read() -> Self {
        let lines = include_str!("../../../instructions.tsv").lines().skip(1).map(|text| {
            let fields: Vec<&str> = text.split('\t').collect();
            let [built_for, map, operation, figures @ ..] = &fields[..] else {
                panic!("not a line of counts: {text}");
            };
            let line = Line {
                built_for: (*built_for).to_owned(),
                map: (*map).to_owned(),
                operation: (*operation).to_owned(),
            };
            let figures: Vec<f64> = figures.iter().map(|figure| parse(figure)).collect();
            (line, figures.try_into().expect("three figures"))
        });
        Self { file: lines.collect(), counted: BTreeMap::new() }
    }

    pub(crate) fn print_heading() {
        println!("{:<16}{:<24}{:>24}{:>24}", "map", "operation", "instr. loads stores", "before");
    }

    /// Returns whether the file has a line whose counts are less than these.
    pub(crate) fn is_less_than(&self, line: &Line, now: Cost) -> bool {
        self.file.get(line).is_some_and(|before| {
            before.iter().zip(now.figures()).any(|(before, now)| now > before * TOLERANCE + 1.0)
        })
    }

    /// Prints the counts of a line beside those of the file, and keeps them.
    pub(crate) fn add(&mut self, line: Line, now: Cost) {
        let mark = if self.is_less_than(&line, now) { "  more than before" } else { "" };
        let before = self.file.get(&line).map_or("none".to_owned(), |before| shown(*before, " "));
        let now = now.figures();
        println!("{:<16}{:<24}{:>24}{before:>24}{mark}", line.map, line.operation, shown(now, " "));
        self.counted.insert(line, now);
    }

    pub(crate) fn write(&self) {
        let mut all = self.file.clone();
        all.extend(self.counted.clone());
        let lines = all.iter().map(|(Line { built_for, map, operation }, figures)| {
            format!("{built_for}\t{map}\t{operation}\t{}\n", shown(*figures, "\t"))
        });
        let text: String = std::iter::once(HEADING.to_owned()).chain(lines).collect();
        std::fs::write(PATH, text).expect("the file is written");
    }
}
