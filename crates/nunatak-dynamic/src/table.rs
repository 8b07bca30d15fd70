//! The name of a table.

use core::fmt;
use core::str::FromStr;

/// Which table a map is made of.
///
/// ```
/// use nunatak_dynamic::Table;
/// assert_eq!("pea".parse(), Ok(Table::Pea));
/// assert_eq!(Table::Iceberg.to_string(), "iceberg");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// DLHT: the fastest lookups. In RAM only.
    Dlht,
    /// IcebergHT: the least memory.
    Iceberg,
    /// Pea Hash: grows and shrinks in small pieces.
    Pea,
    /// TurboHash: a resize stalls one shard of about 1,000.
    Turbo,
}

impl Table {
    /// All tables, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("dlht", Self::Dlht),
        ("iceberg", Self::Iceberg),
        ("pea", Self::Pea),
        ("turbo", Self::Turbo),
    ];
}

impl FromStr for Table {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, table)| table).ok_or_else(|| {
            format!("there is no table `{name}`: choose dlht, iceberg, pea or turbo")
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.into_iter().find(|(_, table)| table == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}
