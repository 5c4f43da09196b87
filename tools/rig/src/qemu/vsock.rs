// SPDX-License-Identifier: GPL-2.0

//! The vsock devices of a guest: the one that it boots with, and a second one to be plugged in.

use super::monitor::Qmp;
use super::spec::{self, VmSpec};
use crate::error::{Error, Result};
use crate::setup::GuestSetup;
use qapi::qmp;
use std::path::PathBuf;
use std::time::Duration;

/// A guest gives up its device when it has processed the request, which takes it a while.
const UNPLUG_LIMIT: Duration = Duration::from_secs(60);

/// The number of a socket device, from the virtio specification.
const VIRTIO_ID: u32 = 19;
/// Its queues, and the bytes of its configuration, from there as well.
const QUEUES: u32 = 3;
const CONFIG_SIZE: u32 = 8;

/// One of a guest's vsock devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VsockDevice {
    /// The one that it boots with.
    First,
    /// Another one, for which the guest has a free slot.
    Second,
    /// One in the place of the second that has its rx queue only, which no driver can work with. The
    /// wire rig has it.
    Crippled,
}

/// What serves a guest's vsock devices, the first one first.
#[derive(Clone, Debug)]
pub(crate) enum VsockBackend {
    /// Sockets of the wire.
    Wire([PathBuf; 2]),
    /// The host's vhost-vsock, under these addresses.
    Vhost([u32; 2]),
}

/// The vsock devices of one guest.
#[derive(Clone, Debug)]
pub(crate) struct VsockDevices {
    /// What serves them.
    pub(crate) backend: VsockBackend,
    /// What is unusual about them.
    pub(crate) setup: GuestSetup,
}

impl VsockDevice {
    fn number(self) -> u8 {
        match self {
            VsockDevice::First => 0,
            VsockDevice::Second | VsockDevice::Crippled => 1,
        }
    }

    fn id(self) -> String {
        format!("vsock{}", self.number())
    }

    /// The id of the character device that leads to the wire.
    fn port(self) -> String {
        format!("vsock{}-port", self.number())
    }
}

impl VsockDevices {
    /// Gives a virtual machine its first device.
    pub(crate) fn add_first(&self, spec: &mut VmSpec) {
        let device = VsockDevice::First;
        if let Some(path) = self.backend.socket(device) {
            let port = device.port();
            spec.option("-chardev", format!("socket,id={port},path={path}"));
        }
        let (driver, properties) = self.device(device);
        let (id, slot) = (device.id(), self.backend.bus(device));
        let mut option = format!("{driver},id={id},bus={slot}");
        for (property, value) in properties {
            // Shown bare, as QEMU's command line wants it.
            let value = value.as_str().map_or_else(|| value.to_string(), Into::into);
            option += &format!(",{property}={value}");
        }
        spec.option("-device", option);
    }

    /// Plugs a device in.
    pub(crate) fn plug(&self, qmp: &mut Qmp, device: VsockDevice) -> Result<()> {
        if let (VsockBackend::Vhost(_), VsockDevice::Crippled) = (&self.backend, device) {
            let what = "vhost-vsock has all of its queues; the wire rig has a crippled device";
            return Err(Error::Setup(what.into()));
        }
        if let Some(path) = self.backend.socket(device) {
            let data = qmp::UnixSocketAddress {
                abstract_: None,
                tight: None,
                path,
            };
            qmp.add_socket(device.port(), qmp::SocketAddressLegacy::unix(data.into()))?;
        }
        let (driver, properties) = self.device(device);
        let add = qmp::device_add {
            driver: driver.into(),
            id: Some(device.id()),
            bus: Some(self.backend.bus(device)),
            arguments: properties.into_iter().collect(),
        };
        qmp.execute(add).map(drop)
    }

    /// Unplugs a device and waits until the guest has given it up.
    pub(crate) fn unplug(&self, qmp: &mut Qmp, device: VsockDevice) -> Result<()> {
        qmp.execute(qmp::device_del { id: device.id() })?;
        self.await_gone(qmp, device)
    }

    /// Waits until QEMU has no trace of a device any more.
    pub(crate) fn await_gone(&self, qmp: &mut Qmp, device: VsockDevice) -> Result<()> {
        let what = format!("the guest to give up its device {}", device.id());
        qmp.wait(what, UNPLUG_LIMIT, |qmp| {
            Ok(!qmp.devices()?.contains(&device.id()))
        })?;
        if self.backend.socket(device).is_none() {
            return Ok(());
        }
        // The device has left the tree, but QEMU frees it a little later, and until then it holds its
        // end of the character device.
        let what = format!("QEMU to let go of {}", device.port());
        qmp.wait(what, UNPLUG_LIMIT, |qmp| {
            match qmp.execute(qmp::chardev_remove { id: device.port() }) {
                Ok(_) => Ok(true),
                Err(Error::Monitor { message, .. }) if message.ends_with("is busy") => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// The number by which the guest knows the slot of PCI Express that a device sits in.
    pub(crate) fn slot(&self, device: VsockDevice) -> Result<u8> {
        match self.backend {
            VsockBackend::Wire(_) => Ok(spec::slot_number(device.number())),
            VsockBackend::Vhost(_) => Err(Error::Setup(
                "vhost-vsock devices sit on the older PCI bus, which has no slots whose power can be \
                 cut; the wire rig's have them"
                    .into(),
            )),
        }
    }

    /// The device's driver in QEMU, and the properties that say what it is and what serves it.
    fn device(&self, device: VsockDevice) -> (&'static str, Vec<(String, serde_json::Value)>) {
        let (driver, mut properties) = match &self.backend {
            VsockBackend::Wire(_) => wire_device(device, self.setup.ring_size()),
            VsockBackend::Vhost(cids) => (
                "vhost-vsock-pci",
                vec![("guest-cid", cids[usize::from(device.number())].into())],
            ),
        };
        if device != VsockDevice::Crippled {
            properties.extend(self.setup.device_properties());
        }
        let owned = properties
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        (driver, owned.collect())
    }
}

impl VsockBackend {
    /// The bus that a device is plugged into.
    fn bus(&self, device: VsockDevice) -> String {
        match self {
            VsockBackend::Wire(_) => spec::slot_id(device.number()),
            VsockBackend::Vhost(_) => "pci.0".into(),
        }
    }

    /// The socket that a device needs, if it is one of the wire's.
    fn socket(&self, device: VsockDevice) -> Option<String> {
        match self {
            VsockBackend::Wire(sockets) => {
                Some(sockets[usize::from(device.number())].display().to_string())
            }
            VsockBackend::Vhost(_) => None,
        }
    }
}

/// A device that the wire serves.
fn wire_device(
    device: VsockDevice,
    ring: Option<u16>,
) -> (&'static str, Vec<(&'static str, serde_json::Value)>) {
    let port = ("chardev", device.port().into());
    // QEMU's socket device has rings of one size only. But it has a device for any virtio device that
    // a process of its own serves, and that can be a socket device with other rings, or with too few.
    let (rings, size, config) = match (device, ring) {
        (VsockDevice::Crippled, _) => (1, 128, 0),
        (_, Some(size)) => (QUEUES, size, CONFIG_SIZE),
        (_, None) => return ("vhost-user-vsock-pci", vec![port]),
    };
    let properties = vec![
        port,
        ("virtio-id", VIRTIO_ID.into()),
        ("num_vqs", rings.into()),
        ("vq_size", size.into()),
        ("config_size", config.into()),
    ];
    ("vhost-user-test-device-pci", properties)
}
