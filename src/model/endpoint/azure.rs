//! OpenAI's models on Azure: the same bodies behind the addresses of deployments, and a content filter that
//! answers in two ways, with status 400 and as a finish reason.
//!
//! Source: Azure OpenAI's REST reference (data plane, chat completions) and its page on content filtering.

use reqwest::Url;

use super::body::{Body, Object};
use super::dialect::{Refusal, finish, join};
use super::openai;
use super::reply::{Classified, Reply};
use super::spec::EndpointSpec;
use crate::model::Prepared;

/// `BASE/openai/deployments/MODEL/chat/completions?api-version=…`
pub(super) fn target(base: &Url, spec: &EndpointSpec) -> Url {
    let call: &[&str] = if spec.completions { &["completions"] } else { &["chat", "completions"] };
    let segments = [&["openai", "deployments", spec.model.as_str()], call].concat();
    let mut url = join(base, &segments);
    if let Some(version) = &spec.api_version {
        url.query_pairs_mut().append_pair("api-version", version);
    }
    url
}

/// The body of a chat completion; the address names the model.
pub(super) fn encode(request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
    Ok(finish(openai::fields(request, spec, Object::new())?, spec))
}

/// What a reply means.
pub(super) fn classify(reply: &Reply) -> Classified {
    openai::classify(reply)
}

#[cfg(test)]
mod tests {
    use super::super::dialect::testing::{clip, encoded, request, text};
    use super::super::reply::testing::{failed, reply, retried};
    use super::*;
    use crate::model::endpoint::{Cause, Dialect};
    use crate::types::{Outcome, Role};

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::Azure, "https://x.openai.azure.com", "my deployment")
    }

    #[test]
    fn the_address_names_deployment_and_version() {
        let url = target(&Url::parse("https://x.openai.azure.com/").unwrap(), &spec());
        assert_eq!(
            url.as_str(),
            "https://x.openai.azure.com/openai/deployments/my%20deployment/chat/completions\
             ?api-version=2025-01-01-preview"
        );
        let full = "https://x/openai/deployments/d/chat/completions";
        let spec = EndpointSpec { model: "d".into(), api_version: Some("v".into()), ..spec() };
        assert_eq!(target(&Url::parse(full).unwrap(), &spec).as_str(), format!("{full}?api-version=v"));
    }

    #[test]
    fn the_body_has_no_model_and_no_settings_that_azure_refuses() {
        let body = encoded(&request(&[(Role::User, &[text("why?"), clip()])]), &spec());
        let keys: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["messages", "max_tokens", "temperature", "seed"]);
    }

    #[test]
    fn the_filter_answers_in_several_ways() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,
                   "innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":
                   {"filtered":true,"severity":"high"}}}}}"#,
            ),
            (
                200,
                r#"{"choices":[{"finish_reason":"content_filter","index":0,"message":{"role":"assistant"},
                   "content_filter_results":{"violence":{"filtered":true,"severity":"medium"}}}]}"#,
            ),
            (
                200,
                r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":
                   {"self_harm":{"filtered":true,"severity":"high"}}}]}"#,
            ),
        ] {
            match classify(&reply(status, &[], body)) {
                Classified::Answer(heard) => {
                    assert_eq!((heard.outcome, heard.text.as_str()), (Outcome::ContentFilter, ""));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn other_errors_are_errors() {
        let limited = r#"{"error":{"code":"429","message":"Please retry after 26 seconds."}}"#;
        let (cause, _, after) = retried(classify(&reply(429, &[("retry-after", "26")], limited)));
        assert_eq!((cause, after.unwrap().as_secs()), (Cause::RateLimit, 26));
        let missing =
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist."}}"#;
        assert_eq!(
            failed(classify(&reply(404, &[], missing))),
            "the server knows no such address or model (404): The API deployment does not exist."
        );
        let key = r#"{"statusCode": 401, "message": "Access denied due to invalid subscription key."}"#;
        assert!(failed(classify(&reply(401, &[], key))).ends_with("invalid subscription key."));
    }
}
