//! Exports the C API of llguidance, which `llguidance.h` of that crate describes.

pub use llguidance::ffi::*;
