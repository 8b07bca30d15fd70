//! Maps whose keys are any Python objects: hashed and compared by Python.

use core::hash::{Hash, Hasher};
use nunatak::{BoxedMap, Design, Dlht, Equivalent, Error, Iceberg, Pea, RandomState, Turbo};
use nunatak_dynamic::Table;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// An exception of `__eq__`, on its way through the map to [`raising`].
struct Raised(PyErr);

/// Runs an operation in which Python code may raise.
///
/// The map holds nothing while it calls `Eq`, and the operation has not taken effect then.
pub(crate) fn raising<R>(operation: impl FnOnce() -> R) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(operation)).map_err(|payload| {
        match payload.downcast::<Raised>() {
            Ok(raised) => raised.0,
            Err(_) => PyRuntimeError::new_err("the map has panicked: please report it"),
        }
    })
}

/// A key in a map: the object and its hash.
pub(crate) struct Key {
    hash: isize,
    object: Py<PyAny>,
}

/// A key that is looked for.
pub(crate) struct Query<'a, 'py> {
    hash: isize,
    object: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Query<'a, 'py> {
    /// Asks Python for the hash.
    pub(crate) fn new(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { hash: object.hash()?, object })
    }

    fn key(&self) -> Key {
        Key { hash: self.hash, object: self.object.clone().unbind() }
    }
}

fn are_equal(one: &Bound<'_, PyAny>, other: &Py<PyAny>) -> bool {
    one.as_ptr() == other.as_ptr()
        || one
            .eq(other.bind(one.py()))
            .unwrap_or_else(|error| resume_unwind(Box::new(Raised(error))))
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_isize(self.hash);
    }
}

impl Hash for Query<'_, '_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_isize(self.hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && Python::attach(|py| are_equal(self.object.bind(py), &other.object))
    }
}

impl Eq for Key {}

impl Equivalent<Key> for Query<'_, '_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && are_equal(self.object, &key.object)
    }
}

/// A map of Python objects, with the table chosen at run time. All calls are made while the thread
/// is attached to Python.
pub(crate) trait Objects: Send + Sync {
    fn get(&self, py: Python<'_>, key: &Query<'_, '_>) -> Option<Py<PyAny>>;
    fn contains(&self, key: &Query<'_, '_>) -> bool;
    /// Returns whether the key was absent.
    fn put(&self, key: &Query<'_, '_>, value: Py<PyAny>) -> bool;
    /// Stores the value if the key is absent; returns whether it did.
    fn try_put(&self, key: &Query<'_, '_>, value: Py<PyAny>) -> bool;
    fn remove(&self, py: Python<'_>, key: &Query<'_, '_>) -> Option<Py<PyAny>>;
    fn entries(&self, py: Python<'_>) -> Vec<(Py<PyAny>, Py<PyAny>)>;
    fn any(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)>;
    fn len(&self) -> usize;
    fn clear(&self);
    fn reclaim(&self) -> usize;
    fn reserve(&self, additional: usize) -> Result<(), Error>;
    fn shrink_to_fit(&self) -> Result<(), Error>;
    fn memory(&self) -> usize;
    fn load_factor(&self) -> f64;
    fn stats(&self) -> String;
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// Makes an empty map of objects.
pub(crate) fn objects_in_ram(table: Table, capacity: usize) -> Result<Box<dyn Objects>, Error> {
    type Of<D> = BoxedMap<Key, Py<PyAny>, RandomState, D>;
    Ok(match table {
        Table::Dlht => Box::new(Of::<Dlht>::try_with_capacity(capacity)?),
        Table::Iceberg => Box::new(Of::<Iceberg>::try_with_capacity(capacity)?),
        Table::Pea => Box::new(Of::<Pea>::try_with_capacity(capacity)?),
        Table::Turbo => Box::new(Of::<Turbo>::try_with_capacity(capacity)?),
    })
}

impl<D: Design> Objects for BoxedMap<Key, Py<PyAny>, RandomState, D>
where
    Self: Send + Sync,
{
    fn get(&self, py: Python<'_>, key: &Query<'_, '_>) -> Option<Py<PyAny>> {
        self.get_with(key, |value| value.clone_ref(py))
    }

    fn contains(&self, key: &Query<'_, '_>) -> bool {
        self.contains_key(key)
    }

    fn put(&self, key: &Query<'_, '_>, value: Py<PyAny>) -> bool {
        self.put(key.key(), value).is_none()
    }

    fn try_put(&self, key: &Query<'_, '_>, value: Py<PyAny>) -> bool {
        self.try_put(key.key(), value).is_ok()
    }

    fn remove(&self, py: Python<'_>, key: &Query<'_, '_>) -> Option<Py<PyAny>> {
        self.remove_entry(key).map(|removed| removed.value().clone_ref(py))
    }

    fn entries(&self, py: Python<'_>) -> Vec<(Py<PyAny>, Py<PyAny>)> {
        let guard = self.pin();
        guard.iter().map(|(key, value)| (key.object.clone_ref(py), value.clone_ref(py))).collect()
    }

    fn any(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let guard = self.pin();
        guard.iter().next().map(|(key, value)| (key.object.clone_ref(py), value.clone_ref(py)))
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn clear(&self) {
        self.clear();
        self.reclaim();
    }

    fn reclaim(&self) -> usize {
        self.reclaim()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn memory(&self) -> usize {
        self.memory_usage().resident
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn stats(&self) -> String {
        format!("{:?}", self.stats())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let guard = self.pin();
        for (key, value) in guard.iter() {
            visit.call(&key.object)?;
            visit.call(value)?;
        }
        Ok(())
    }
}
