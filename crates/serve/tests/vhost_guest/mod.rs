//! A guest without a kernel: memory in a shared file, virtqueues in it, and the client's side of
//! vhost-user as the crate `vhost` has it. Chains of any kind can be put into its queues.
#![allow(dead_code, reason = "each test uses some of it")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_serve::{BlockDevice, MemoryDevice, VhostUserOptions, VhostUserServer};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap,
    MmapRegion,
};
use vmm_sys_util::eventfd::EventFd;

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const OK: u8 = 0;
pub const IO_ERROR: u8 = 1;
pub const UNSUPPORTED: u8 = 2;

/// Descriptor flags.
pub const NEXT: u16 = 1;
pub const WRITABLE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// Bits of features.
pub const F_EVENT_INDEX: u64 = 1 << 29;
pub const F_PROTOCOL: u64 = 1 << 30;
pub const F_VERSION_1: u64 = 1 << 32;

/// Where the guest has its memory, where that is in its file, and its size.
pub const BASE: u64 = 0x1f57_9000;
const FILE_OFFSET: u64 = 0x5000;
pub const MEMORY_BYTES: u64 = 16 << 20;

/// Each queue's parts: descriptors, available ring, used ring.
const QUEUE_BYTES: u64 = 0x10000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;
/// What chains point to.
pub const DATA: u64 = BASE + 0x10_0000;

pub const QUEUE_SIZE: u16 = 64;

/// No wait of these tests is longer, whatever fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A descriptor as the guest writes it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub address: u64,
    pub bytes: u32,
    pub flags: u16,
    pub next: u16,
}

struct Queue {
    kick: EventFd,
    call: EventFd,
    next_available: u16,
    last_used: u16,
}

/// A guest that is connected.
pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap<()>,
    pub file: File,
    queues: Vec<Queue>,
}

/// A disk of memory and its server.
pub struct Rig {
    pub device: Arc<MemoryDevice>,
    pub server: Option<VhostUserServer>,
    pub directory: tempfile::TempDir,
}

impl Rig {
    pub fn new(disk_bytes: usize, options: VhostUserOptions) -> Rig {
        let device = Arc::new(MemoryDevice::new(disk_bytes, 4096));
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let server = VhostUserServer::start(device.clone(), &socket, options).unwrap();
        Rig {
            device,
            server: Some(server),
            directory,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn server(&self) -> &VhostUserServer {
        self.server.as_ref().unwrap()
    }

    pub fn guest(&self) -> Guest {
        Guest::connect(&self.socket(), 1)
    }

    pub fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.device.size_bytes() as usize];
        self.device.read_at(0, &mut content).unwrap();
        content
    }

    /// Waits until no client is there any more.
    pub fn wait_for_no_client(&self) {
        wait_until("the client is gone", || {
            self.server().stats().connected == 0
        });
    }
}

/// Waits for a condition that is sure to come.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Connects and agrees on those of the offered features that are in `wanted`.
fn negotiate(socket: &Path, wanted: u64) -> Frontend {
    let mut frontend = Frontend::connect(socket, 256).unwrap();
    frontend.set_owner().unwrap();
    let offered = frontend.get_features().unwrap();
    frontend.set_features(offered & wanted).unwrap();
    if offered & wanted & F_PROTOCOL != 0 {
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::REPLY_ACK));
        frontend.set_protocol_features(protocol).unwrap();
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    frontend
}

fn memory_file() -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("guest", flags).unwrap());
    file.set_len(FILE_OFFSET + MEMORY_BYTES).unwrap();
    file
}

impl Guest {
    /// Connects with everything that is offered, and starts so many queues.
    pub fn connect(socket: &Path, queues: usize) -> Guest {
        Guest::connect_with(socket, queues, u64::MAX)
    }

    /// Connects with those of the offered features that are in `wanted`.
    pub fn connect_with(socket: &Path, queues: usize, wanted: u64) -> Guest {
        let mut guest = Guest::shake_hands(socket, queues, wanted);
        for index in 0..queues {
            guest.start_queue(index, 0);
        }
        guest
    }

