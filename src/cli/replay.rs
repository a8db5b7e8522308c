//! Answers that exist already: matched with the requests of a run before anything is done with them.

use std::borrow::Cow;

use super::exit::{self, Failure};
use super::open;
use crate::config::Loaded;
use crate::model::Opened;
use crate::model::replay::{Asked, Matched, Matcher};
use crate::run::plan::Plan;
use crate::types::{Part, Prompt, Role};

/// Finds the requests that answers belong to. `None` where answers are not there already but are asked for.
pub(super) fn matched(loaded: &Loaded, opened: &Opened, plan: &Plan) -> Result<Option<Matched>, Failure> {
    let Some(answers) = opened.answers() else { return Ok(None) };
    let mut matcher = Matcher::new(answers);
    plan.walk(|request| {
        let planned = &request.planned;
        let section = plan.sections.get(request.section);
        let known = section.and_then(|section| section.benchmark.question(planned)).map(Cow::Borrowed);
        let question = known.or_else(|| words(&request.prompt).map(Cow::Owned));
        matcher.take(&Asked { planned, question: question.as_deref(), row: request.row });
        true
    })?;
    let found = matcher.finish().map_err(|e| {
        Failure::new(exit::USAGE, open::problem_at(loaded, &["model".into(), "files".into()], &e))
    })?;
    Ok(Some(found))
}

/// Says what became of the answers.
pub(super) fn say(found: &Matched) {
    for note in found.facts().notes() {
        eprintln!("{note}");
    }
    for sentence in &found.facts().sentences {
        eprintln!("warning: {sentence}");
    }
}

/// What the last message of a chat says in words.
fn words(prompt: &Prompt) -> Option<String> {
    let Prompt::Chat(messages) = prompt else { return None };
    let asked = messages.iter().rfind(|message| message.role == Role::User)?;
    let texts = asked.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Audio(_) | Part::Image(_) => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n"))
}
