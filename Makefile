# SPDX-License-Identifier: GPL-2.0
KDIR ?= /lib/modules/$(shell uname -r)/build
modules modules_install clean rust-analyzer:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(MO),MO=$(abspath $(MO))) $@
