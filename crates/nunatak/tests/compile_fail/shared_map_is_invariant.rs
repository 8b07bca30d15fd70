//! Through a shared reference to a map no shorter-lived values get into it.

use nunatak::DlhtBoxedMap;

fn fill<'a>(map: &DlhtBoxedMap<u64, &'a str>, text: &'a str) {
    map.insert(1, text);
}

fn main() {
    let map: DlhtBoxedMap<u64, &'static str> = DlhtBoxedMap::new();
    {
        let text = String::from("short");
        fill(&map, &text);
    }
    println!("{:?}", map.get(&1));
}