    /// Connects and shares the memory; no queue runs yet.
    pub fn shake_hands(socket: &Path, queues: usize, wanted: u64) -> Guest {
        let frontend = negotiate(socket, wanted);
        let file = memory_file();
        let offset = FileOffset::new(file.try_clone().unwrap(), FILE_OFFSET);
        let mapping = MmapRegion::from_file(offset, MEMORY_BYTES as usize).unwrap();
        let user_address = mapping.as_ptr() as u64;
        let region = GuestRegionMmap::new(mapping, GuestAddress(BASE)).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        frontend
            .set_mem_table(&[region_info(user_address, &file)])
            .unwrap();
        let queue = || Queue {
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(libc::EFD_NONBLOCK).unwrap(),
            next_available: 0,
            last_used: 0,
        };
        Guest {
            frontend,
            memory,
            file,
            queues: (0..queues).map(|_| queue()).collect(),
        }
    }

    /// Goes on with another server, as a virtual machine does whose server was killed: the same memory, the queues
    /// from the last answers on.
    pub fn reconnect(&mut self, socket: &Path) {
        self.frontend = negotiate(socket, u64::MAX);
        self.frontend.set_mem_table(&[self.region_info()]).unwrap();
        for index in 0..self.queues.len() {
            self.start_queue(index, self.queues[index].last_used);
        }
    }

    /// Where this process has what the guest has at `address`.
    pub fn user_address(&self, address: u64) -> u64 {
        let slice = self.memory.get_slice(GuestAddress(address), 1).unwrap();
        slice.ptr_guard_mut().as_ptr() as u64
    }

    pub fn region_info(&self) -> VhostUserMemoryRegionInfo {
        region_info(self.user_address(BASE), &self.file)
    }

    pub fn queue_address(index: usize) -> u64 {
        BASE + index as u64 * QUEUE_BYTES
    }

    pub fn start_queue(&mut self, index: usize, base: u16) {
        let call = &self.queues[index].call;
        self.frontend.set_vring_call(index, call).unwrap();
        self.start_queue_without_call(index, base);
    }

