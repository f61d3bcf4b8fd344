//! What a device holds, page by page: pages that are the same are shared.

use crate::page::PAGE_BYTES;
use std::sync::Arc;

/// A page, with a number that tells it from others.
#[derive(Debug)]
pub struct ShadowPage {
    bytes: Box<[u8]>,
    hash: u64,
}

/// Folded multiplication, a word at a time.
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(0xE703_7ED1_A0B4_28DB_u64);
    (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(29)
}

impl ShadowPage {
    /// A page of these bytes.
    ///
    /// # Panics
    /// They are not as many as a page has.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Arc<ShadowPage> {
        assert_eq!(bytes.len(), PAGE_BYTES);
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        Arc::new(ShadowPage {
            hash: words.fold(1, fold),
            bytes: bytes.into(),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// All pages of a device.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Arc<ShadowPage>>,
}

impl Image {
    /// So many pages of zeroes.
    #[must_use]
    pub fn zeroed(pages: usize) -> Image {
        let page = ShadowPage::new(&[0; PAGE_BYTES]);
        Image {
            pages: vec![page; pages],
        }
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// One of them.
    #[must_use]
    pub fn page(&self, number: usize) -> &Arc<ShadowPage> {
        &self.pages[number]
    }

    /// Puts another in its place.
    pub fn set(&mut self, number: usize, page: Arc<ShadowPage>) {
        self.pages[number] = page;
    }

    /// A number that tells it from others.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.pages
            .iter()
            .fold(7, |hash, page| fold(hash, page.hash))
    }
}
