//! The native part of the Python package `nunatak`: classes over Nunatak's maps.
//!
//! The package's own files, in the folder `python`, make arrays of what they are given, and call
//! what begins with an underscore here.

mod analysis;
mod arrow;
mod batch;
mod codes;
mod columns;
mod entries;
mod failure;
mod handle;
mod kind;
mod map;
mod multi;
mod multi_strings;
mod objects;
mod opening;
mod operations;
mod strings;
mod sum;

use pyo3::prelude::*;

// No state rests on the interpreter's lock: maps are concurrent, classes are frozen, and the locks here are
// held for moments in which no Python code runs.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<map::Map>()?;
    module.add_class::<multi::MultiMap>()?;
    module.add_class::<arrow::ArrowColumn>()?;
    module.add("FileError", module.py().get_type::<failure::FileError>())?;
    module.add_function(wrap_pyfunction!(analysis::factorize, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::isin, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::join, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::salvage, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
