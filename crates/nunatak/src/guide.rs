//! Pages on topics that concern several maps.

#[doc = include_str!("../docs/values-in-place.md")]
pub mod values_in_place {}

#[doc = include_str!("../docs/methods.md")]
pub mod methods {}

#[cfg(all(durable, feature = "serde"))]
#[doc = include_str!("../docs/session-store.md")]
pub mod session_store {}
