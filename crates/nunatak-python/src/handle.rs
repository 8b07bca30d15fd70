//! Maps that can be closed while other threads use them.

use crate::failure::closed;
use core::ops::Deref;
use core::time::Duration;
use nunatak_dynamic::{BlobFile, Blobs, InFile, Multi, MultiFile, WordFile, Words};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// A map in a file, until it is closed. An operation holds a count while it runs.
pub(crate) struct File<F: ?Sized>(Mutex<Option<Arc<Box<F>>>>);

impl<F: ?Sized> File<F> {
    pub(crate) fn new(map: Box<F>) -> Self {
        Self(Mutex::new(Some(Arc::new(map))))
    }

    pub(crate) fn open(&self) -> PyResult<Arc<Box<F>>> {
        self.0.lock().clone().ok_or_else(closed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Takes the map out when the operations that run have ended; later ones find it closed. Returns
    /// `None` if it was closed before.
    pub(crate) fn take(&self) -> Option<Box<F>> {
        let mut map = self.0.lock().take()?;
        loop {
            match Arc::try_unwrap(map) {
                Ok(map) => return Some(map),
                Err(used) => map = used,
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// A map in RAM or in a file.
pub(crate) enum Handle<R: ?Sized, F: ?Sized> {
    Ram(Box<R>),
    File(File<F>),
}

/// A map while an operation uses it.
pub(crate) enum Access<'a, R: ?Sized, F: ?Sized> {
    Ram(&'a R),
    File(Arc<Box<F>>),
}

impl<R: ?Sized, F: ?Sized> Handle<R, F> {
    pub(crate) fn open(&self) -> PyResult<Access<'_, R, F>> {
        match self {
            Self::Ram(map) => Ok(Access::Ram(map)),
            Self::File(file) => file.open().map(Access::File),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Ram(_) => false,
            Self::File(file) => file.is_closed(),
        }
    }
}

pub(crate) type WordHandle = Handle<dyn Words, dyn WordFile>;
pub(crate) type BlobHandle = Handle<dyn Blobs, dyn BlobFile>;
pub(crate) type MultiHandle = Handle<dyn Multi, dyn MultiFile>;

macro_rules! derefs {
    ($($ram:ident, $file:ident;)*) => {$(
        impl Deref for Access<'_, dyn $ram, dyn $file> {
            type Target = dyn $ram;

            fn deref(&self) -> &(dyn $ram + 'static) {
                match self {
                    Self::Ram(map) => *map,
                    Self::File(map) => &***map,
                }
            }
        }
    )*};
}

derefs! {
    Words, WordFile;
    Blobs, BlobFile;
    Multi, MultiFile;
}

/// What a file does beside the operations of a map.
pub(crate) enum FileAccess {
    Words(Arc<Box<dyn WordFile>>),
    Blobs(Arc<Box<dyn BlobFile>>),
    Multi(Arc<Box<dyn MultiFile>>),
}

impl Deref for FileAccess {
    type Target = dyn InFile;

    fn deref(&self) -> &(dyn InFile + 'static) {
        match self {
            Self::Words(map) => &***map,
            Self::Blobs(map) => &***map,
            Self::Multi(map) => &***map,
        }
    }
}

/// What a class can do besides if its map may be in a file.
macro_rules! file_methods {
    ($class:ident) => {
        #[pyo3::pymethods]
        impl $class {
            /// Make every change so far survive a power cut.
            fn sync(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<()> {
                let file = self.file()?;
                py.detach(|| file.sync()).map_err($crate::failure::exception)
            }

            /// Read the whole file and return how many entries it has; raise for the first damage.
            fn verify(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<usize> {
                let file = self.file()?;
                py.detach(|| file.verify()).map_err($crate::failure::exception)
            }

            /// The first error after which the file accepts no more changes, also of a sync in the
            /// background; None if there was none.
            #[getter]
            fn failure(&self) -> pyo3::PyResult<Option<pyo3::PyErr>> {
                Ok(self.file()?.failure().map($crate::failure::exception))
            }

            /// Store a consistent cut as a new file; return how many entries it has.
            fn backup(
                &self,
                py: pyo3::Python<'_>,
                path: std::path::PathBuf,
            ) -> pyo3::PyResult<usize> {
                let file = self.file()?;
                py.detach(|| file.backup(&path)).map_err($crate::failure::exception)
            }

            /// The size of the file.
            #[getter]
            fn file_bytes(&self) -> pyo3::PyResult<u64> {
                Ok(self.file()?.file_bytes())
            }
        }
    };
}

pub(crate) use file_methods;
