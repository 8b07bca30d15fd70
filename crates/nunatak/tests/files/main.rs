//! Maps in files. One program: each of several would contain the same maps, which take longer to compile than to
//! test.
#![cfg(all(target_os = "linux", not(modelled)))]

#[path = "../effort/mod.rs"]
mod effort;
#[path = "../encodings/mod.rs"]
mod encodings;
#[path = "../kinds/mod.rs"]
mod kinds;
#[path = "../temporary/mod.rs"]
mod temporary;

mod backups;
mod batch_files;
mod blob_crashes;
mod blob_files;
mod damaged_files;
mod damaged_images;
mod durable_files;
mod failed_syncs;
mod full_disk;
mod full_files;
mod golden;
mod multi_files;
mod page_checksums;
mod paged_files;
mod pea_files;
mod refused_growths;
mod salvage;
mod salvage_maps;
mod sampling;
mod turbo_files;
mod typed_files;
mod typed_model;
mod typed_whole;
mod write_ahead;
