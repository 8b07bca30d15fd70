//! Pages on topics that concern several maps.

#[doc = include_str!("../docs/values-in-place.md")]
pub mod values_in_place {}

#[doc = include_str!("../docs/methods.md")]
pub mod methods {}

#[doc = include_str!("../docs/recipes.md")]
pub mod recipes {}

#[cfg(durable)]
#[doc = include_str!("../docs/from-other-maps.md")]
pub mod from_other_maps {}

#[cfg(durable)]
#[doc = include_str!("../docs/faq.md")]
pub mod faq {}

#[cfg(all(durable, feature = "serde"))]
#[doc = include_str!("../docs/session-store.md")]
pub mod session_store {}
