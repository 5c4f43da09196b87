// SPDX-License-Identifier: GPL-2.0

//! Kernel modules of an image.

use super::archive::Archive;
use super::{BOOT_MODULES, ImageSpec, Manifest, Module, STOCK_DRIVER, STOCK_MODULES};
use crate::error::{Error, IoContext as _, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an image has its modules: uncompressed, side by side, in a folder named by the release.
const FOLDER: &str = "/lib/modules";
/// Names the files that the agent loads before anything else, one a line.
const BOOT_LIST: &str = "/lib/modules/boot";
const FILE: u32 = 0o100_644;

/// depmod's table: for each module its file, and the names of those it needs, the first needed first.
type Table = BTreeMap<String, (PathBuf, Vec<String>)>;

/// Adds the kernel's modules that there may be a use for, those they need, and the caller's own.
pub(super) fn add(archive: &mut Archive, spec: &ImageSpec<'_>) -> Result<Manifest> {
    let folder = spec.kernel.modules();
    let table = folder.join("modules.dep");
    let table = fs::read_to_string(&table).context(|| format!("read {}", table.display()))?;
    let table = parse(&table, &folder);
    let built_in = folder.join("modules.builtin");
    let built_in =
        fs::read_to_string(&built_in).context(|| format!("read {}", built_in.display()))?;
    let mut manifest = Manifest {
        built_in: built_in.lines().map(module_name).collect(),
        ..Manifest::default()
    };
    let place = format!("{FOLDER}/{}", spec.kernel.release());
    for name in STOCK_MODULES {
        // What is built in, or gone in another kernel, is not missed until somebody asks for it.
        let Some((_, needs)) = table.get(name) else {
            continue;
        };
        for name in needs.iter().map(String::as_str).chain([name]) {
            stock(archive, &place, &table, name, &mut manifest)?;
        }
    }
    manifest.drivers.insert(STOCK_DRIVER.into());
    let mut boot = String::new();
    for module in BOOT_MODULES
        .iter()
        .filter_map(|name| manifest.modules.get(*name))
    {
        let needs = module
            .needs
            .iter()
            .filter_map(|name| manifest.modules.get(name));
        for module in needs.chain([module]) {
            boot += &format!("{}\n", module.path);
        }
    }
    archive.entry(BOOT_LIST, FILE, boot.as_bytes())?;
    for file in spec.own_modules {
        own(archive, &place, file, &mut manifest)?;
    }
    let table = dependencies(&manifest, &place);
    archive.entry(&format!("{place}/modules.dep"), FILE, table.as_bytes())?;
    Ok(manifest)
}

/// The table from which a person's `modprobe` in a guest knows what to load.
fn dependencies(manifest: &Manifest, place: &str) -> String {
    let file = |module: &Module| module.path.replacen(&format!("{place}/"), "", 1);
    let line = |module: &Module| {
        // Nearest first, as depmod has it.
        let needs = module
            .needs
            .iter()
            .rev()
            .filter_map(|name| manifest.modules.get(name));
        let needs: Vec<String> = needs.map(file).collect();
        format!("{}: {}\n", file(module), needs.join(" "))
    };
    manifest.modules.values().map(line).collect()
}

fn stock(
    archive: &mut Archive,
    place: &str,
    table: &Table,
    name: &str,
    manifest: &mut Manifest,
) -> Result<()> {
    let Some((file, needs)) = table.get(name) else {
        return Err(Error::Setup(format!(
            "the kernel's table of modules lacks {name}"
        )));
    };
    if manifest.modules.contains_key(name) {
        return Ok(());
    }
    let data = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => unpack("xz", file)?,
        Some("zst") => unpack("zstd", file)?,
        Some("gz") => unpack("gzip", file)?,
        _ => fs::read(file).context(|| format!("read {}", file.display()))?,
    };
    let path = format!("{place}/{name}.ko");
    archive.entry(&path, FILE, &data)?;
    let module = Module {
        path,
        needs: needs.clone(),
    };
    manifest.modules.insert(name.into(), module);
    Ok(())
}

/// Adds a module of the caller's. It takes the place of a stock one of the same name.
fn own(archive: &mut Archive, place: &str, file: &Path, manifest: &mut Manifest) -> Result<()> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.replace('-', "_");
    let data = fs::read(file).context(|| format!("read {}", file.display()))?;
    let path = format!("{place}/updates/{name}.ko");
    archive.entry(&path, FILE, &data)?;
    let asked = Command::new("modinfo")
        .args(["-F", "depends"])
        .arg(file)
        .output();
    let asked = asked.context(|| "run modinfo (is kmod installed?)".into())?;
    if !asked.status.success() {
        let said = String::from_utf8_lossy(&asked.stderr);
        let file = file.display();
        return Err(Error::Setup(format!(
            "{file} is not a kernel module: {}",
            said.trim()
        )));
    }
    let needs = String::from_utf8_lossy(&asked.stdout);
    let needs: Vec<String> = needs
        .trim()
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect();
    // What is not a module of this image is taken to be built in; loading says otherwise if not.
    let needs: Vec<_> = needs
        .into_iter()
        .filter(|name| manifest.modules.contains_key(name))
        .collect();
    if needs
        .iter()
        .any(|name| name == "vmw_vsock_virtio_transport_common")
    {
        manifest.drivers.insert(name.clone());
    }
    manifest.modules.insert(name, Module { path, needs });
    Ok(())
}

fn unpack(program: &str, file: &Path) -> Result<Vec<u8>> {
    let unpacked = Command::new(program)
        .args(["--decompress", "--stdout"])
        .arg(file)
        .output();
    let unpacked = unpacked.context(|| format!("run {program}"))?;
    if unpacked.status.success() {
        return Ok(unpacked.stdout);
    }
    let said = String::from_utf8_lossy(&unpacked.stderr);
    Err(Error::Setup(format!(
        "could not unpack {}: {}",
        file.display(),
        said.trim()
    )))
}

fn parse(table: &str, folder: &Path) -> Table {
    let line = |line: &str| {
        let (file, needs) = line.split_once(':')?;
        // depmod names the nearest first.
        let needs = needs.split_whitespace().rev().map(module_name).collect();
        Some((module_name(file), (folder.join(file), needs)))
    };
    table.lines().filter_map(line).collect()
}

/// The name under which the kernel knows a module file.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split(".ko").next().unwrap_or(name);
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depmods_table_is_understood() {
        let table = parse(
            "kernel/net/vmw_vsock/vsock.ko.xz:\n\
             kernel/arch/x86/kvm/kvm-amd.ko.xz: kernel/drivers/crypto/ccp/ccp.ko.xz kernel/arch/x86/kvm/kvm.ko.xz\n",
            Path::new("/m"),
        );
        let (file, needs) = &table["kvm_amd"];
        assert_eq!(file, Path::new("/m/kernel/arch/x86/kvm/kvm-amd.ko.xz"));
        assert_eq!(needs, &["kvm", "ccp"]);
        assert!(table["vsock"].1.is_empty());
    }
}
