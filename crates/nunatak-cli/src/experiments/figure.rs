//! What an experiment has found: a table of numbers by parameters.

use crate::report::number;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

/// A table of measured values, and what it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The experiment's name on the command line.
    pub(crate) experiment: String,
    /// What it is, and which figure of which paper.
    pub(crate) title: String,
    /// The names of what was varied.
    pub(crate) parameters: Vec<String>,
    /// The names of what was measured, with units.
    pub(crate) measures: Vec<String>,
    pub(crate) points: Vec<Point>,
    /// What is to be known about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The values of the parameters.
    pub(crate) at: Vec<String>,
    /// What was measured there; nothing where it does not apply.
    pub(crate) values: Vec<Option<f64>>,
}

impl Figure {
    pub(crate) fn new(title: &str, parameters: &[&str], measures: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            experiment: String::new(),
            title: title.to_owned(),
            parameters: owned(parameters),
            measures: owned(measures),
            points: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, at: &[&dyn ToString], values: Vec<Option<f64>>) {
        debug_assert_eq!((at.len(), values.len()), (self.parameters.len(), self.measures.len()));
        self.points.push(Point { at: at.iter().map(|at| at.to_string()).collect(), values });
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// As text for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(self.parameters.iter().chain(&self.measures));
        for point in &self.points {
            let values = point.values.iter().map(|value| value.map_or(String::new(), number));
            let right = |value| Cell::new(value).set_alignment(CellAlignment::Right);
            table.add_row(point.at.iter().map(Cell::new).chain(values.map(right)));
        }
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("\n{}: {}\n{table}\n{notes}", self.experiment, self.title)
    }
}
