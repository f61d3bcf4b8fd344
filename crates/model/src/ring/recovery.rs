//! What a crash leaves is found, made durable, sealed, and only then a new incarnation begins.

use super::commit::summary;
use super::config::{Config, KEYS};
use super::media::{Element, LINES, Layout, Page, Shape};
use super::rules::{Mutant, Rules};
use super::world::{Contents, Known, Phase, Plan, World};
use crate::world::Violation;

/// Recovery's own writes are of this thread.
const THREAD: usize = 0;

/// A segment as it was found.
struct Found {
    contents: Contents,
    /// What its elements' sequences are: of a walked one as its records say.
    sequences: Vec<u8>,
    tail: u8,
    point: u8,
    is_sealed: bool,
}

struct Scan<'w> {
    world: &'w World,
    layout: Layout,
    config: &'w Config,
    rules: Rules,
    incarnation: u8,
    first_segment: u8,
}

/// The next step.
pub fn step(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let Phase::Recovering(step, plan) = world.phase.clone() else {
        panic!("nothing is recovered");
    };
    let plan = match plan {
        Some(plan) => plan,
        None => Box::new(find(world, config, rules)?),
    };
    let line = usize::from((world.incarnation + 1) % LINES);
    match step {
        0 => {}
        1 if rules.breaks(Mutant::RecoveryWithoutFlush) => {}
        // What was read may be in the disk's cache alone.
        1 => world.disk.sync(),
        2 => {
            let seal = plan.seal.clone();
            if let Some((unit, page)) =
                seal.filter(|_| !rules.breaks(Mutant::IncarnationWithoutSeal))
            {
                let word = world.pages.word(page);
                world.disk.stream(THREAD, usize::from(unit), word);
            }
        }
        3 => world.disk.fence(THREAD),
        4 => {
            let page = Page::Line {
                incarnation: world.incarnation + 1,
                first_segment: plan.next.0,
            };
            let word = world.pages.word(page);
            world.disk.stream(THREAD, line, word);
        }
        _ => {
            world.disk.fence(THREAD);
            serve(world, &plan);
            return resolve(world);
        }
    }
    world.phase = Phase::Recovering(step + 1, Some(plan));
    Ok(())
}

/// The pool is as it was found.
fn serve(world: &mut World, plan: &Plan) {
    world.phase = Phase::Running;
    world.incarnation += 1;
    world.known = plan.known;
    (world.tail, world.tail_durable) = (plan.tail, plan.tail);
    world.point = plan.point;
    (world.next_segment, world.next_group, world.next_sequence) = plan.next;
    world.published = plan.next.2;
}

/// What is there must be what some prefix left, with all that was acknowledged.
fn resolve(world: &mut World) -> Result<(), Violation> {
    let mut found = [0; KEYS];
    for (key, value) in found.iter_mut().enumerate() {
        *value = world.view(key)?;
    }
    let (killed, cut) = &world.possible;
    let possible = if world.is_killed { killed } else { cut };
    if !possible.contains(&found) {
        return Err(Violation(format!(
            "recovery finds {found:x?}, and only {possible:x?} are possible"
        )));
    }
    world.acknowledged = found;
    world.settled.blocks = found;
    world.settled.open.clear();
    world.possible = (Vec::new(), Vec::new());
    Ok(())
}

fn refused(why: String) -> Violation {
    Violation(format!("the pool is refused: {why}"))
}

fn find(world: &mut World, config: &Config, rules: Rules) -> Result<Plan, Violation> {
    let mut last = None;
    for unit in 0..LINES {
        if let Some(Page::Line {
            incarnation,
            first_segment,
        }) = world.pages.read(&world.disk, unit)
        {
            last = last.max(Some((*incarnation, *first_segment)));
        }
    }
    let (incarnation, first_segment) = last.ok_or_else(|| refused("no incarnation line".into()))?;
    world.incarnation = incarnation;
    let scan = Scan {
        world,
        layout: Layout::new(config),
        config,
        rules,
        incarnation,
        first_segment,
    };
    let found = scan.segments()?;
    Ok(scan.plan(&found))
}

