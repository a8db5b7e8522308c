//! Weights that a config names by the hub's name: found in the hub's cache, or fetched when they are first used.

use super::exit::Failure;
use super::judge::one_failure;
use crate::config::{HubWeights, Loaded, Step};

/// What a config names, where it is no folder.
fn named(loaded: &mut Loaded) -> Option<HubWeights> {
    let local = loaded.config.model.local.as_mut()?;
    if local.weights.exists() {
        local.hub = None;
    }
    local.hub.clone()
}

/// Makes sure that the weights are here, for a run: fetches what is missing. The exit code where that was stopped.
pub(super) fn ready(loaded: &mut Loaded) -> Result<Option<u8>, Failure> {
    let (mut stopped, mut failed) = (None, false);
    let failures = each_model(loaded, |loaded, key| {
        let Some(named) = named(loaded).filter(|_| stopped.is_none()) else { return Ok(()) };
        if failed {
            // The run ends here, so the other one is looked at and not fetched.
            return of_hub::look(loaded, &named, key).map(|_| ());
        }
        let done = of_hub::ready(loaded, &named, key);
        failed = done.is_err();
        stopped = done?;
        Ok(())
    });
    if failures.is_empty() { Ok(stopped) } else { Err(one_failure(failures)) }
}

/// Looks whether the weights are here, for a check: lines on what a run would fetch, where they are not.
pub(super) fn look(loaded: &mut Loaded) -> Result<Vec<String>, Vec<Failure>> {
    let mut lines = Vec::new();
    let failures = each_model(loaded, |loaded, key| {
        if let Some(named) = named(loaded) {
            lines.extend(of_hub::look(loaded, &named, key)?);
        }
        Ok(())
    });
    if failures.is_empty() { Ok(lines) } else { Err(failures) }
}

/// Does something for the model, or for both of a cascade: whatever comes of the first, the second has its turn.
fn each_model(
    loaded: &mut Loaded,
    mut does: impl FnMut(&mut Loaded, &[Step]) -> Result<(), Failure>,
) -> Vec<Failure> {
    let Some(mut cascade) = loaded.config.model.cascade.clone() else {
        return does(loaded, &["model".into(), "weights".into()]).err().into_iter().collect();
    };
    let mut one = loaded.clone();
    let mut failures = Vec::new();
    for (name, part) in [("asr", &mut cascade.asr), ("llm", &mut cascade.llm)] {
        one.config.model = part.clone();
        failures.extend(does(&mut one, &["model".into(), name.into(), "weights".into()]).err());
        part.clone_from(&one.config.model);
    }
    loaded.config.model.cascade = Some(cascade);
    failures
}

#[cfg(feature = "hub")]
mod of_hub {
    use super::super::exit::{self, Failure};
    use super::super::fetch::{Ended, describe_model, get_model, hub, runtime, until_signal};
    use super::super::fetch_progress::FetchProgress;
    use super::super::open::problem_at;
    use crate::config::{HubWeights, Loaded, Step};
    use crate::hub::{HubError, Lookup, ModelFiles};

    /// Files that are fetched at once: weights are few and large.
    const JOBS: usize = 4;

    pub(super) fn ready(
        loaded: &mut Loaded,
        named: &HubWeights,
        key: &[Step],
    ) -> Result<Option<u8>, Failure> {
        let (hub, runtime) = (hub()?, runtime()?);
        let progress = FetchProgress::new();
        let asked = hub.model(&named.repo, &named.revision, Lookup::Known, &progress);
        let files = match until_signal(&runtime, asked) {
            Ended::Done(files) => files.map_err(|e| refused(loaded, &e, key))?,
            Ended::Stopped(code) => return Ok(Some(code)),
        };
        if let Some(why) = &files.listing.stale {
            eprintln!("warning: the hub could not be asked ({why}); the cache's listing is used");
        }
        if !files.complete() {
            if hub.settings().offline {
                return Err(not_whole(loaded, &files, key));
            }
            eprintln!("fetching {} into {}", describe_model(&files), hub.cache().root().display());
        }
        let got = get_model(&hub, &runtime, &files, JOBS, false, &progress);
        // Without its weights a model cannot be loaded, whatever kept them.
        let got = got.map_err(|failure| match failure.code {
            exit::FOLDER => failure,
            _ => Failure { code: exit::MODEL, ..failure },
        });
        if let Some(code) = got? {
            return Ok(Some(code));
        }
        found(loaded, &files);
        Ok(None)
    }

