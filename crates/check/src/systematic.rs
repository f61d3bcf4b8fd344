//! Small scripts of two actors, run with every placement of one preemption, and with two.
//!
//! Most races need one or two preemptions (Musuvathi and Qadeer, 2007). Each pair of operations runs
//! on a pool that a short prelude has brought into an interesting state.

use crate::scenario::{Change, Script, Shape, Step, read, write, write_all};

/// What an actor does in a systematic script.
const MOVES: [fn(u64) -> Step; 13] = [
    |seed| write(0, Change::Whole(seed)),
    |seed| write_all([0, 1, 2].map(|block| (block, Change::Whole(seed + block as u64)))),
    |seed| {
        write(
            1,
            Change::Part {
                offset: 5 + (seed % 50) as usize,
                len: 20,
                seed,
            },
        )
    },
    |seed| write(2, Change::Append { len: 24, seed }),
    |_| write(1, Change::Discard),
    // What block 1 has in most preludes, and what it has but for a few bytes.
    |_| write(0, Change::Whole(2)),
    |seed| write(1, Change::Similar(seed)),
    |_| Step::Checkpoint,
    |_| Step::WriteBack,
    |_| Step::Reclaim(2),
    |_| Step::Detach(0),
    |_| Step::GrowVolume(0),
    |_| read(3),
];

/// Preludes: the pool empty, dirty, clean, and with a log that is nearly full.
const PRELUDES: usize = 4;

/// Number of scripts.
pub const SCRIPTS: usize = MOVES.len() * MOVES.len() * PRELUDES * 2;

fn prelude(number: usize) -> Vec<Step> {
    let dirty = [
        write(0, Change::Whole(1)),
        write(1, Change::Whole(2)),
        write(2, Change::Append { len: 24, seed: 3 }),
    ];
    match number {
        0 => Vec::new(),
        1 => dirty.to_vec(),
        2 => [dirty.as_slice(), &[Step::WriteBack]].concat(),
        _ => {
            let mut steps = dirty.to_vec();
            steps.push(Step::Checkpoint);
            steps.extend((0..2).map(|n| {
                write(
                    1,
                    Change::Part {
                        offset: 30,
                        len: 40,
                        seed: 50 + n,
                    },
                )
            }));
            steps
        }
    }
}

/// The pool and the script with this number.
pub fn script(number: usize) -> (Shape, Script) {
    let rest = number % SCRIPTS;
    let (strict, rest) = (rest % 2 == 1, rest / 2);
    let (start, rest) = (rest % PRELUDES, rest / PRELUDES);
    let (a, b) = (rest % MOVES.len(), rest / MOVES.len());
    let mut first = prelude(start);
    first.push(MOVES[a](1000));
    // Something after it, so that what was acknowledged is followed by a crash.
    first.push(write(3, Change::Whole(4000)));
    let second = vec![MOVES[b](2000), write(0, Change::Whole(5000))];
    let mut shape = Shape::smallest(strict);
    shape.fill_on_read = true;
    let steps = first.iter().chain(&second);
    if steps
        .into_iter()
        .any(|step| matches!(step, Step::GrowVolume(_)))
    {
        shape.first_blocks -= 1;
    }
    (shape, vec![first, second])
}
