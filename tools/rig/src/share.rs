// SPDX-License-Identifier: GPL-2.0

//! The lab root as a file system of a virtual machine: all of Debian's programs, in an image of none.

use crate::board::Seat;
use crate::error::{Error, IoContext as _, Result};
use crate::process::Process;
use crate::qemu::VmSpec;
use crate::sockets::SocketDir;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Where a virtual machine has it, once it is mounted.
pub(crate) const ROOT: &str = "/root";

/// Mounts it there, unless it is, with what programs expect of a root. It is read-only but for `/tmp`
/// and `/run`.
pub(crate) fn mount_script() -> String {
    format!(
        "if test -d {ROOT}/usr/bin; then exit; fi\n\
         mkdir -p {ROOT}\n\
         mount -t virtiofs -o ro root {ROOT}\n\
         for folder in dev proc sys; do mount -o bind /$folder {ROOT}/$folder; done\n\
         mount -t tmpfs tmp {ROOT}/tmp\n\
         mount -t tmpfs run {ROOT}/run\n"
    )
}

/// Serves the lab root, read-only, to the virtual machine that `spec` describes and `seat` is about.
/// The socket listens before the server runs, so QEMU may connect at any time.
pub(crate) fn serve(
    spec: &mut VmSpec,
    sockets: &SocketDir,
    seat: &Seat,
    logs: &Path,
) -> Result<Process> {
    let path = sockets.path(&format!("{}-root", spec.name));
    let listener = UnixListener::bind(&path).context(|| format!("listen on {}", path.display()))?;
    let mut command = Command::new("/usr/libexec/virtiofsd");
    command.args([
        "--fd=0",
        "--sandbox=none",
        "--readonly",
        "--cache=always",
        "--log-level=warn",
    ]);
    command.arg("--shared-dir").arg(lab_root()?);
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let watched = seat.clone();
    let log = logs.join(format!("{}-virtiofsd.log", spec.name));
    let told = log.clone();
    let process = Process::start(&mut command, &log, move |status: ExitStatus| {
        // It ends in good order when QEMU has left it, whose own end says more.
        if status.success() {
            return;
        }
        let log = told.display();
        watched.gone(format!("its file server ended ({status}); see {log}"));
    })?;
    spec.option(
        "-chardev",
        format!("socket,id=root,path={}", path.display()),
    );
    spec.option("-device", "vhost-user-fs-pci,chardev=root,tag=root");
    Ok(process)
}

/// The lab root without what is mounted on it, as `tools/labroot.sh` shows it.
fn lab_root() -> Result<PathBuf> {
    let root = PathBuf::from("/lab/root");
    if root.join("usr/bin").is_dir() {
        return Ok(root);
    }
    Err(Error::Setup(
        "this rig shows its machines the lab root and so runs in it; start this with \
         `tools/labroot.sh run …`"
            .into(),
    ))
}
