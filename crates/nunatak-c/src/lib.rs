//! Nunatak's maps for C and C++. The header `include/nunatak.h` is made of these functions; its
//! opening comment has what holds for all of them.
#![allow(non_camel_case_types, reason = "the names of C")]

pub mod allocators;
mod arguments;
pub mod blobs;
pub mod file;
pub mod guards;
pub mod iterators;
pub mod multi;
pub mod multi_blobs;
pub mod shadows;
pub mod stats;
pub mod status;
pub mod words;
