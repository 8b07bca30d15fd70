//! Columns of Arrow, by the PyCapsule interface: from other libraries, and for them, without a copy.
//!
//! `ffi` has the structs of the interface, `part` reads an array where it lies, `made` makes a new one,
//! and `column` has the class that Python sees.

mod column;
mod ffi;
mod made;
mod part;

pub(crate) use column::{ArrowColumn, Parts};
pub(crate) use made::Strings;
