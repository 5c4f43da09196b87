// SPDX-License-Identifier: GPL-2.0
#include <linux/scatterlist.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/wait_bit.h>

int vsock_helper_virtio_find_vqs(struct virtio_device *vdev, unsigned int nvqs,
				 struct virtqueue *vqs[],
				 struct virtqueue_info vqs_info[])
{
	return virtio_find_vqs(vdev, nvqs, vqs, vqs_info, NULL);
}

void vsock_helper_virtio_del_vqs(struct virtio_device *vdev)
{
	vdev->config->del_vqs(vdev);
}

void vsock_helper_virtio_device_ready(struct virtio_device *vdev)
{
	virtio_device_ready(vdev);
}

/* virtio_has_feature() without its BUG() for a feature the driver did not offer. */
bool vsock_helper_virtio_test_bit(const struct virtio_device *vdev, unsigned int fbit)
{
	return fbit < VIRTIO_FEATURES_BITS && __virtio_test_bit(vdev, fbit);
}

/* False without a configuration space: config->get may be missing then. */
bool vsock_helper_virtio_config_get(struct virtio_device *vdev, unsigned int offset,
				    void *buf, unsigned int len)
{
	if (!vdev->config->get)
		return false;
	vdev->config->get(vdev, offset, buf, len);
	return true;
}

void vsock_helper_virtio_reset_if_active(struct virtio_device *vdev)
{
	if (vdev->config->get_status(vdev))
		virtio_reset_device(vdev);
}

void vsock_helper_virtio_set_priv(struct virtio_device *vdev, void *priv)
{
	/* Pairs with the acquire in vsock_helper_virtio_priv(). */
	smp_store_release(&vdev->priv, priv);
}

void *vsock_helper_virtio_priv(struct virtio_device *vdev)
{
	return smp_load_acquire(&vdev->priv);
}

/* The driver's last virtqueue is gone: see `virtio::QueueSet`. */
void vsock_helper_virtio_clear_priv(struct virtio_device *vdev)
{
	store_release_wake_up(&vdev->priv, NULL);
}

void vsock_helper_virtio_wait_priv_clear(struct virtio_device *vdev)
{
	wait_var_event(&vdev->priv, !smp_load_acquire(&vdev->priv));
}

/* Entry @n of a table whose last entry so far, if any, is @n - 1. */
void vsock_helper_sg_append(struct scatterlist *sg, unsigned int n,
			    const void *buf, unsigned int len)
{
	if (n)
		sg_unmark_end(&sg[n - 1]);
	sg_init_one(&sg[n], buf, len);
}
