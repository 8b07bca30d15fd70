//! What there is about every experiment, whether it is in this build or not: its name, and the figures that saved
//! runs have of it.

pub(crate) mod choice;
pub(crate) mod figure;
