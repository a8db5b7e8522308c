//! From the keys of a configuration to an [`EndpointSpec`]: what the file says, over the defaults of its dialect.

use std::time::Duration;

use super::endpoint::{
    AudioForm, Concurrency, Dialect, EndpointSpec, ImageDetail, MaxTokensField, Retries, Send, SystemRole,
    Transcription, TranscriptionText,
};
use crate::config::secret::Secrets;
use crate::config::{EndpointConfig, ModelConfig, ModelKind, endpoint as keys};

fn dialect(kind: ModelKind) -> Option<Dialect> {
    match kind {
        ModelKind::Local | ModelKind::Cascade | ModelKind::Replay => None,
        ModelKind::OpenAi => Some(Dialect::OpenAi),
        ModelKind::Azure => Some(Dialect::Azure),
        ModelKind::Gemini => Some(Dialect::Gemini),
        ModelKind::Anthropic => Some(Dialect::Anthropic),
        ModelKind::Transcription => Some(Dialect::Transcription),
    }
}

/// The spec of a model; `None` for one that is no endpoint.
pub(super) fn spec(
    model: &ModelConfig,
    endpoint: &EndpointConfig,
    secrets: &Secrets,
) -> Option<EndpointSpec> {
    let first = endpoint.base_urls.first().cloned().unwrap_or_default();
    let mut spec = EndpointSpec::new(dialect(model.kind)?, first, endpoint.model.clone());
    spec.base_urls.clone_from(&endpoint.base_urls);
    spec.name.clone_from(&model.name);
    spec.revision.clone_from(&endpoint.revision);
    spec.key.clone_from(&secrets.key);
    if endpoint.api_version.is_some() {
        spec.api_version.clone_from(&endpoint.api_version);
    }
    spec.audio_form = match endpoint.form {
        keys::AudioForm::InputAudio => AudioForm::InputAudio,
        keys::AudioForm::AudioUrl => AudioForm::AudioUrl,
        keys::AudioForm::InputAudioUrl => AudioForm::InputAudioUrl,
    };
    let limits = &mut spec.limits;
    limits.max_seconds = model.audio.max_seconds;
    if let Some(formats) = &endpoint.formats {
        limits.audio_formats.clone_from(formats);
    }
    limits.max_audio_bytes = endpoint.max_bytes.unwrap_or(limits.max_audio_bytes);
    wire(&mut spec, endpoint, secrets);
    spec.transcription = Transcription {
        language: endpoint.transcription.language.clone(),
        prompt: endpoint.transcription.prompt.clone(),
        text: match endpoint.transcription.text {
            keys::TranscriptionText::Refuse => TranscriptionText::Refuse,
            keys::TranscriptionText::Prompt => TranscriptionText::Prompt,
            keys::TranscriptionText::Drop => TranscriptionText::Drop,
        },
        verbose: endpoint.transcription.verbose,
    };
    let flow = &endpoint.flow;
    spec.concurrency =
        Concurrency { min: flow.min_concurrency, max: flow.concurrency, adaptive: flow.adaptive };
    (spec.rpm, spec.tpm) = (flow.rpm, flow.tpm);
    spec.timeout = seconds(flow.timeout_seconds);
    spec.deadline = seconds(flow.deadline_seconds);
    spec.patience = seconds(flow.patience_seconds);
    spec.retries = Retries {
        max_attempts: flow.max_attempts,
        base_delay: seconds(flow.delay_seconds),
        max_delay: seconds(flow.max_delay_seconds),
    };
    Some(spec)
}

fn wire(spec: &mut EndpointSpec, endpoint: &EndpointConfig, secrets: &Secrets) {
    let wire = &endpoint.wire;
    spec.system_role = match wire.system_role {
        keys::SystemRole::Keep => SystemRole::Keep,
        keys::SystemRole::Fold => SystemRole::Fold,
    };
    spec.max_tokens_field = match wire.max_tokens_field {
        keys::MaxTokensField::MaxTokens => MaxTokensField::MaxTokens,
        keys::MaxTokensField::MaxCompletionTokens => MaxTokensField::MaxCompletionTokens,
    };
    if let Some(send) = &wire.send {
        let has = |field| send.contains(&field);
        spec.send = Send {
            temperature: has(keys::SendField::Temperature),
            top_p: has(keys::SendField::TopP),
            seed: has(keys::SendField::Seed),
            top_k: has(keys::SendField::TopK),
            repetition_penalty: has(keys::SendField::RepetitionPenalty),
        };
    }
    (spec.stream, spec.completions) = (wire.stream, wire.completions);
    spec.image_detail = wire.image_detail.map(|detail| match detail {
        keys::ImageDetail::Auto => ImageDetail::Auto,
        keys::ImageDetail::Low => ImageDetail::Low,
        keys::ImageDetail::High => ImageDetail::High,
    });
    spec.extra_body.clone_from(&wire.extra_body);
    spec.extra_headers.clone_from(&secrets.headers);
    spec.secrets.clone_from(&secrets.parts);
    spec.proxy.clone_from(&secrets.proxy);
    spec.ca_bundle.clone_from(&wire.ca_bundle);
}

