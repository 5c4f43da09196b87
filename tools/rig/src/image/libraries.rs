// SPDX-License-Identifier: GPL-2.0

//! The shared libraries of a program.

use crate::error::{Error, IoContext as _, Result};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The shared libraries that a program needs, the loader among them; none if it is static or a script.
pub(super) fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let mut magic = [0; 4];
    let file = File::open(program).and_then(|mut file| file.read(&mut magic));
    file.context(|| format!("read {}", program.display()))?;
    if &magic != b"\x7fELF" {
        return Ok(Vec::new());
    }
    let verified = Command::new(LOADER).arg("--verify").arg(program).status();
    // 1 says that there is nothing to link at run time.
    if verified.context(|| format!("run {LOADER}"))?.code() == Some(1) {
        return Ok(Vec::new());
    }
    let listed = Command::new(LOADER).arg("--list").arg(program).output();
    let listed = listed.context(|| format!("run {LOADER}"))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    if !listed.status.success() || text.contains("not found") {
        return Err(Error::Setup(format!(
            "{} lacks libraries:\n{text}",
            program.display()
        )));
    }
    Ok(paths(&text))
}

/// The paths in the loader's list: `name => /path (address)`, or `/path (address)` for the loader.
fn paths(list: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let found = line.split_once("=>").map_or(line, |(_, path)| path);
        let path = found.split_whitespace().next()?;
        path.starts_with('/').then(|| path.into())
    };
    list.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_understood() {
        let list = "\tlinux-vdso.so.1 (0x00007fff)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(paths(list), expected.map(PathBuf::from));
    }

    #[test]
    fn a_dynamic_program_has_some() {
        let libraries = libraries_of(Path::new("/bin/cat")).unwrap();
        assert!(
            libraries
                .iter()
                .any(|path| path.to_string_lossy().contains("libc.so"))
        );
    }
}
