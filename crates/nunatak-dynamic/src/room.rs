//! How large a map is, and room for more.

use nunatak::Error;

/// What every map tells of its size.
pub trait Room {
    /// Returns how many entries there are.
    fn len(&self) -> usize;

    /// Returns whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for more entries.
    ///
    /// # Errors
    /// If memory or the disk refuses it.
    fn reserve(&self, additional: usize) -> Result<(), Error>;

    /// Gives memory back that the entries do not need.
    ///
    /// # Errors
    /// If memory for the smaller table is refused.
    fn shrink_to_fit(&self) -> Result<(), Error>;

    /// Returns how many bytes of memory are resident.
    fn memory(&self) -> usize;

    /// Returns entries divided by slots.
    fn load_factor(&self) -> f64;
}

/// The methods of [`Room`] by the map's own methods, which have the same names in every map; how room
/// is made is told if that differs.
macro_rules! room_of_the_map {
    () => {
        $crate::room::room_of_the_map!(|map, additional| map.reserve(additional));
    };
    (|$map:ident, $additional:ident| $reserve:expr) => {
        fn len(&self) -> usize {
            self.len()
        }

        fn reserve(&self, $additional: usize) -> Result<(), Error> {
            let $map = self;
            $reserve
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
    };
}
pub(crate) use room_of_the_map;
