//! Redis's protocol: requests as they arrive, replies as they leave.

pub(crate) mod client;
pub(crate) mod extended;
pub(crate) mod glob;
pub(crate) mod numbers;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod socket;
