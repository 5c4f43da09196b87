# SPDX-License-Identifier: GPL-2.0
#
# The module, against the running kernel or the tree given as KDIR=:
#
#   make                    build virtio_vsock_rs.ko
#   make modules_install    install it
#   make clean
#   make clippy fmt-check doc   lints, formatting, documentation of the Rust code
#
# MO=DIR puts what is built there and leaves the source folder clean.
#
# The lab, which brings its own kernel, as root on Debian 12 or 13:
#
#   make debian-module      build/module/virtio_vsock_rs.ko for Debian 13's
#                           backports kernel, without installing anything here
#   make demo               the C driver and this one side by side, in a table
#   make check              all tests
#   make conformance        what applications and operators do, with both drivers
#   make hostile            what a broken or malicious device does to both drivers
#   make fuzz               the same at random, for SECONDS= and from SEED=
#   make check-debug        what a kernel with KASAN, lockdep, kmemleak, KUnit and
#                           failing allocations sees, of both drivers
#   make mutants            faults put into the driver, and whether tests see them
#   make shell              a prompt in a guest with the module loaded
#   make bench              where the time goes, with intervals and plots
#
# RIG=wire|nested|kvm and KERNEL=RELEASE choose what the lab takes; QUICK=1 makes
# a shorter bench, EXTRA=NAME:FOLDER measures further modules beside it.

KDIR ?= /lib/modules/$(shell uname -r)/build
kbuild = $(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(MO),MO=$(abspath $(MO)))

crate-roots := rust/bindings/vsock_bindings.rs rust/kernel/vsock_kernel.rs \
	       rust/driver/vsock_driver.rs
rustfmt = rustfmt --edition 2021 --config-path $(KDIR)/.rustfmt.toml

.DEFAULT_GOAL := modules
.PHONY: modules modules_install clean rust-analyzer clippy fmt fmt-check doc \
	rust-metadata debian-module demo check check-debug conformance hostile \
	fuzz mutants shell bench help

modules: rust-metadata
	$(kbuild) modules

modules_install clean rust-analyzer:
	$(kbuild) $@

# The kernel's own lints, all of them errors.
clippy: rust-metadata
	$(kbuild) CLIPPY=1 W=e modules

fmt:
	$(rustfmt) $(crate-roots)

fmt-check:
	$(rustfmt) --check $(crate-roots)

# HTML in rust/doc, or $(MO)/rust/doc.
doc: rust-metadata
	$(kbuild) VSOCK_DOC=y modules

# What a kernel's headers package lacks: the Rust metadata of the kernel crates.
rust-metadata:
	@if test -e $(KDIR)/rust/libkernel.rmeta; then exit 0; fi; \
	if ! test -d $(KDIR); then \
		echo "$(KDIR) is not there: set KDIR= to a kernel tree that is prepared for modules"; \
	elif grep -qs '^CONFIG_RUST=y' $(KDIR)/.config $(KDIR)/include/config/auto.conf; then \
		echo "$(KDIR) has no Rust metadata (rust/libkernel.rmeta), which headers packages leave out: run 'make debian-module' for a Debian kernel, or 'make modules_prepare' in the kernel's full source with this .config"; \
	else \
		echo "$(KDIR) is of a kernel without CONFIG_RUST=y, which cannot load a Rust module: take one that has it, such as Debian 13's backports kernel"; \
	fi >&2; exit 1

# Everything below runs inside of the lab root, which tools/labroot.sh makes.
lab = tools/labroot.sh run tools/lab.sh

demo check check-debug conformance hostile fuzz mutants shell bench:
	@$(lab) $@

help:
	@sed -n '3,/^$$/{/^#/!d; s/^#\{1,2\} \{0,1\}//; p}' Makefile

debian-module:
	@$(lab) build