    pub(super) fn look(
        loaded: &mut Loaded,
        named: &HubWeights,
        key: &[Step],
    ) -> Result<Option<String>, Failure> {
        let (hub, runtime) = (hub()?, runtime()?);
        let asked = hub.model(&named.repo, &named.revision, Lookup::Known, &crate::hub::Quiet);
        match until_signal(&runtime, asked) {
            Ended::Done(Ok(files)) if files.complete() => {
                // What is there is linked, as a fetch would.
                if let Some(code) = get_model(&hub, &runtime, &files, JOBS, false, &FetchProgress::new())? {
                    return Err(Failure::new(code, ""));
                }
                found(loaded, &files);
                Ok(None)
            }
            Ended::Done(Ok(files)) if hub.settings().offline => Err(not_whole(loaded, &files, key)),
            Ended::Done(Ok(files)) => Ok(Some(format!(
                "{}; a run fetches them into {} first, or now: {}",
                describe_model(&files),
                hub.cache().root().display(),
                files.command
            ))),
            Ended::Done(Err(error)) => Err(refused(loaded, &error, key)),
            Ended::Stopped(code) => Err(Failure::new(code, "")),
        }
    }

    /// Some files are missing and cannot be fetched.
    fn not_whole(loaded: &Loaded, files: &ModelFiles, key: &[Step]) -> Failure {
        let (have, bytes) = (crate::types::size(files.have), crate::types::size(files.bytes));
        problem(
            loaded,
            key,
            &format!(
                "{} at {} is not whole in the hub's cache ({have} of {bytes} are there), and HF_HUB_OFFLINE is set; \
                 where there is a network: {}",
                files.listing.repo, files.listing.revision, files.command
            ),
        )
    }

    fn found(loaded: &mut Loaded, files: &ModelFiles) {
        if let Some(local) = &mut loaded.config.model.local {
            local.weights.clone_from(&files.folder);
            if let Some(hub) = &mut local.hub {
                hub.commit = Some(files.listing.commit.clone());
            }
        }
    }

    fn refused(loaded: &Loaded, error: &HubError, key: &[Step]) -> Failure {
        let folder = loaded.config.model.local.as_ref().map(|local| local.weights.display().to_string());
        problem(
            loaded,
            key,
            &format!("there is no folder {}, and from the hub: {error}", folder.unwrap_or_default()),
        )
    }

    fn problem(loaded: &Loaded, key: &[Step], sentence: &str) -> Failure {
        Failure::new(exit::MODEL, problem_at(loaded, key, &sentence))
    }
}

#[cfg(not(feature = "hub"))]
mod of_hub {
    use super::super::exit::{self, Failure};
    use super::super::open::problem_at;
    use crate::config::{HubWeights, Loaded, Step};

    fn not_built(loaded: &Loaded, named: &HubWeights, key: &[Step]) -> Failure {
        let sentence = format!(
            "there is no folder `{}`, and this build of harness fetches nothing; build it with the cargo feature \
             `hub` (it is a default feature), or name a folder",
            named.repo
        );
        Failure::new(exit::MODEL, problem_at(loaded, key, &sentence))
    }

    pub(super) fn ready(
        loaded: &mut Loaded,
        named: &HubWeights,
        key: &[Step],
    ) -> Result<Option<u8>, Failure> {
        Err(not_built(loaded, named, key))
    }

    pub(super) fn look(
        loaded: &mut Loaded,
        named: &HubWeights,
        key: &[Step],
    ) -> Result<Option<String>, Failure> {
        Err(not_built(loaded, named, key))
    }
}
