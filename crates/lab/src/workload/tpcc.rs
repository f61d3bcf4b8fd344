//! A database under TPC-C (Tinca §5.2.2): pages of which a transaction changes a few rows, and an
//! fsync for each transaction.
//!
//! The model: a database file of 350 warehouses and a shared item table; a warehouse is one page of
//! the warehouse and its districts, a quarter customers, a third stock, and the rest orders, which
//! are written round and round. Transactions come in TPC-C's mix (45 % New-Order, 43 % Payment, and 4 %
//! each of Order-Status, Delivery and Stock-Level), choose customers and items with NURand, and touch
//! remote warehouses as the specification says (1 % of the items, 15 % of the payments).
//!
//! Each of the users works in a warehouse of its own, transactions take turns among them, and a user
//! moves to another warehouse after as many transactions as a warehouse has pages. More users so
//! spread the working set over more warehouses. The last rule is a choice. With pages read through DRAM before they are
//! written nearly all writes hit, where the paper saw 93 % with 20 users (§5.4.2): its Figure 12c is not reproduced.
//!
//! A changed page has a new header (checksum and sequence number), the same in its trailer, and new
//! bytes in the rows that changed. Pages are read through the kernel's page cache, since ext4 has no direct I/O in
//! `data=journal`; the buffer pool of MySQL's default size, a 64th of the cache, would absorb few. The redo log and the doublewrite buffer are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, BLOCK_BYTES, FileWorkload, Operation, Scale, TINCA_PAGES_BYTES};
use crate::filesystem::{FileId, FileSystem, FileSystemOptions};

/// Bytes of a row that an update changes: its counters and its transaction's number.
const UPDATE_BYTES: usize = 33;
/// Bytes of an order line, and how far the rows of a page are apart.
const LINE_BYTES: usize = 54;
const ROW_BYTES: usize = 256;
/// Where InnoDB's page header has the sequence number.
const SEQUENCE_AT: usize = 16;
/// Bytes of the page's header and of its trailer.
const HEADER_BYTES: usize = 38;
const TRAILER_BYTES: usize = 8;

/// What the database is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TpccOptions {
    /// Bytes of the database.
    pub data_bytes: u64,
    /// Warehouses.
    pub warehouses: u64,
    /// Users, at least one: Tinca's Figure 8 varies them from 5 to 60.
    pub users: u64,
    /// Bytes of a page: 4,096 or 16,384.
    pub page_bytes: usize,
    /// Blocks of a transaction at most.
    pub transaction_blocks_max: u64,
    /// Bytes of DRAM for pages.
    pub page_cache_bytes: u64,
}

impl TpccOptions {
    /// 350 warehouses in 32 GB (Table 2), scaled in bytes.
    #[must_use]
    pub fn new(scale: Scale, users: u64) -> TpccOptions {
        TpccOptions {
            data_bytes: scale.bytes(32 << 30),
            warehouses: 350,
            users,
            page_bytes: 4096,
            transaction_blocks_max: scale.transaction_blocks_max().max(64),
            page_cache_bytes: scale.bytes(TINCA_PAGES_BYTES),
        }
    }
}

/// Parts of a warehouse, in pages from its first one.
#[derive(Clone, Copy)]
struct Parts {
    pages: u64,
    customers: u64,
    stock: u64,
    orders: u64,
}

/// One user: where it works and for how long still.
#[derive(Clone, Copy)]
struct User {
    warehouse: u64,
    stays: u64,
}

/// The generator.
pub(super) struct Tpcc {
    options: TpccOptions,
    seed: u64,
    random: fastrand::Rng,
    file_system: FileSystem,
    file: FileId,
    items: u64,
    parts: Parts,
    users: Vec<User>,
    /// Bytes inserted into each warehouse's orders so far.
    inserted: Vec<u64>,
    /// Pages that were changed; all others are as [`first_page`] makes them.
    pages: BTreeMap<u64, Box<[u8]>>,
    sequence: u64,
}

/// What one transaction touches, and the bytes that its rows changed.
#[derive(Default)]
struct Touched {
    read: BTreeSet<u64>,
    /// Where in a page, and how many bytes.
    changed: BTreeMap<u64, Vec<(usize, usize)>>,
}

