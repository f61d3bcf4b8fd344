//! What the guest's driver is told of the disk: feature bits and the configuration space.

use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH,
    VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_F_TOPOLOGY, VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};

use crate::block_device::BlockDevice;
use crate::vhost::execute::{DISCARD_LIMITS, SECTOR_BYTES, ZERO_LIMITS};
use crate::vhost::options::VhostUserOptions;

/// Bytes of the configuration space; a client may ask for more, which are zero.
const CONFIG_BYTES: usize = 96;

/// Bytes that the protocol lets a client ask for at most.
pub(crate) const CONFIG_BYTES_MAX: usize = 256;

/// Longest segment of a request, in bytes: with the number of segments it says what a guest may ask
/// for in one piece, more than the longest transaction.
const SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// Where the byte is that says whether the guest is to flush.
pub(crate) const WRITE_BACK_OFFSET: usize = 32;

/// The driver's own feature bits for this disk.
pub(crate) fn features(options: &VhostUserOptions) -> u64 {
    let mut features = 0;
    let mut offer = |bit: u32| features |= 1_u64 << bit;
    for bit in [
        VIRTIO_F_VERSION_1,
        VIRTIO_RING_F_EVENT_IDX,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_BLK_F_SIZE_MAX,
        VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_BLK_SIZE,
        VIRTIO_BLK_F_TOPOLOGY,
        // Both, so that a guest reads that it need not flush; with the first alone it would.
        VIRTIO_BLK_F_FLUSH,
        VIRTIO_BLK_F_CONFIG_WCE,
    ] {
        offer(bit);
    }
    if options.queues > 1 {
        offer(VIRTIO_BLK_F_MQ);
    }
    if options.read_only {
        offer(VIRTIO_BLK_F_RO);
    } else {
        offer(VIRTIO_BLK_F_DISCARD);
        offer(VIRTIO_BLK_F_WRITE_ZEROES);
    }
    features
}

/// The configuration space, all numbers little-endian as in `struct virtio_blk_config`.
pub(crate) fn space(
    device: &dyn BlockDevice,
    options: &VhostUserOptions,
    write_back: u8,
) -> [u8; CONFIG_BYTES_MAX] {
    let block_sectors = (device.block_size() / SECTOR_BYTES as u32).max(1);
    let mut space = [0; CONFIG_BYTES_MAX];
    let mut put = |offset: usize, bytes: &[u8]| {
        debug_assert!(offset + bytes.len() <= CONFIG_BYTES);
        space[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    // capacity, size_max, seg_max
    put(0, &(device.size_bytes() / SECTOR_BYTES).to_le_bytes());
    put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
    put(12, &u32::from(options.queue_size - 2).to_le_bytes());
    // blk_size: any sector can be written, though whole blocks are cheapest.
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // topology: sectors of a block as a power of two, nothing shifted, the least for good speed
    put(24, &[block_sectors.ilog2() as u8, 0]);
    put(26, &(block_sectors as u16).to_le_bytes());
    put(WRITE_BACK_OFFSET, &[write_back]);
    put(34, &options.queues.to_le_bytes());
    if !options.read_only {
        // max_discard_sectors, max_discard_seg, discard_sector_alignment
        put(36, &DISCARD_LIMITS.sectors.to_le_bytes());
        put(40, &DISCARD_LIMITS.ranges.to_le_bytes());
        put(44, &block_sectors.to_le_bytes());
        // max_write_zeroes_sectors, max_write_zeroes_seg, write_zeroes_may_unmap
        put(48, &ZERO_LIMITS.sectors.to_le_bytes());
        put(52, &ZERO_LIMITS.ranges.to_le_bytes());
        put(56, &[1]);
    }
    space
}
