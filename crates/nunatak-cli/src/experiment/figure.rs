//! The result of an experiment: a table of numbers by parameters.

use crate::report::format::number;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

/// A table of measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The experiment's name on the command line.
    pub(crate) experiment: String,
    /// A title that names the figure of the paper.
    pub(crate) title: String,
    /// The names of the parameters.
    pub(crate) parameters: Vec<String>,
    /// The names of the measurements, with units.
    pub(crate) measures: Vec<String>,
    pub(crate) points: Vec<Point>,
    /// Remarks that a reader needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// The command that measured it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) command: String,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The values of the parameters.
    pub(crate) at: Vec<String>,
    /// The measurements; `None` where one does not apply.
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
            command: String::new(),
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

    /// Formats the figure for the terminal.
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
