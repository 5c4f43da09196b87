// SPDX-License-Identifier: GPL-2.0

//! The image that every virtual machine boots: an initramfs with the agent as `/init`.

mod archive;
mod libraries;
mod modules;

use crate::error::{IoContext as _, Result};
use crate::kernel::Kernel;
use crate::programs::Programs;
use archive::Archive;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The modules of the kernel that a guest, or the host VM of a nested rig, may want.
const STOCK_MODULES: [&str; 13] = [
    "vsock",
    "vmw_vsock_virtio_transport_common",
    "vmw_vsock_virtio_transport",
    "vsock_loopback",
    "vsock_diag",
    "vsockmon",
    "vhost_vsock",
    "virtio_console",
    "virtio_net",
    "kvm_amd",
    "unix_diag",
    "inet_diag",
    "af_packet_diag",
];
/// Those without which the agent cannot be reached, wherever they are modules.
const BOOT_MODULES: [&str; 1] = ["virtio_console"];
/// Those that carry vsock in a guest; only one of them can be loaded.
const STOCK_DRIVER: &str = "vmw_vsock_virtio_transport";

/// What an image is made of.
#[derive(Debug)]
pub(crate) struct ImageSpec<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) programs: &'a Programs,
    pub(crate) own_modules: &'a [PathBuf],
    pub(crate) files: &'a [(PathBuf, String)],
}

/// An image that has been written; dropped, it is removed, because it is large and soon made again.
#[derive(Debug)]
pub(crate) struct Image {
    path: PathBuf,
    manifest: Arc<Manifest>,
}

/// What an image holds.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Modules by name.
    pub(crate) modules: BTreeMap<String, Module>,
    /// Those modules that carry vsock in a guest.
    pub(crate) drivers: BTreeSet<String>,
    /// What is a module elsewhere, and part of this kernel itself.
    pub(crate) built_in: BTreeSet<String>,
}

/// A module in an image.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// Where it is in the image.
    pub(crate) path: String,
    /// The modules that must be loaded before it, in this order.
    pub(crate) needs: Vec<String>,
}

impl Drop for Image {
    fn drop(&mut self) {
        // Left behind, it only takes up room.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Image {
    /// Writes an image.
    pub(crate) fn build(spec: &ImageSpec<'_>, path: &Path) -> Result<Self> {
        let mut archive = Archive::create(path)?;
        archive.program("/init", &spec.programs.agent)?;
        archive.busybox(Path::new("/bin/busybox"))?;
        archive.program("/bin/vsock-peer", &spec.programs.peer)?;
        archive.program("/bin/redirect", &spec.programs.redirect)?;
        for test in spec.kernel.tests().all() {
            let name = test.file_name().unwrap_or_default().to_string_lossy();
            archive.program(&format!("/bin/{name}"), test)?;
        }
        let manifest = modules::add(&mut archive, spec)?;
        for (from, to) in spec.files {
            archive.file(to, from)?;
        }
        archive
            .finish()
            .context(|| format!("write {}", path.display()))?;
        Ok(Image {
            path: path.into(),
            manifest: Arc::new(manifest),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }
}
