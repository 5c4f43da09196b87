// SPDX-License-Identifier: GPL-2.0
//! The sockets that QEMU connects to.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// Listen at `path`. A socket that a dead program left there is replaced;
/// anything else in that place is an error.
pub fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    ensure!(
        folder.is_dir(),
        "the folder of socket {} does not exist; make it with: mkdir -p {}",
        path.display(),
        folder.display()
    );
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            bail!(
                "{} is there and is no socket; give another path, or move it away",
                path.display()
            )
        }
        Ok(_) => remove_stale(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| format!("cannot look at {}", path.display()));
        }
    }
    UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))
}

fn remove_stale(path: &Path) -> anyhow::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .with_context(|| format!("cannot remove the stale socket {}", path.display())),
        Err(error) => Err(error).with_context(|| {
            format!(
                "socket {} is there already, and cannot be tried",
                path.display()
            )
        }),
        Ok(_) => bail!(
            "another program listens at {}; stop it, or give another path",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path, why: &str) {
        let error = format!("{:#}", listen(path).unwrap_err());
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn stale_sockets_are_replaced_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let live = listen(&path).unwrap();
        refused(&path, "another program listens");
        drop(live);
        assert!(path.exists());
        listen(&path).unwrap();
    }

    #[test]
    fn bad_places_are_named() {
        let folder = tempfile::tempdir().unwrap();
        refused(&folder.path().join("none/socket"), "mkdir -p");
        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        refused(&file, "is no socket");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        refused(&folder.path().join("x".repeat(200)), "cannot listen");
    }
}