/// A time that the check has bounded.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The endpoint in one line.
pub(super) fn about(spec: &EndpointSpec) -> String {
    let hears = match spec.limits.audio_formats.as_slice() {
        [] => "no audio".to_owned(),
        formats => format!("audio as {}", formats.join(", ")),
    };
    let sees = if spec.limits.image_formats.is_empty() { "no images" } else { "images" };
    format!(
        "{} of {} at {}, {hears}, {sees}, up to {} requests at once",
        spec.model,
        spec.dialect.as_str(),
        spec.base_urls.join(" and "),
        spec.concurrency.max
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::secret::ApiKey;

    fn of(model: &str) -> EndpointSpec {
        let text = format!("{model}\n[[benchmark]]\nname = 'manifest'\ndata = 'd.jsonl'\n");
        let loaded = crate::config::load_text(Path::new("c.toml"), &text, &[]);
        let model = loaded.unwrap_or_else(|error| panic!("{error}")).config.model;
        let secrets = Secrets { key: Some(ApiKey::new("sk-0123456789")), ..Secrets::default() };
        spec(&model, model.endpoint.as_ref().unwrap(), &secrets).unwrap()
    }

    /// A config that says nothing has the defaults of its dialect.
    #[test]
    fn silence_means_the_defaults_of_the_dialect() {
        for (kind, url) in [
            ("openai", "https://api.openai.com/v1"),
            ("gemini", "https://generativelanguage.googleapis.com"),
            ("anthropic", "https://api.anthropic.com"),
            ("transcription", "https://api.openai.com/v1"),
            ("azure", "https://x.openai.azure.com"),
        ] {
            let address = if kind == "azure" { format!("base_url = '{url}'") } else { String::new() };
            let found = of(&format!("[model]\nkind = '{kind}'\nmodel = 'm'\n{address}"));
            let mut expected = EndpointSpec::new(found.dialect, url, "m");
            assert_eq!(expected.dialect.as_str(), kind);
            expected.key = Some(ApiKey::new("sk-0123456789"));
            // A file holds no infinity: a day stands for it.
            expected.limits.max_seconds = expected.limits.max_seconds.min(86_400.0);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_key_reaches_the_spec() {
        let found = of(r#"
            [model]
            kind = "openai"
            model = "m"
            base_urls = ["http://a/v1", "http://b/v1"]
            name = "M"
            revision = "r1"
            [model.audio]
            max_seconds = 30
            transcode = "wav"
            form = "audio_url"
            formats = ["wav", "flac"]
            max_bytes = 1000
            [model.endpoint]
            system_role = "fold"
            max_tokens_field = "max_completion_tokens"
            send = ["seed", "top_k"]
            stream = true
            completions = true
            image_detail = "low"
            extra_body = { a = { b = [1, true] } }
            ca_bundle = "ca.pem"
            [model.flow]
            concurrency = 64
            min_concurrency = 2
            adaptive = false
            rpm = 500
            tpm = 60000
            timeout_seconds = 1.5
            deadline_seconds = 20
            max_attempts = 3
            patience_seconds = 0
        "#);
        let send =
            Send { temperature: false, top_p: false, seed: true, top_k: true, repetition_penalty: false };
        let expected = EndpointSpec::new(Dialect::OpenAi, "http://a/v1", "m");
        let mut limits = expected.limits.clone();
        limits.max_seconds = 30.0;
        limits.audio_formats = vec!["wav".to_owned(), "flac".to_owned()];
        limits.max_audio_bytes = 1000;
        let expected = EndpointSpec {
            base_urls: vec!["http://a/v1".to_owned(), "http://b/v1".to_owned()],
            name: "M".to_owned(),
            revision: Some("r1".to_owned()),
            key: Some(ApiKey::new("sk-0123456789")),
            audio_form: AudioForm::AudioUrl,
            system_role: SystemRole::Fold,
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            send,
            stream: true,
            completions: true,
            image_detail: Some(ImageDetail::Low),
            extra_body: serde_json::from_str(r#"{"a": {"b": [1, true]}}"#).unwrap(),
            ca_bundle: Some("ca.pem".into()),
            limits,
            concurrency: Concurrency { min: 2, max: 64, adaptive: false },
            rpm: Some(500),
            tpm: Some(60_000),
            timeout: Duration::from_millis(1500),
            deadline: Duration::from_secs(20),
            patience: Duration::ZERO,
            retries: Retries { max_attempts: 3, ..expected.retries },
            ..expected
        };
        assert_eq!(found, expected);
    }
}
