// SPDX-License-Identifier: GPL-2.0
//! Takes both drivers through all scripts, in one boot, or in more if one of them kills the machine.

use std::collections::HashMap;

use anyhow::Result;
use rig::{Progress, Rig, Stalls};

use super::script::Scripted;
use super::seen::{Row, Seen};
use super::stage::Stage;
use crate::case::fixture::Subject;

/// Plays all scripts to both drivers.
pub(crate) fn all(
    rig: &Rig,
    scripts: &[Scripted],
    stalls: &mut Stalls,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let turns: Vec<(Subject, &Scripted)> = [Subject::C, Subject::Rust]
        .into_iter()
        .flat_map(|subject| scripts.iter().map(move |script| (subject, script)))
        .collect();
    let mut seen: HashMap<(Subject, String), Result<Seen, String>> = HashMap::new();
    let mut next = 0;
    while next < turns.len() {
        let step = progress.step("hostile scripts");
        let played = rig.run_alone("hostile", stalls, progress, |alone| {
            let mut stage: Option<(Subject, Stage<'_>)> = None;
            while let Some((subject, script)) = turns.get(next) {
                step.detail(format!("{}: {}", subject.driver().name(), script.name));
                let set = match stage.take() {
                    Some(set) if set.0 == *subject => set,
                    _ => (*subject, Stage::set(alone.dut(), alone.wire(), *subject)?),
                };
                let (_, stage) = stage.insert(set);
                let outcome = stage.play(script)?;
                let faults = match &outcome.faults[..] {
                    [] => "well".to_owned(),
                    faults => faults.join("; "),
                };
                let driver = subject.driver();
                progress.say(format!("{}: {}: {faults}", driver.name(), script.name));
                seen.insert((*subject, script.name.clone()), Ok(outcome));
                next += 1;
            }
            Ok(())
        });
        match played {
            Ok(_) => step.done(),
            Err(error) => {
                let (subject, script) = turns[next.min(turns.len() - 1)];
                let text = format!("{error:#}");
                progress.say(format!(
                    "{}: {}: {text}",
                    subject.driver().name(),
                    script.name
                ));
                seen.insert((subject, script.name.clone()), Err(text));
                next += 1;
            }
        }
    }
    let mut take = |subject, script: &Scripted| {
        let missing = || Err("it was not played".to_owned());
        seen.remove(&(subject, script.name.clone()))
            .unwrap_or_else(missing)
    };
    Ok(scripts
        .iter()
        .map(|script| Row {
            name: script.name.clone(),
            timing: script.script.timing,
            c: take(Subject::C, script),
            ours: take(Subject::Rust, script),
        })
        .collect())
}