    /// Starts a queue; where its interrupt goes was said before.
    pub fn start_queue_without_call(&mut self, index: usize, base: u16) {
        let at = Guest::queue_address(index);
        let config = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: self.user_address(at),
            used_ring_addr: self.user_address(at + USED),
            avail_ring_addr: self.user_address(at + AVAILABLE),
            log_addr: None,
        };
        let frontend = &mut self.frontend;
        frontend.set_vring_num(index, QUEUE_SIZE).unwrap();
        frontend.set_vring_base(index, base).unwrap();
        frontend.set_vring_addr(index, &config).unwrap();
        frontend
            .set_vring_kick(index, &self.queues[index].kick)
            .unwrap();
        // Without protocol features a queue is enabled from its start.
        let _ = frontend.set_vring_enable(index, true);
    }

    pub fn config(&mut self, offset: u32, bytes: u32) -> Vec<u8> {
        let buffer = vec![0; bytes as usize];
        let flags = VhostUserConfigFlags::empty();
        let answer = self.frontend.get_config(offset, bytes, flags, &buffer);
        answer.unwrap().1
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.memory
            .write_slice(bytes, GuestAddress(address))
            .unwrap();
    }

    pub fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.memory
            .read_slice(&mut out, GuestAddress(address))
            .unwrap();
        out
    }

    /// Puts entries into a table.
    pub fn put_entries(&self, table: u64, first: u16, entries: &[Entry]) {
        for (index, entry) in (u64::from(first)..).zip(entries) {
            let mut bytes = entry.address.to_le_bytes().to_vec();
            bytes.extend(entry.bytes.to_le_bytes());
            bytes.extend(entry.flags.to_le_bytes());
            bytes.extend(entry.next.to_le_bytes());
            self.put(table + index * 16, &bytes);
        }
    }

    /// Makes a chain available that starts with this descriptor. The queue is not kicked.
    pub fn make_available(&mut self, queue: usize, head: u16) {
        let at = Guest::queue_address(queue) + AVAILABLE;
        let next = &mut self.queues[queue].next_available;
        let place = at + 4 + u64::from(*next % QUEUE_SIZE) * 2;
        *next = next.wrapping_add(1);
        let next = *next;
        self.put(place, &head.to_le_bytes());
        self.set_available(queue, next);
    }

    /// Sets how many chains there are, whether that is so or not.
    pub fn set_available(&self, queue: usize, index: u16) {
        let at = GuestAddress(Guest::queue_address(queue) + AVAILABLE + 2);
        self.memory.store(index, at, Ordering::Release).unwrap();
    }

    pub fn kick(&self, queue: usize) {
        self.queues[queue].kick.write(1).unwrap();
    }

    /// Sets how many answers there are, as a server before this one would have.
    pub fn set_used(&self, queue: usize, index: u16) {
        let at = GuestAddress(Guest::queue_address(queue) + USED + 2);
        self.memory.store(index, at, Ordering::Release).unwrap();
    }

    pub fn used_index(&self, queue: usize) -> u16 {
        let at = GuestAddress(Guest::queue_address(queue) + USED + 2);
        self.memory.load(at, Ordering::Acquire).unwrap()
    }

    /// Waits for the next answer as a driver does, woken by its interrupt: its head and bytes.
    pub fn wait_for_answer(&mut self, queue: usize) -> (u16, u32) {
        let at = Guest::queue_address(queue);
        let last = self.queues[queue].last_used;
        // Wakes us for this one, where event indices are in use.
        let event = GuestAddress(at + AVAILABLE + 4 + u64::from(QUEUE_SIZE) * 2);
        self.memory.store(last, event, Ordering::SeqCst).unwrap();
        std::sync::atomic::fence(Ordering::SeqCst);
        while self.used_index(queue) == last {
            self.wait_to_be_called(queue);
        }
        self.queues[queue].last_used = last.wrapping_add(1);
        let place = at + USED + 4 + u64::from(last % QUEUE_SIZE) * 8;
        let bytes = self.get(place, 8);
        let (head, written) = bytes.split_at(4);
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        (number(head) as u16, number(written))
    }

    /// Waits for an interrupt, whatever it is for.
    pub fn wait_to_be_called(&self, queue: usize) {
        let call = &self.queues[queue].call;
        wait_until("the interrupt", || call.read().is_ok());
    }

    /// Puts the header of a request at [`DATA`]; its data is to come 4 KiB later.
    pub fn put_header(&self, at: u64, kind: u32, sector: u64) {
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        self.put(at, &header);
    }

    /// A whole request, one descriptor for each part; its status and data.
    pub fn ask(&mut self, kind: u32, sector: u64, out: &[u8], bytes: usize) -> (u8, Vec<u8>) {
        self.ask_on(0, kind, sector, out, bytes)
    }

    pub fn ask_on(
        &mut self,
        queue: usize,
        kind: u32,
        sector: u64,
        out: &[u8],
        bytes: usize,
    ) -> (u8, Vec<u8>) {
        let at = DATA + queue as u64 * 0x20_0000;
        self.submit(queue, 0, at, kind, sector, out, bytes);
        self.kick(queue);
        let (head, written) = self.wait_for_answer(queue);
        assert_eq!(head, 0);
        assert_eq!(written as usize, bytes + 1);
        (self.status(at), self.get(at + 4096, bytes))
    }

    /// Makes a request available with the descriptors from `head` on and the memory at `at`.
    #[allow(clippy::too_many_arguments, reason = "all of a request")]
    pub fn submit(
        &mut self,
        queue: usize,
        head: u16,
        at: u64,
        kind: u32,
        sector: u64,
        out: &[u8],
        bytes: usize,
    ) {
        self.put_header(at, kind, sector);
        self.put(at + 16, &[0xaa]);
        self.put(at + 4096, out);
        let mut entries = vec![Entry {
            address: at,
            bytes: 16,
            flags: NEXT,
            next: head + 1,
        }];
        let data = [(out.len(), 0), (bytes, WRITABLE)];
        for (bytes, flag) in data.into_iter().filter(|(bytes, _)| *bytes > 0) {
            entries.push(Entry {
                address: at + 4096,
                bytes: bytes as u32,
                flags: NEXT | flag,
                next: head + entries.len() as u16 + 1,
            });
        }
        entries.push(Entry {
            address: at + 16,
            bytes: 1,
            flags: WRITABLE,
            next: 0,
        });
        self.put_entries(Guest::queue_address(queue), head, &entries);
        self.make_available(queue, head);
    }

    /// The status of the request whose memory is at `at`.
    pub fn status(&self, at: u64) -> u8 {
        self.get(at + 16, 1)[0]
    }

    /// Stops a queue as a driver does that goes; the next entry that the server would have taken.
    pub fn stop_queue(&self, index: usize) -> u32 {
        self.frontend.get_vring_base(index).unwrap()
    }
}

fn region_info(user_address: u64, file: &File) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: BASE,
        memory_size: MEMORY_BYTES,
        userspace_addr: user_address,
        mmap_offset: FILE_OFFSET,
        mmap_handle: file.as_raw_fd(),
    }
}