impl Scan<'_> {
    fn page(&self, unit: u8) -> Option<&Page> {
        self.world.pages.read(&self.world.disk, unit)
    }

    /// Of the header of a place: segment, incarnation, first group. One that an ended incarnation left at or above the first segment of
    /// this one never had a group that counts.
    fn header(&self, place: u8) -> Option<(u8, u8, u8)> {
        let Some(Page::Header {
            segment,
            incarnation,
            first_group,
        }) = self.page(self.layout.unit(place, 0))
        else {
            return None;
        };
        let is_left_over = *incarnation < self.incarnation && *segment >= self.first_segment;
        (!is_left_over).then_some((*segment, *incarnation, *first_group))
    }

    /// All segments that count, oldest first.
    fn segments(&self) -> Result<Vec<Found>, Violation> {
        let mut headers: Vec<_> = (0..self.config.places)
            .filter_map(|place| self.header(place))
            .collect();
        headers.sort_unstable();
        let mut found: Vec<Found> = Vec::new();
        while let Some((segment, incarnation, first_group)) = headers.pop() {
            let Some(one) = self.segment(segment, incarnation, first_group) else {
                if found.is_empty() && incarnation == self.incarnation {
                    continue;
                }
                return Err(refused(format!("segment {segment} has no summary")));
            };
            if let Some(newer) = found.first() {
                let follows = newer.contents.segment == segment + 1
                    && newer.contents.groups.0 == one.contents.groups.1 + 1;
                if !follows || !one.is_sealed {
                    return Err(refused(format!(
                        "segment {segment} does not lead to the next one"
                    )));
                }
            }
            found.insert(0, one);
            if segment == found.last().expect("there is one").tail {
                return Ok(found);
            }
        }
        match found.is_empty() {
            true => Ok(found),
            false => Err(refused("its oldest segment is missing".into())),
        }
    }

    fn segment(&self, segment: u8, incarnation: u8, first_group: u8) -> Option<Found> {
        if let Some(Page::Summary {
            segment: of,
            first_sequence,
            groups,
            tail,
            point,
            elements,
        }) = self.page(self.layout.summary(segment))
            && *of == segment
        {
            let count = elements.len() as u8;
            return Some(Found {
                contents: Contents {
                    segment,
                    first_sequence: *first_sequence,
                    groups: *groups,
                    elements: elements.clone(),
                },
                sequences: (*first_sequence..*first_sequence + count).collect(),
                tail: *tail,
                point: *point,
                is_sealed: true,
            });
        }
        if incarnation != self.incarnation {
            return None;
        }
        self.walk(segment, first_group)
    }

    /// Group by group, up to the first one that does not count.
    fn walk(&self, segment: u8, first_group: u8) -> Option<Found> {
        let mut found: Option<Found> = None;
        let (mut page, mut next) = (1, first_group);
        while page < self.config.pages {
            let Some((group, first, tail, point, elements)) = self.record((segment, page), next)
            else {
                if !self.rules.breaks(Mutant::GapSkipped) {
                    break;
                }
                page += 1;
                continue;
            };
            let one = found.get_or_insert_with(|| Found {
                contents: Contents {
                    segment,
                    first_sequence: first,
                    groups: (group, group),
                    elements: Vec::new(),
                },
                sequences: Vec::new(),
                tail,
                point,
                is_sealed: false,
            });
            one.contents.groups.1 = group;
            one.sequences.extend(first..first + elements.len() as u8);
            one.contents.elements.extend(elements);
            (one.tail, one.point) = (tail, point);
            let is_block = |one: &&Element| matches!(one.shape, Shape::Block { .. });
            page += 1 + elements.iter().filter(is_block).count() as u8;
            next = group + 1;
        }
        found
    }

    /// The group of this number at that page, if it counts.
    fn record(&self, place: (u8, u8), next: u8) -> Option<(u8, u8, u8, u8, &[Element])> {
        let page = self.page(self.layout.unit(place.0, place.1))?;
        let Page::Record {
            group,
            place: at,
            incarnation,
            first_sequence,
            tail,
            point,
            elements,
        } = page
        else {
            return None;
        };
        let is_next = *group == next || self.rules.breaks(Mutant::GapSkipped) && *group > next;
        let is_whole = elements.iter().all(|element| match element.shape {
            Shape::Block { unit, value } => self.world.block_in(unit) == Some(value),
            _ => true,
        });
        let is_believed = is_whole || self.rules.breaks(Mutant::GroupPayloadUnchecked);
        let counts = is_next && *at == place && *incarnation == self.incarnation && is_believed;
        counts.then_some((*group, *first_sequence, *tail, *point, elements))
    }

    fn plan(&self, found: &[Found]) -> Plan {
        let newest = found.last();
        let point = newest.map_or(0, |one| one.point);
        let mut known = [Known::default(); KEYS];
        let mut order: Vec<&Found> = found.iter().collect();
        if self.rules.breaks(Mutant::TombstoneWithoutOrder) {
            order.sort_by_key(|one| one.contents.segment % self.config.places);
        }
        for one in order {
            for (element, sequence) in one.contents.elements.iter().zip(&one.sequences) {
                let mut element = *element;
                element.is_clean |= *sequence <= point;
                for key in element.keys() {
                    known[key].apply(&element, *sequence, one.contents.segment);
                }
            }
        }
        let next = match newest {
            Some(one) => {
                let count = one.contents.elements.len() as u8;
                let last = one
                    .sequences
                    .last()
                    .map_or(one.contents.first_sequence, |last| last + 1);
                let sequence = last.max(one.contents.first_sequence + count);
                (
                    one.contents.segment + 1,
                    one.contents.groups.1 + 1,
                    sequence,
                )
            }
            None => (self.first_segment, 1, 1),
        };
        let unsealed = newest.filter(|one| !one.is_sealed);
        Plan {
            known,
            tail: newest.map_or(self.first_segment, |one| one.tail),
            point,
            next,
            seal: unsealed.map(|one| {
                let unit = self.layout.summary(one.contents.segment);
                (unit, summary(one.contents.clone(), one.tail, point))
            }),
        }
    }
}
