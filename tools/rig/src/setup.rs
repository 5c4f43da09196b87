// SPDX-License-Identifier: GPL-2.0

//! What may be unusual about the guest under test and its vsock device.

/// Interrupts of three queues, and of the configuration.
const VECTORS: u32 = 4;

/// How the guest under test is set up; by default, as usual, which comes before all else in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuestSetup {
    no_indirect: bool,
    no_seqpacket: bool,
    access_platform: bool,
    own_interrupts: bool,
    native_hotplug: bool,
    sleeper: bool,
    ring: Option<u16>,
    kernel_options: Vec<String>,
}

impl GuestSetup {
    /// Its device offers no indirect descriptors.
    pub fn without_indirect(mut self) -> Self {
        self.no_indirect = true;
        self
    }

    /// Its device offers no SOCK_SEQPACKET.
    pub fn without_seqpacket(mut self) -> Self {
        self.no_seqpacket = true;
        self
    }

    /// Its device wants to be given DMA addresses, as behind an IOMMU (`iommu_platform=on`).
    pub fn access_platform(mut self) -> Self {
        self.access_platform = true;
        self
    }

    /// Each of its device's queues has an interrupt of its own. As QEMU has it, they share one, so that
    /// an interrupt for one queue has the driver look at the others, too.
    pub fn own_interrupts(mut self) -> Self {
        self.own_interrupts = true;
        self
    }

    /// Its slots are its own kernel's affair, and not the firmware's, so that a device can be torn out of
    /// one ([`crate::Machine::tear_out`]). The wire rig has such.
    pub fn native_hotplug(mut self) -> Self {
        self.native_hotplug = true;
        self
    }

    /// It can be put to sleep ([`crate::Machine::sleep_and_wake`]). It does without the lab root then, whose
    /// driver refuses to sleep. The wire rig has such.
    pub fn sleeper(mut self) -> Self {
        self.sleeper = true;
        self
    }

    /// Its device has rings of this size, a power of two, instead of 128. The wire rig has such.
    pub fn ring(mut self, size: u16) -> Self {
        self.ring = Some(size);
        self
    }

    /// Its kernel is given one more option on the command line, such as `swiotlb=force`.
    pub fn kernel_option(mut self, option: impl Into<String>) -> Self {
        self.kernel_options.push(option.into());
        self
    }

    /// Whether its slots are its kernel's affair.
    pub(crate) fn has_native_hotplug(&self) -> bool {
        self.native_hotplug
    }

    /// Whether it can be put to sleep.
    pub(crate) fn is_sleeper(&self) -> bool {
        self.sleeper
    }

    /// The size of its device's rings, if that is unusual.
    pub(crate) fn ring_size(&self) -> Option<u16> {
        self.ring
    }

    /// What is added to its kernel's command line.
    pub(crate) fn command_line(&self) -> String {
        self.kernel_options.join(" ")
    }

    /// Properties of its vsock device, as QEMU has them.
    pub(crate) fn device_properties(&self) -> Vec<(&'static str, serde_json::Value)> {
        // Switches that are turned over; the last one QEMU calls neither on nor off by default.
        let properties = [
            (self.no_indirect, "indirect_desc", false.into()),
            (self.access_platform, "iommu_platform", true.into()),
            (self.own_interrupts, "vectors", VECTORS.into()),
            (self.no_seqpacket, "seqpacket", "off".into()),
        ];
        let wanted = properties.into_iter().filter(|(wanted, _, _)| *wanted);
        wanted.map(|(_, name, value)| (name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_guest_has_nothing_added() {
        let usual = GuestSetup::default();
        assert!(usual.device_properties().is_empty());
        assert_eq!(usual.command_line(), "");
    }

    #[test]
    fn each_wish_is_added() {
        let odd = GuestSetup::default()
            .without_indirect()
            .without_seqpacket()
            .access_platform()
            .own_interrupts()
            .kernel_option("swiotlb=force")
            .kernel_option("nosmp");
        let names: Vec<&str> = odd
            .device_properties()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let all = ["indirect_desc", "iommu_platform", "vectors", "seqpacket"];
        assert_eq!(names, all);
        assert_eq!(odd.command_line(), "swiotlb=force nosmp");
    }
}
