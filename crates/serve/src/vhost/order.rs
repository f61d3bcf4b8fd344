//! Which chains of a queue have been taken, and their answers until those before them are complete.
//!
//! Answers are published in the order in which their requests were taken, which virtio allows and
//! does not demand. So the index of the used ring alone says what is done: the process that serves
//! the queue after a killed one goes on from there, repeats nothing that the guest has seen
//! answered, and skips nothing.
//!
//! Guarantees: no more chains are with us than the queue has entries, none of them twice.

use std::collections::VecDeque;

use crate::vhost::broken::Broken;

/// What is known of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// The guest's.
    Free,
    /// Its request is being worked at.
    Taken,
    /// Done, with this many bytes written; others before it are not.
    Answered(u32),
}

/// The chains of one queue that were taken and whose answers are not published.
pub(crate) struct AnswerOrder {
    /// By number.
    heads: Vec<Head>,
    /// Those that are not free, the first taken first.
    taken: VecDeque<u16>,
}

impl AnswerOrder {
    /// The order of a queue of `size` entries, nothing taken.
    pub(crate) fn new(size: u16) -> AnswerOrder {
        AnswerOrder {
            heads: vec![Head::Free; size.into()],
            taken: VecDeque::new(),
        }
    }

    /// Notes that a chain was taken.
    ///
    /// # Errors
    /// The queue has no such head, or its answer is still to come.
    pub(crate) fn take(&mut self, head: u16) -> Result<(), Broken> {
        match self.heads.get_mut(usize::from(head)) {
            Some(state @ Head::Free) => *state = Head::Taken,
            Some(_) => return Err(Broken::Repeated(head)),
            None => return Err(Broken::NoSuchHead(head)),
        }
        self.taken.push_back(head);
        Ok(())
    }

    /// Notes the answer of a chain that was taken.
    pub(crate) fn answer(&mut self, head: u16, written_bytes: u32) {
        self.heads[usize::from(head)] = Head::Answered(written_bytes);
    }

    /// The next chain whose answer can be published, and its bytes; it is the guest's again.
    pub(crate) fn next_answered(&mut self) -> Option<(u16, u32)> {
        let head = *self.taken.front()?;
        let state = &mut self.heads[usize::from(head)];
        let Head::Answered(written_bytes) = *state else {
            return None;
        };
        *state = Head::Free;
        self.taken.pop_front();
        Some((head, written_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(order: &mut AnswerOrder) -> Vec<(u16, u32)> {
        std::iter::from_fn(|| order.next_answered()).collect()
    }

    #[test]
    fn answers_wait_for_those_before_them() {
        let mut order = AnswerOrder::new(4);
        for head in [2, 0, 3] {
            order.take(head).unwrap();
        }
        order.answer(3, 30);
        order.answer(0, 10);
        assert_eq!(published(&mut order), []);
        order.answer(2, 20);
        assert_eq!(published(&mut order), [(2, 20), (0, 10), (3, 30)]);
    }

    #[test]
    fn a_head_is_taken_once_until_its_answer_is_published() {
        let mut order = AnswerOrder::new(2);
        order.take(1).unwrap();
        order.take(0).unwrap();
        assert!(matches!(order.take(1), Err(Broken::Repeated(1))));
        order.answer(0, 0);
        assert!(matches!(order.take(0), Err(Broken::Repeated(0))));
        assert!(matches!(order.take(2), Err(Broken::NoSuchHead(2))));
        order.answer(1, 0);
        assert_eq!(published(&mut order).len(), 2);
        order.take(0).unwrap();
    }
}
