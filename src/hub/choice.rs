//! What a user wants of the published data, and whether there is such a thing.

use super::error::HubError;
use super::names::hint;
use crate::benchmark::sources::{Origin, SourcePart, Sources};

/// What a user wants of the published data.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Parts; all that are not optional where it is empty.
    pub parts: Vec<String>,
    /// Languages; all where it is empty.
    pub languages: Vec<String>,
    /// Another revision of the hub's repository than the description names.
    pub revision: Option<String>,
    /// The command that this is, for sentences that name it.
    pub command: String,
}

impl Choice {
    /// Whether the published data have what is wanted; nothing is looked at on disk or network.
    pub fn check(&self, sources: &Sources) -> Result<(), HubError> {
        let chosen = chosen(sources, self)?;
        languages(sources, self)?;
        let mut parts = sources.parts.iter().filter(|part| self.wants(part));
        if !self.languages.is_empty() && !parts.any(|part| part.per_language) {
            return Err(HubError::Choice(format!(
                "--languages: nothing that is to be fetched of {} is published by language ({}); leave it out, or name \
                 the languages in a config",
                sources.benchmark,
                chosen.join(", ")
            )));
        }
        check_revision(self, &chosen, sources)
    }

    /// Several parts may share a name, some of them optional.
    pub(super) fn wants(&self, part: &SourcePart) -> bool {
        match self.parts.as_slice() {
            [] => !part.optional,
            names => names.contains(&part.name),
        }
    }
}

fn chosen<'a>(sources: &'a Sources, choice: &Choice) -> Result<Vec<&'a str>, HubError> {
    let all = || sources.parts.iter().map(|part| part.name.as_str());
    for name in &choice.parts {
        if !all().any(|known| known == name) {
            let mut known: Vec<&str> = all().collect();
            known.dedup();
            return Err(HubError::Unknown {
                what: "part",
                found: name.clone(),
                hint: hint(name, all()),
                known: known.join(", "),
            });
        }
    }
    Ok(sources.parts.iter().filter(|part| choice.wants(part)).map(|part| part.name.as_str()).collect())
}

/// The languages that are wanted: those that are named, or all that are published.
pub(super) fn languages<'a>(sources: &'a Sources, choice: &'a Choice) -> Result<Vec<&'a str>, HubError> {
    let known = &sources.expect.languages;
    for language in &choice.languages {
        if !known.contains(language) {
            return Err(HubError::Unknown {
                what: "language",
                found: language.clone(),
                hint: hint(language, known.iter().map(String::as_str)),
                known: if known.is_empty() { "none to choose from".to_owned() } else { known.join(", ") },
            });
        }
    }
    let languages = if choice.languages.is_empty() { known } else { &choice.languages };
    Ok(languages.iter().map(String::as_str).collect())
}

fn check_revision(choice: &Choice, chosen: &[&str], sources: &Sources) -> Result<(), HubError> {
    if choice.revision.is_some() && choice.parts.len() != 1 && chosen.len() > 1 {
        return Err(HubError::Choice(format!(
            "--revision is for one repository, and several parts are to be fetched ({}); name one with --only",
            chosen.join(", ")
        )));
    }
    let mut wanted = sources.parts.iter().filter(|part| choice.wants(part));
    if choice.revision.is_some()
        && let Some(part) = wanted.find(|part| !matches!(part.origin, Origin::Hub { .. }))
    {
        let from = match &part.origin {
            Origin::GitHub { repo, commit } => format!("is pinned to {commit} of github.com/{repo}"),
            Origin::Https { base } => format!("comes from {base}, which has no revisions"),
            Origin::Manual { page, .. } => format!("is got by hand at {page}"),
            Origin::Hub { repo, .. } => format!("comes from {repo}"),
        };
        return Err(HubError::Choice(format!(
            "--revision is for a repository of the hub, and the part `{}` {from}; leave it out, or name another part \
             with --only",
            part.name
        )));
    }
    Ok(())
}
