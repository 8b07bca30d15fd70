//! What allocators of [`RecordMap`](crate::RecordMap)s are: the traits of the crate
//! `allocator-api2`, which stand for those that the standard library has not made stable yet.

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