impl Tpcc {
    pub(super) fn new(options: &TpccOptions, seed: u64) -> Tpcc {
        assert!(options.users > 0, "TPC-C has users");
        let pages = options.data_bytes / options.page_bytes as u64;
        let items = (pages / 4096).max(1);
        let warehouse_pages = ((pages - items) / options.warehouses).max(8);
        let parts = Parts {
            pages: warehouse_pages,
            customers: (warehouse_pages / 4).max(1),
            stock: (warehouse_pages / 3).max(1),
            orders: warehouse_pages - 1 - warehouse_pages / 4 - warehouse_pages / 3,
        };
        let page_blocks = (options.page_bytes / BLOCK_BYTES) as u64;
        let blocks = (items + options.warehouses * warehouse_pages) * page_blocks;
        let mut file_system = FileSystem::new(&FileSystemOptions {
            disk_bytes: (blocks + blocks / 32 + 128) * BLOCK_BYTES as u64,
            inodes: 32,
            transaction_blocks_max: options.transaction_blocks_max,
            page_cache_blocks: options.page_cache_bytes / BLOCK_BYTES as u64,
        });
        let directory = file_system.create_directory(8);
        let mut none = Vec::new();
        let file = file_system.create(directory, 1, &mut none);
        let fill = &mut |block: u64, bytes: &mut [u8]| {
            let page = first_page(seed, block / page_blocks, options.page_bytes);
            let start = (block % page_blocks) as usize * BLOCK_BYTES;
            bytes.copy_from_slice(&page[start..start + BLOCK_BYTES]);
        };
        file_system.append(file, blocks, fill, &mut none);
        let mut random = fastrand::Rng::with_seed(seed);
        let users = (0..options.users)
            .map(|_| User {
                warehouse: random.u64(..options.warehouses),
                stays: random.u64(1..=warehouse_pages),
            })
            .collect();
        Tpcc {
            options: options.clone(),
            seed,
            random,
            file_system,
            file,
            items,
            parts,
            users,
            inserted: vec![0; options.warehouses as usize],
            pages: BTreeMap::new(),
            sequence: seed,
        }
    }

    /// TPC-C's non-uniform choice among `choices`: some are asked for far more often.
    fn non_uniform(&mut self, spread: u64, choices: u64) -> u64 {
        let (low, high) = (self.random.u64(..=spread), self.random.u64(..choices));
        // The constant is one that the specification has drawn once a run.
        ((low | high) + 91) % choices
    }

    fn first_of(&self, warehouse: u64) -> u64 {
        self.items + warehouse * self.parts.pages
    }

    fn customer(&mut self, warehouse: u64) -> u64 {
        // 30,000 customers, some of them chosen with NURand(1023).
        let customer = self.non_uniform(1023, 3000) * 10 + self.random.u64(..10);
        self.first_of(warehouse) + 1 + customer * self.parts.customers / 30_000
    }

    fn item(&mut self) -> u64 {
        self.non_uniform(8191, 100_000)
    }

    fn stock(&self, warehouse: u64, item: u64) -> u64 {
        let first = self.first_of(warehouse) + 1 + self.parts.customers;
        first + item * self.parts.stock / 100_000
    }

    /// The page of the orders that were inserted `back` bytes ago.
    fn orders(&self, warehouse: u64, back: u64) -> u64 {
        let first = self.first_of(warehouse) + 1 + self.parts.customers + self.parts.stock;
        let at = self.inserted[warehouse as usize].saturating_sub(back);
        first + at / self.usable_bytes() % self.parts.orders
    }

    fn usable_bytes(&self) -> u64 {
        (self.options.page_bytes - HEADER_BYTES - TRAILER_BYTES) as u64
    }

    /// Inserts bytes at the end of the warehouse's orders.
    fn insert(&mut self, warehouse: u64, bytes: usize, touched: &mut Touched) {
        let mut left = bytes;
        while left > 0 {
            let page = self.orders(warehouse, 0);
            let inside = (self.inserted[warehouse as usize] % self.usable_bytes()) as usize;
            let len = left.min(self.usable_bytes() as usize - inside);
            touched.change(page, HEADER_BYTES + inside, len);
            self.inserted[warehouse as usize] += len as u64;
            left -= len;
        }
    }

    /// Updates a row somewhere in the page.
    fn update(&mut self, page: u64, touched: &mut Touched) {
        let rows = self.options.page_bytes / ROW_BYTES;
        let row = self.random.usize(..rows) * ROW_BYTES;
        // The first row begins after the header; a row's counters are in its middle.
        touched.change(page, row + ROW_BYTES / 2, UPDATE_BYTES);
    }

    fn other_warehouse(&mut self) -> u64 {
        self.random.u64(..self.options.warehouses)
    }

    fn new_order(&mut self, warehouse: u64, touched: &mut Touched) {
        let customer = self.customer(warehouse);
        touched.read.insert(customer);
        self.update(self.first_of(warehouse), touched);
        let lines = self.random.usize(5..=15);
        for _ in 0..lines {
            let item = self.item();
            touched.read.insert(item * self.items / 100_000);
            let supplier = match self.random.u32(..100) {
                0 => self.other_warehouse(),
                _ => warehouse,
            };
            self.update(self.stock(supplier, item), touched);
        }
        self.insert(warehouse, 32 + lines * LINE_BYTES, touched);
    }

