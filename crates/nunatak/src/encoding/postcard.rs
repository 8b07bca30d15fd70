//! [`Postcard`]: any type of serde.

use super::traits::{Encoding, KeyEncoding};
use crate::error::Error;
use core::fmt;
use core::hash::Hash;
use core::marker::PhantomData;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The encoding of any type that implements `Serialize` and `DeserializeOwned`, in the
/// [postcard](https://postcard.jamesmunns.com) format. The map takes and returns `T` itself.
///
/// The format does not describe itself. So fields of a struct are stored in their order, without
/// names, and variants by number: any change of the type but for new variants at the end needs
/// another version of the [schema](crate::durable::Options::schema), and a
/// [migration](crate::durable::TypedMap::migrate). What asks the format for the type of what comes
/// can't be read: `#[serde(untagged)]`, `#[serde(tag = …)]`, `#[serde(flatten)]`,
/// `#[serde(skip_serializing_if = …)]`, and values such as `serde_json::Value`.
///
/// It encodes keys if `T: Eq + Hash`: see [`KeyEncoding`].
///
/// ```
/// use nunatak::durable::{Options, Postcard, TypedMap};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct User {
///     name: String,
///     groups: Vec<u32>,
/// }
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().schema("users", 1);
/// let users: TypedMap<u64, Postcard<User>> = TypedMap::create_with(&path, &options)?;
/// users.insert(&7, &User { name: "Ada".into(), groups: vec![1, 2] })?;
/// assert_eq!(users.get(&7)?.unwrap().groups, [1, 2]);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct Postcard<T>(PhantomData<fn() -> T>);

impl<T> fmt::Debug for Postcard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Postcard")
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Encoding for Postcard<T> {
    type Owned = T;
    type Ref = T;
    type View<'b> = T;

    fn name() -> String {
        "postcard".into()
    }

    fn encode(item: &T, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let refused = |_| Error::Unencodable { what: "key or a value" };
        *bytes = postcard::to_extend(item, core::mem::take(bytes)).map_err(refused)?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<T> {
        match postcard::take_from_bytes(bytes) {
            Ok((item, [])) => Some(item),
            _ => None,
        }
    }

    fn to_owned(view: T) -> T {
        view
    }

    fn borrow(owned: &T) -> &T {
        owned
    }
}

impl<T: Serialize + DeserializeOwned + Eq + Hash + 'static> KeyEncoding for Postcard<T> {}
