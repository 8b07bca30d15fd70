//! Values that borrow what goes before the map: dropping the map drops them.

use nunatak::DlhtBoxedMap;

struct Loud<'a>(&'a String);

impl Drop for Loud<'_> {
    fn drop(&mut self) {
        println!("{}", self.0);
    }
}

fn main() {
    let map: DlhtBoxedMap<u64, Loud<'_>> = DlhtBoxedMap::new();
    let text = String::from("gone first");
    map.put(1, Loud(&text));
}
