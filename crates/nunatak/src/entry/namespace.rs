//! Namespaces: 4096 separate sets of keys in one map.

use super::entries::{KeyOf, Naming};
use crate::error::Error;

/// One of the 4096 namespaces of a map. Equal bytes in two namespaces are different keys (DLHT,
/// section 3.4.2).
///
/// ```
/// use nunatak::Namespace;
/// assert_eq!(Namespace::new(4095)?.number(), 4095);
/// assert!(Namespace::new(4096).is_err());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Namespace(u16);

impl Namespace {
    /// The number of namespaces.
    ///
    /// ```
    /// # use nunatak::Namespace;
    /// assert!(Namespace::new(Namespace::COUNT).is_err());
    /// ```
    pub const COUNT: u16 = 4096;

    /// Returns the namespace of a number below [`COUNT`](Self::COUNT).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the number is not below [`COUNT`](Self::COUNT).
    ///
    /// ```
    /// # use nunatak::Namespace;
    /// assert!(Namespace::new(7).is_ok());
    /// ```
    pub const fn new(number: u16) -> Result<Self, Error> {
        if number < Self::COUNT {
            Ok(Self(number))
        } else {
            Err(Error::InvalidOption { option: "namespace", expected: "0 to 4095" })
        }
    }

    /// Returns the number of the namespace.
    ///
    /// ```
    /// # use nunatak::Namespace;
    /// assert_eq!(Namespace::default().number(), 0);
    /// ```
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the namespace of a number that came from one.
    pub(super) const fn of(number: u16) -> Self {
        Self(number % Self::COUNT)
    }
}

/// Keys that are byte strings in [`Namespace`]s.
///
/// ```
/// use nunatak::{Namespace, entry::{Named, Naming}};
/// let key: <Named as Naming>::Key<'_> = (Namespace::new(7)?, b"a byte string");
/// # assert_eq!(key.1.len(), 13);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Named;

impl Naming for Named {
    type Key<'k> = (Namespace, &'k [u8]);
    type Owned = (Namespace, Vec<u8>);

    const HAS_NAMESPACES: bool = true;

    fn own((namespace, bytes): (Namespace, &[u8])) -> (Namespace, Vec<u8>) {
        (namespace, bytes.to_vec())
    }

    fn of_owned(key: &(Namespace, Vec<u8>)) -> (Namespace, &[u8]) {
        (key.0, &key.1)
    }

    #[inline(always)]
    fn parts<'k>(key: Self::Key<'k>) -> (u16, &'k [u8]) {
        (key.0.0, key.1)
    }

    fn of_parts(namespace: u16, bytes: &[u8]) -> (Namespace, &[u8]) {
        (Namespace::of(namespace), bytes)
    }
}

impl<K: AsRef<[u8]>> KeyOf<Named> for (Namespace, K) {
    #[inline(always)]
    fn key(&self) -> (Namespace, &[u8]) {
        (self.0, self.1.as_ref())
    }
}
