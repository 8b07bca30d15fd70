//! Adding values.

use crate::kind::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// How values of a kind are added.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sum {
    /// Integers wrap around.
    Integers,
    Floats(u32),
}

impl Sum {
    pub(crate) fn of(kind: &Kind) -> PyResult<Self> {
        match kind {
            Kind::Unsigned(_) | Kind::Signed(_) | Kind::Time { is_span: true, .. } => {
                Ok(Self::Integers)
            }
            Kind::Float(bits) => Ok(Self::Floats(*bits)),
            _ => Err(PyTypeError::new_err(format!("values of type {} are not added", kind.name()))),
        }
    }

    pub(crate) fn words(self, value: u64, amount: u64) -> u64 {
        match self {
            Self::Integers => value.wrapping_add(amount),
            Self::Floats(32) => {
                (f32::from_bits(value as u32) + f32::from_bits(amount as u32)).to_bits().into()
            }
            Self::Floats(_) => (f64::from_bits(value) + f64::from_bits(amount)).to_bits(),
        }
    }
}
