//! A member is replaced while the pool is closed; a crash on the way leaves the pool as it was, or with both.

use super::image::Verifier;
use super::pair::{open_pair, served};
use super::world::{World, blank};
use forebay_log::readd;
use std::ops::ControlFlow;

impl World {
    pub(super) fn readd(
        &mut self,
        (is_blank, is_closed): (bool, bool),
        verifier: &mut Verifier<'_>,
    ) -> Result<(), String> {
        let Some(out) = self.is_complete.iter().position(|is_complete| !is_complete) else {
            return Ok(());
        };
        let log = self.log.take().expect("it is open");
        if is_closed {
            log.close().map_err(|error| error.to_string())?;
            self.crash(verifier)?;
        } else {
            drop(log);
        }
        let kept = out ^ 1;
        if is_blank || self.is_dead[out] {
            self.devices[out] = blank(&self.devices[kept], verifier.unit);
            self.is_dead[out] = false;
            self.observe();
        }
        let (from, onto) = (self.devices[kept].clone(), self.devices[out].clone());
        let id = verifier.next_seed();
        let copied = readd((&*from, &*onto), false, id, &mut |_, _| {
            ControlFlow::Continue(())
        });
        copied.map_err(|error| format!("the copy: {error}"))?;
        // Of the moments on the way only the member that had everything counts by itself.
        self.crash(verifier)?;
        self.is_complete = [true; 2];
        self.crash(verifier)?;
        let log = open_pair(
            &self.devices,
            ([true; 2], false),
            &self.disks,
            verifier.next_seed(),
        );
        let log = log.map_err(|error| format!("with the new member: {error}"))?;
        if served(&log) != [true; 2] {
            return Err(String::from("the new member is not served"));
        }
        self.log = Some(log);
        Ok(())
    }
}
