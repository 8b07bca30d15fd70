//! A map of references to what lives for ever takes no others, and a shared one is never
//! lengthened or shortened.

use nunatak::DlhtBoxedMap;

fn lengthen<'a>(map: DlhtBoxedMap<&'a str, &'a str>) -> DlhtBoxedMap<&'static str, &'a str> {
    map
}

fn lengthen_shared<'m, 'a>(
    map: &'m DlhtBoxedMap<u64, &'a str>,
) -> &'m DlhtBoxedMap<u64, &'static str> {
    map
}

fn store_shorter(map: &DlhtBoxedMap<u64, &'static str>) {
    let text = String::from("short");
    map.insert(1, &text);
}

fn main() {
    let map: DlhtBoxedMap<&'static str, &'static str> = DlhtBoxedMap::new();
    let text = String::from("short");
    map.insert(&text, "a");
    let _ = (lengthen, lengthen_shared, store_shorter);
}
