//! What a batch finds under a guard does not outlive the guard.

use nunatak::TurboBlobMap;

fn main() {
    let map = TurboBlobMap::new();
    let mut found: Vec<Option<&[u8]>> = Vec::new();
    {
        let guard = map.pin();
        guard.get_many(&["a", "b"], |_, value| found.push(value));
    }
    println!("{found:?}");
}