    fn payment(&mut self, warehouse: u64, touched: &mut Touched) {
        let home = match self.random.u32(..100) {
            0..15 => self.other_warehouse(),
            _ => warehouse,
        };
        let customer = self.customer(home);
        self.update(customer, touched);
        let first = self.first_of(warehouse);
        // The warehouse's and the district's totals.
        self.update(first, touched);
        self.update(first, touched);
        self.insert(warehouse, 46, touched);
    }

    fn delivery(&mut self, warehouse: u64, touched: &mut Touched) {
        for district in 0..10 {
            let orders = self.orders(warehouse, district * 600);
            self.update(orders, touched);
            let customer = self.customer(warehouse);
            self.update(customer, touched);
        }
    }

    fn stock_level(&mut self, warehouse: u64, touched: &mut Touched) {
        touched.read.insert(self.first_of(warehouse));
        for back in 0..4 {
            let usable = self.usable_bytes();
            touched.read.insert(self.orders(warehouse, back * usable));
        }
        for _ in 0..20 {
            let item = self.item();
            touched.read.insert(self.stock(warehouse, item));
        }
    }

    /// Performs one transaction of the mix for the next user.
    fn transaction(&mut self) -> Touched {
        let user = self.random.usize(..self.users.len());
        if self.users[user].stays == 0 {
            self.users[user] = User {
                warehouse: self.random.u64(..self.options.warehouses),
                stays: self.parts.pages,
            };
        }
        self.users[user].stays -= 1;
        let warehouse = self.users[user].warehouse;
        let mut touched = Touched::default();
        match self.random.u32(..100) {
            0..45 => self.new_order(warehouse, &mut touched),
            45..88 => self.payment(warehouse, &mut touched),
            88..92 => {
                let customer = self.customer(warehouse);
                touched.read.insert(customer);
                touched.read.insert(self.orders(warehouse, 600));
            }
            92..96 => self.delivery(warehouse, &mut touched),
            _ => self.stock_level(warehouse, &mut touched),
        }
        touched
    }

    /// Gives the page new bytes in these places, and in its header and trailer.
    fn change_page(&mut self, number: u64, places: &[(usize, usize)]) {
        let (seed, page_bytes) = (self.seed, self.options.page_bytes);
        self.sequence += 1;
        let stamp = self.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let page = self
            .pages
            .entry(number)
            .or_insert_with(|| first_page(seed, number, page_bytes));
        for &(start, len) in places {
            let end = (start + len).min(page_bytes - TRAILER_BYTES);
            self.random.fill(&mut page[start..end]);
        }
        page[..4].copy_from_slice(&stamp.to_le_bytes()[..4]);
        page[SEQUENCE_AT..SEQUENCE_AT + 8].copy_from_slice(&self.sequence.to_le_bytes());
        page[page_bytes - TRAILER_BYTES..].copy_from_slice(&stamp.to_le_bytes());
    }
}

impl Touched {
    fn change(&mut self, page: u64, start: usize, len: usize) {
        self.changed.entry(page).or_default().push((start, len));
    }
}

/// A page of the freshly loaded database.
fn first_page(seed: u64, number: u64, page_bytes: usize) -> Box<[u8]> {
    let mut page = vec![0; page_bytes].into_boxed_slice();
    fastrand::Rng::with_seed(seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .fill(&mut page);
    page
}

impl FileWorkload for Tpcc {
    fn name(&self) -> &str {
        "tpcc"
    }

    fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    fn file_system_mut(&mut self) -> &mut FileSystem {
        &mut self.file_system
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        self.file_system.advance_clock(1_000_000);
        let touched = self.transaction();
        let page_blocks = (self.options.page_bytes / BLOCK_BYTES) as u64;
        // A page is read before it is changed.
        let both: BTreeSet<u64> = touched
            .read
            .iter()
            .chain(touched.changed.keys())
            .copied()
            .collect();
        for &page in &both {
            let first = page * page_blocks;
            self.file_system
                .read_quietly(self.file, first, page_blocks, actions);
        }
        let mut payload = 0;
        for (&number, places) in &touched.changed {
            self.change_page(number, places);
            payload += places.iter().map(|&(_, len)| len).sum::<usize>();
            let page = &self.pages[&number];
            let fill = &mut |block: u64, bytes: &mut [u8]| {
                let start = (block % page_blocks) as usize * BLOCK_BYTES;
                bytes.copy_from_slice(&page[start..start + BLOCK_BYTES]);
            };
            let first = number * page_blocks;
            self.file_system
                .write(self.file, first, page_blocks, fill, actions);
        }
        self.file_system.commit(actions);
        Operation {
            writes: 1,
            reads: both.len() as u64,
            payload_bytes: payload as u64,
        }
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        // Until the users have been in so many warehouses that these fill the cache.
        cache_blocks * 2
    }
}
