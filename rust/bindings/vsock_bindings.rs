// SPDX-License-Identifier: GPL-2.0

//! Generated bindings to the parts of the kernel's C API that `kernel::bindings` leaves out.
//!
//! Nobody but the abstraction crate, `vsock_kernel`, uses this crate. It re-exports
//! `kernel::bindings`, so that one path leads to a C type wherever it was generated; what is
//! generated here wins over what is re-exported.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unknown_lints,
    unnecessary_transmutes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

mod raw {
    use ::kernel::ffi;
    use pin_init::MaybeZeroable;

    // The kernel maps these to Rust's own types by hand, as `rust/bindings/lib.rs` does.
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    pub use super::helpers::*;
    pub use ::kernel::bindings::*;

    include!(concat!(
        env!("VSOCK_BINDINGS_DIR"),
        "/bindings_generated.rs"
    ));
}

mod helpers {
    use super::raw::*;
    use ::kernel::ffi;

    include!(concat!(env!("VSOCK_BINDINGS_DIR"), "/helpers_generated.rs"));
}

pub use raw::*;
