// SPDX-License-Identifier: GPL-2.0

//! The archive of an initramfs.

use super::libraries::libraries_of;
use crate::error::{Error, IoContext as _, Result};
use cpio::newc;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that is being written. Folders come with what is in them, and nothing twice.
pub(super) struct Archive {
    out: BufWriter<File>,
    entries: BTreeSet<String>,
    number: u32,
}

impl Archive {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).context(|| format!("write {}", path.display()))?;
        Ok(Archive {
            out: BufWriter::new(file),
            entries: BTreeSet::new(),
            number: 0,
        })
    }

    /// Adds a file with the permissions that it has here. A program with shared libraries brings them
    /// along.
    pub(super) fn file(&mut self, name: &str, from: &Path) -> Result<()> {
        let metadata = fs::metadata(from).context(|| format!("read {}", from.display()))?;
        if metadata.permissions().mode() & 0o111 != 0 {
            return self.program(name, from);
        }
        let data = fs::read(from).context(|| format!("read {}", from.display()))?;
        self.entry(name, metadata.permissions().mode(), &data)
    }

    /// Adds a program, and the shared libraries that it needs.
    pub(super) fn program(&mut self, name: &str, from: &Path) -> Result<()> {
        let data = fs::read(from).context(|| format!("read {}", from.display()))?;
        self.entry(name, PROGRAM, &data)?;
        for library in libraries_of(from)? {
            let place = library.to_string_lossy().into_owned();
            if !self.entries.contains(&place) {
                let data = fs::read(&library).context(|| format!("read {place}"))?;
                self.entry(&place, PROGRAM, &data)?;
            }
        }
        Ok(())
    }

    /// Adds busybox and a link for each of its applets.
    pub(super) fn busybox(&mut self, from: &Path) -> Result<()> {
        let list = Command::new(from).arg("--list").output();
        let list =
            list.context(|| format!("run {} (is busybox-static installed?)", from.display()))?;
        if !libraries_of(from)?.is_empty() {
            let from = from.display();
            return Err(Error::Setup(format!(
                "{from} needs shared libraries; install busybox-static"
            )));
        }
        self.program("/bin/busybox", from)?;
        for applet in String::from_utf8_lossy(&list.stdout).lines() {
            self.entry(&format!("/bin/{applet}"), LINK, b"busybox")?;
        }
        Ok(())
    }

    /// Adds an entry with these contents, and the folders that it is in.
    pub(super) fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        for (end, _) in name.match_indices('/').skip(1) {
            let folder = &name[..end];
            if !self.entries.contains(folder) {
                self.append(folder, FOLDER, &[])?;
            }
        }
        if self.entries.contains(name) {
            return Ok(());
        }
        self.append(name, mode, data)
    }

    fn append(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.number += 1;
        let header = newc::Builder::new(name.trim_start_matches('/'))
            .ino(self.number)
            .mode(mode);
        let length = u32::try_from(data.len())
            .map_err(|_| Error::Setup(format!("{name} is too large for an initramfs")))?;
        let mut entry = header.write(&mut self.out, length);
        let written = entry
            .write_all(data)
            .and_then(|()| entry.finish().map(drop));
        written.context(|| format!("write {name} into the image"))?;
        self.entries.insert(name.into());
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        newc::trailer(self.out)?
            .into_inner()
            .map(drop)
            .map_err(|error| error.into_error())
    }
}
