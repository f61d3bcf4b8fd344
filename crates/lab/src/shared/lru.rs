//! A list of numbered things from the most to the least recently used, in DRAM.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    is_in: bool,
}

/// The list. Every operation takes constant time.
pub(crate) struct Lru {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Lru {
    /// An empty list of numbers below `capacity`.
    pub(crate) fn new(capacity: usize) -> Lru {
        let out = Link {
            newer: NONE,
            older: NONE,
            is_in: false,
        };
        Lru {
            links: vec![out; capacity],
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }

    /// How many are in the list.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes a number the most recently used one, whether or not it was in the list.
    pub(crate) fn touch(&mut self, number: u32) {
        self.remove(number);
        let newest = self.newest;
        self.links[number as usize] = Link {
            newer: NONE,
            older: newest,
            is_in: true,
        };
        match newest {
            NONE => self.oldest = number,
            newest => self.links[newest as usize].newer = number,
        }
        self.newest = number;
        self.len += 1;
    }

    /// Takes a number out; nothing happens if it is not in.
    pub(crate) fn remove(&mut self, number: u32) {
        let Link {
            newer,
            older,
            is_in,
        } = self.links[number as usize];
        if !is_in {
            return;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[number as usize].is_in = false;
        self.len -= 1;
    }

    /// The numbers from the least recently used one on.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let first = (self.oldest != NONE).then_some(self.oldest);
        std::iter::successors(first, |&number| {
            let newer = self.links[number as usize].newer;
            (newer != NONE).then_some(newer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_use() {
        let mut lru = Lru::new(4);
        for number in [0, 1, 2, 3, 1, 0] {
            lru.touch(number);
        }
        assert_eq!(lru.oldest_first().collect::<Vec<_>>(), [2, 3, 1, 0]);
        lru.remove(3);
        lru.remove(3);
        assert_eq!(lru.oldest_first().collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(lru.len(), 3);
        for number in 0..3 {
            lru.remove(number);
        }
        assert_eq!(lru.oldest_first().next(), None);
        lru.touch(2);
        assert_eq!(lru.oldest_first().collect::<Vec<_>>(), [2]);
    }
}
