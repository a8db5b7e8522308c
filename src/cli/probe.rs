//! `harness check --probe`: asks the endpoint, and says in a line each what was found and what to change.

use std::fmt::Write as _;

use crate::model::Opened;
#[cfg(feature = "endpoint")]
use crate::model::endpoint::{About, Questions, Verdict};
use crate::run::plan::{PlanError, Requests};
#[cfg(feature = "endpoint")]
use crate::types::Part;

/// Writes what the endpoint can do of what the plan needs; false when a run would fail.
#[cfg(feature = "endpoint")]
pub(super) fn probe(
    out: &mut String,
    heading: &str,
    opened: &Opened,
    requests: &dyn Requests,
) -> Result<bool, PlanError> {
    let Some(endpoint) = opened.endpoint() else {
        let _ = writeln!(out, "\n{heading}\n  nothing to ask: the model is local");
        return Ok(true);
    };
    let mut questions = Questions { audio: false, image: false };
    requests.each(&mut |request| {
        // A cascade's model is asked by transcripts.
        questions.audio |= opened.identity.kind != "cascade" && !request.prompt.audio().is_empty();
        questions.image |= has_image(&request.prompt);
        // Both are known: the rest of the plan says nothing more.
        !(questions.audio && questions.image)
    })?;
    let _ = writeln!(out, "\n{heading}");
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = writeln!(out, "  not asked: the network cannot be used: {error}");
            return Ok(false);
        }
    };
    let findings = runtime.block_on(endpoint.probe(questions));
    for finding in &findings {
        let about = match finding.about {
            About::Address => "address",
            About::Model => "model",
            About::Text => "text",
            About::Audio => "audio",
            About::Image => "image",
        };
        let verdict = match finding.verdict {
            Verdict::Good => "good",
            Verdict::Bad => "BAD ",
            Verdict::Unknown => "?   ",
        };
        let advice = finding.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
        let _ = writeln!(out, "  {about:<9} {verdict} {}{advice}", finding.text);
    }
    // A dead server among several that live is one that a run does without.
    let alive = findings.iter().any(|f| f.about == About::Address && f.verdict == Verdict::Good);
    Ok(alive && !findings.iter().any(|f| f.about != About::Address && f.verdict == Verdict::Bad))
}

#[cfg(not(feature = "endpoint"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as in a build with endpoints")]
pub(super) fn probe(
    out: &mut String,
    heading: &str,
    _opened: &Opened,
    _requests: &dyn Requests,
) -> Result<bool, PlanError> {
    let _ = writeln!(out, "\n{heading}\n  nothing to ask: this build has no endpoints");
    Ok(true)
}

#[cfg(feature = "endpoint")]
fn has_image(prompt: &crate::types::Prompt) -> bool {
    match prompt {
        crate::types::Prompt::Raw { .. } => false,
        crate::types::Prompt::Chat(messages) => {
            messages.iter().flat_map(|message| &message.parts).any(|part| matches!(part, Part::Image(_)))
        }
    }
}
