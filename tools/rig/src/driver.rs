// SPDX-License-Identifier: GPL-2.0

//! Which driver carries vsock in a guest.

/// The kernel's own driver.
const C_DRIVER: &str = "vmw_vsock_virtio_transport";
/// The driver of this project.
const RUST_DRIVER: &str = "virtio_vsock_rs";

/// A guest driver of the virtio vsock device, and how it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    module: String,
    parameters: Vec<String>,
}

impl Driver {
    /// The kernel's own driver.
    pub fn c() -> Self {
        Self::module(C_DRIVER)
    }

    /// The driver of this project.
    pub fn rust() -> Self {
        Self::module(RUST_DRIVER)
    }

    /// Another driver, whose module the image holds.
    pub fn module(name: impl Into<String>) -> Self {
        Driver {
            module: name.into(),
            parameters: Vec::new(),
        }
    }

    /// Adds a load parameter: `name=value`.
    pub fn with(mut self, parameter: impl Into<String>) -> Self {
        self.parameters.push(parameter.into());
        self
    }

    /// The name of its module.
    pub fn name(&self) -> &str {
        &self.module
    }

    /// Its load parameters.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }
}
