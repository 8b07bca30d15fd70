//! The four algorithms over 16-byte slots of two words.

pub(crate) mod dlht;
