// SPDX-License-Identifier: GPL-2.0
//! Reads scripts.

mod step;
mod words;

use std::str::FromStr;

use self::step::{guest_program, step};
use self::words::Words;
use super::script::{Order, Script, Step};
use super::value::Value;

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Script::default();
        // The steps of the blocks that are open, and what opened each.
        let mut open: Vec<(Block, Vec<Step>)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let result = read_line(line, &mut script, &mut open);
            result.map_err(|why| format!("line {}: {why}", at + 1))?;
        }
        match open.last() {
            None => Ok(script),
            Some((block, _)) => Err(format!("'{}' has no end", block.verb())),
        }
    }
}

/// What steps stand in.
enum Block {
    Repeat(Value),
    Batch(Order),
}

impl Block {
    fn verb(&self) -> &'static str {
        match self {
            Block::Repeat(_) => "repeat",
            Block::Batch(_) => "batch",
        }
    }

    fn close(self, steps: Vec<Step>) -> Step {
        match self {
            Block::Repeat(times) => Step::Repeat(times, steps),
            Block::Batch(order) => Step::Batch(order, steps),
        }
    }
}

fn read_line(
    line: &str,
    script: &mut Script,
    open: &mut Vec<(Block, Vec<Step>)>,
) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if verb == "message" {
        script.provokes.push(rest.trim().to_owned());
        return Ok(());
    }
    let mut words = Words::of(rest)?;
    let in_batch = open
        .iter()
        .any(|(block, _)| matches!(block, Block::Batch(_)));
    match verb {
        "" => return Ok(()),
        "seed" => script.seed = words.bare_number("a seed")?,
        "timing" => script.timing = true,
        "reload" => script.reload = true,
        "grows" => script.grows.push(words.name()?),
        "answers" => {
            let connection = words.name()?;
            let op = words.bare().ok_or("say which operation")?;
            let number = words.bare_number("how often it answers so")?;
            script.answers.push((connection, op.to_owned(), number));
        }
        "counts" => {
            let counter = words.bare().ok_or("give a counter of the driver")?;
            let number = words.bare_number("what it grows by")?;
            script.counts.push((counter.to_owned(), number));
        }
        "guest" => script.guests.push(guest_program(&mut words)?),
        "repeat" => {
            let times = words.bare().ok_or("say how often")?.parse()?;
            open.push((Block::Repeat(times), Vec::new()));
        }
        "batch" if in_batch => return Err("a batch cannot stand in a batch".into()),
        "batch" => {
            let order = match words.bare() {
                None => Order::Posted,
                Some("reversed") => Order::Reversed,
                Some("shuffled") => Order::Shuffled,
                Some(other) => {
                    return Err(format!(
                        "'{other}' is no order; there are reversed and shuffled"
                    ));
                }
            };
            open.push((Block::Batch(order), Vec::new()));
        }
        "end" => {
            let (block, steps) = open.pop().ok_or("there is nothing to end here")?;
            let step = block.close(steps);
            steps_of(script, open).push(step);
        }
        _ => {
            let step = step(verb, &mut words)?;
            if in_batch && !matches!(step, Step::Send(_)) {
                return Err(format!(
                    "'{verb}' cannot stand in a batch; send and repeat can"
                ));
            }
            steps_of(script, open).push(step);
        }
    }
    words.finish(verb)
}

fn steps_of<'a>(script: &'a mut Script, open: &'a mut [(Block, Vec<Step>)]) -> &'a mut Vec<Step> {
    match open.last_mut() {
        Some((_, steps)) => steps,
        None => &mut script.steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_whole() {
        let text = "
            # What it shows.
            seed 7
            message is not a head!
            reload
            timing
            grows replies_stalled
            answers a rst 1
            counts rx_drop_long 6
            guest connect=5000 type=seqpacket count=3 read=yes buffer=4K
            accept a at=5000
            repeat 3
              batch reversed
                send a payload=10   # right
                repeat 2
                  send a used=posted+1
                end
              end
              change us=5 len=0
            end
            wait a op=rst within=5
            wait ms=3
            wait reset
            notify tx times=4
            event
            event id=max used=one(3|5) cid=7
            hold
        ";
        let script: Script = text.parse().unwrap();
        assert_eq!((script.seed, script.reload), (7, true));
        assert_eq!(script.provokes, ["is not a head!"]);
        assert!(script.guests[0].seqpacket && script.guests[0].reads && !script.guests[0].listens);
        assert_eq!(script.guests[0].buffer, Some(4096));
        assert_eq!(script.counts, [("rx_drop_long".into(), 6)]);
        assert_eq!(script.steps.len(), 9);
        let Step::Repeat(Value::Number(3), steps) = &script.steps[1] else {
            panic!("{:?}", script.steps)
        };
        assert!(matches!(&steps[0], Step::Batch(Order::Reversed, inner) if inner.len() == 2));
        assert_eq!(script.to_string().parse(), Ok(script.clone()), "{script}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, why) in [
            ("\nsned a", "line 2: 'sned' is no step"),
            ("send a len=much", "len=much: 'much' is no value"),
            (
                "send a length=5",
                "'length=5' is not understood after 'send'",
            ),
            ("send a b", "'b' is not understood"),
            ("send a len=1 len=2", "len= stands twice"),
            ("accept a", "at=PORT is missing"),
            ("accept at=5", "give the connection a name"),
            ("repeat 5", "'repeat' has no end"),
            ("repeat often", "'often' is no value"),
            ("end", "nothing to end"),
            ("batch\nbatch", "line 2: a batch cannot stand in a batch"),
            ("batch\nsync", "'sync' cannot stand in a batch"),
            ("batch sorted", "'sorted' is no order"),
            ("change payload=1", "'payload=1' is not understood"),
            ("guest count=2", "connect=PORT or listen=PORT"),
            ("wait op=much", "'much' is no operation"),
            ("notify", "rx or tx"),
            ("accept a at=4294967296", "not below 2^32"),
        ] {
            let error = text.parse::<Script>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
