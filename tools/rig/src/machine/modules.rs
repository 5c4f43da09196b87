// SPDX-License-Identifier: GPL-2.0

//! Kernel modules of a machine.

use super::Machine;
use crate::driver::Driver;
use crate::error::{Error, Result};
use proto::Call;

/// A loaded module, as `/proc/modules` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// How many hold it.
    pub references: u64,
    /// Which other modules hold it.
    pub users: Vec<String>,
}

impl Machine {
    /// Loads a module of the image by name, and before it those that it depends on. One that is built
    /// into the kernel is there already.
    pub fn insmod(&self, name: &str, parameters: &[impl AsRef<str>]) -> Result<()> {
        let name = name.replace('-', "_");
        if self.traits.manifest.built_in.contains(&name) {
            return Ok(());
        }
        let module = self.traits.manifest.modules.get(&name).ok_or_else(|| {
            Error::Setup(format!(
                "the image of {} holds no module {name}",
                self.name()
            ))
        })?;
        for dependency in &module.needs {
            // One may have brought the next along.
            self.need(dependency)?;
        }
        self.insmod_file(&module.path, parameters)
    }

    /// Loads a module of the image by name, unless it is there already.
    pub fn need(&self, name: &str) -> Result<()> {
        if self.has_module(name)? {
            return Ok(());
        }
        self.insmod(name, &[] as &[&str])
    }

    /// Loads a module from a file of the machine.
    pub fn insmod_file(&self, path: &str, parameters: &[impl AsRef<str>]) -> Result<()> {
        let parameters: Vec<&str> = parameters.iter().map(AsRef::as_ref).collect();
        let parameters = parameters.join(" ");
        let what = format!("load {path} {parameters}");
        let call = Call::LoadModule {
            path: path.into(),
            parameters,
        };
        self.link.call(what.trim_end().into(), call).map(drop)
    }

    /// Unloads a module; one that is in use stays, and that is an error.
    pub fn rmmod(&self, name: &str) -> Result<()> {
        let call = Call::UnloadModule { name: name.into() };
        self.link.call(format!("unload {name}"), call).map(drop)
    }

    /// The loaded modules.
    pub fn modules(&self) -> Result<Vec<ModuleInfo>> {
        Ok(parse(&self.read_text("/proc/modules")?))
    }

    /// Whether a module is loaded.
    pub fn has_module(&self, name: &str) -> Result<bool> {
        Ok(self.modules()?.iter().any(|module| module.name == name))
    }

    /// Unloads whichever driver carries vsock in this guest, and loads `driver` in its place, even if
    /// that is the same one.
    pub fn use_driver(&self, driver: &Driver) -> Result<()> {
        self.unload_driver()?;
        self.insmod(driver.name(), driver.parameters())
    }

    /// Unloads whichever driver carries vsock in this guest, if there is one.
    pub fn unload_driver(&self) -> Result<()> {
        for module in self.modules()? {
            if self.traits.manifest.drivers.contains(&module.name) {
                self.rmmod(&module.name)?;
            }
        }
        Ok(())
    }
}

fn parse(table: &str) -> Vec<ModuleInfo> {
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        Some(ModuleInfo {
            name: fields.next()?.into(),
            size: fields.next()?.parse().ok()?,
            // Minus means that it cannot be unloaded.
            references: fields.next()?.parse().unwrap_or(u64::MAX),
            users: fields
                .next()?
                .split(',')
                .filter(|user| !user.is_empty() && *user != "-" && !user.starts_with('['))
                .map(Into::into)
                .collect(),
        })
    };
    table.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_understood() {
        let modules = parse(
            "vmw_vsock_virtio_transport 24576 0 - Live 0x0000000000000000\n\
             vsock 65536 4 vmw_vsock_virtio_transport,vmw_vsock_virtio_transport_common, Live 0x0\n\
             odd 4096 1 [permanent], Live 0x0 (OE)\n",
        );
        assert_eq!(modules.len(), 3);
        assert_eq!(modules[0].references, 0);
        assert!(modules[0].users.is_empty());
        assert_eq!(modules[1].size, 65536);
        assert_eq!(modules[1].users.len(), 2);
        assert!(modules[2].users.is_empty());
    }
}
