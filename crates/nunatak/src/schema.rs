//! [`Schema`]: what the entries of a typed file are.
#![cfg_attr(not(durable), allow(dead_code, reason = "only files have schemas"))]

use core::fmt;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The schema of a file of a typed map (`durable::TypedMap`): a name and a version, which the
/// program chooses, and how keys and values are encoded.
///
/// ```
/// use nunatak::{Schema, durable::{Options, TypedMap}};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().schema("ages", 3);
/// let map: TypedMap<String, u32> = TypedMap::create_with(&path, &options)?;
/// let schema: &Schema = map.schema();
/// assert_eq!((schema.name(), schema.version()), ("ages", 3));
/// assert_eq!((schema.keys(), schema.values()), ("str", "u32"));
/// assert_eq!(schema.to_string(), "`ages` version 3 (str to u32)");
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schema {
    name: String,
    version: u32,
    keys: String,
    values: String,
}

/// Every schema that this process has used or found, so that errors can name them and be copied.
static KNOWN: Mutex<Option<HashSet<&'static Schema>>> = Mutex::new(None);

/// The most bytes of a schema's text: it has to fit the header.
pub(crate) const MOST_BYTES: usize = 2048;

impl Schema {
    /// Makes a schema that lives as long as the process: equal ones are made once. Returns `None`
    /// if a part has an end of a line, or all of it is too long.
    pub(crate) fn new(name: &str, version: u32, keys: &str, values: &str) -> Option<&'static Self> {
        let own = |part: &str| (!part.contains('\n')).then(|| part.to_owned());
        let (name, keys, values) = (own(name)?, own(keys)?, own(values)?);
        let schema = Self { name, version, keys, values };
        if schema.to_text().len() > MOST_BYTES {
            return None;
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        Some(known.get(&schema).copied().unwrap_or_else(|| {
            let schema: &'static Self = Box::leak(Box::new(schema));
            known.insert(schema);
            schema
        }))
    }

    /// Returns the text in the header of a file.
    pub(crate) fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.name, self.version, self.keys, self.values)
    }

    /// Returns the schema of a text that [`to_text`](Self::to_text) has returned.
    pub(crate) fn of_text(text: &[u8]) -> Option<&'static Self> {
        let mut lines = core::str::from_utf8(text).ok()?.split('\n');
        let mut next = || lines.next();
        let (name, version, keys, values) = (next()?, next()?, next()?, next()?);
        let schema = Self::new(name, version.parse().ok()?, keys, values)?;
        (schema.to_text().as_bytes() == text).then_some(schema)
    }

    /// Returns the name; empty if the program has given none.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<u64, u64>::create(&path)?.schema().name(), "");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version; zero if the program has given none.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<u64, u64>::create(&path)?.schema().version(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the name of the encoding of keys.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<(String, u64), u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.schema().keys(), "(str, u64)");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// Returns the name of the encoding of values.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<u64, Vec<u8>>::create(&path)?.schema().values(), "bytes");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn values(&self) -> &str {
        &self.values
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, keys, values } = self;
        write!(f, "`{}` version {version} ({keys} to {values})", name.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_read_as_it_was_written() {
        for (name, version) in [("", 0), ("sessions", 7), ("Größe \u{1F9CA}", u32::MAX)] {
            let schema = Schema::new(name, version, "(str, u64)", "postcard").unwrap();
            let again = Schema::of_text(schema.to_text().as_bytes()).unwrap();
            // Made once.
            assert!(core::ptr::eq(schema, again));
        }
        for damaged in ["", "a", "a\n1\nb", "a\n1\nb\nc\nd", "a\n01\nb\nc", "a\nx\nb\nc"] {
            assert_eq!(Schema::of_text(damaged.as_bytes()), None, "{damaged}");
        }
        assert_eq!(Schema::of_text(&[0xFF; 8]), None);
    }

    #[test]
    fn what_would_not_fit_the_header_is_refused() {
        assert_eq!(Schema::new("a\nb", 1, "u64", "u64"), None);
        assert_eq!(Schema::new("a", 1, "u64", "u\n64"), None);
        assert!(Schema::new(&"a".repeat(MOST_BYTES - 10), 1, "u64", "u64").is_some());
        assert_eq!(Schema::new(&"a".repeat(MOST_BYTES), 1, "u64", "u64"), None);
    }
}
