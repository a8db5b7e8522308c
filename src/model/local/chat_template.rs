//! The chat template of a checkpoint: Jinja, rendered as the reference implementation renders it.
//!
//! Templates are programs that came with a model. They get the messages and the special tokens and nothing else.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Value, json};

use super::config;
use super::error::LoadError;
use crate::types::{Message, Part, Role};

const NAME: &str = "chat_template";

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    roles: Vec<(String, String)>,
}

impl ChatTemplate {
    /// Finds and compiles the template of a folder: `chat_template.jinja`, else `chat_template.json`, else the one in
    /// `tokenizer_config.json`. `roles` are the special tokens that it may print.
    pub fn read(folder: &Path, roles: Vec<(String, String)>) -> Result<Self, LoadError> {
        let jinja = folder.join("chat_template.jinja");
        let (path, source) = if jinja.exists() {
            let (path, bytes) = config::read_file(folder, "chat_template.jinja")?;
            let source = String::from_utf8(bytes).map_err(|_| LoadError::Malformed {
                path: path.clone(),
                problem: "is not UTF-8".to_owned(),
            })?;
            (path, Some(source))
        } else if folder.join("chat_template.json").exists() {
            let value: Value = config::read_json(folder, "chat_template.json")?;
            (folder.join("chat_template.json"), default_template(&value))
        } else {
            let value: Value = config::read_json(folder, "tokenizer_config.json")?;
            (folder.join("tokenizer_config.json"), default_template(&value))
        };
        let Some(source) = source else {
            return Err(config::missing(folder, "a chat template"));
        };
        Self::compile(&source, roles).map_err(|problem| LoadError::Malformed { path, problem })
    }

    /// Compiles a template.
    pub fn compile(source: &str, roles: Vec<(String, String)>) -> Result<Self, String> {
        let mut environment = Environment::new();
        // As the reference implementation sets Jinja up.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| sentence(&error))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |text: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, format!("the template refuses the messages: {text}")))
        });
        // `strftime_now` is left out on purpose: a prompt that holds the date would be another one tomorrow, under
        // the same key. Templates that know it print a fixed date where it is not defined.
        // A mark of training tools around the assistant's words; it prints what it holds.
        let source = source.replace("{% generation %}", "").replace("{% endgeneration %}", "");
        environment
            .add_template_owned(NAME, source)
            .map_err(|error| format!("the chat template cannot be compiled: {}", sentence(&error)))?;
        Ok(Self { environment, roles })
    }

    /// The prompt string of messages in the template's own form.
    pub fn render_values(&self, messages: &[Value], add_generation_prompt: bool) -> Result<String, String> {
        let mut context: serde_json::Map<String, Value> =
            self.roles.iter().map(|(role, token)| (role.clone(), Value::from(token.as_str()))).collect();
        context.insert("messages".to_owned(), Value::from(messages));
        // The reference implementation always gives these two.
        context.insert("tools".to_owned(), Value::Null);
        context.insert("documents".to_owned(), Value::Null);
        context.insert("add_generation_prompt".to_owned(), Value::from(add_generation_prompt));
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(minijinja::value::Serde(&context)))
            .map_err(|error| format!("the chat template failed: {}", sentence(&error)))
    }

    /// The prompt string of a chat, ready for the model's answer.
    pub fn render(&self, messages: &[Message]) -> Result<String, String> {
        let messages = messages.iter().map(message_value).collect::<Result<Vec<_>, String>>()?;
        self.render_values(&messages, true)
    }
}

impl ChatTemplate {
    /// The same for a text model, whose templates want each message as one string: its texts, one behind the other.
    pub fn render_text(&self, messages: &[Message]) -> Result<String, String> {
        let messages = messages.iter().map(text_value).collect::<Result<Vec<_>, String>>()?;
        self.render_values(&messages, true)
    }
}

/// A message as templates of text models want it.
fn text_value(message: &Message) -> Result<Value, String> {
    let mut content = String::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => content.push_str(text),
            Part::Audio(audio) => {
                return Err(format!("the prompt holds a clip ({}), and a text model hears none", audio.name));
            }
            Part::Image(image) => {
                return Err(format!(
                    "the prompt holds an image ({}), and a text model sees none",
                    image.name
                ));
            }
        }
    }
    Ok(json!({"role": message.role.as_str(), "content": content}))
}

/// The template called `default` where there are several, else the only one.
fn default_template(value: &Value) -> Option<String> {
    match value.get("chat_template")? {
        Value::String(source) => Some(source.clone()),
        Value::Object(named) => named.get("default").and_then(Value::as_str).map(str::to_owned),
        Value::Array(list) => list
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| entry.get("template"))
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    }
}

/// A message as templates of this model want it: the user's parts as a list, other roles' single text as a string.
fn message_value(message: &Message) -> Result<Value, String> {
    if let (Role::System | Role::Assistant, [Part::Text(text)]) = (message.role, &message.parts[..]) {
        return Ok(json!({"role": message.role.as_str(), "content": text}));
    }
    let parts = message
        .parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Ok(json!({"type": "text", "text": text})),
            // The clip's name is no part of what is asked: the same clip under another name is the same request.
            Part::Audio(_) => Ok(json!({"type": "audio", "audio_url": "audio"})),
            Part::Image(image) => {
                Err(format!("the prompt holds an image ({}), and this model sees none", image.name))
            }
        })
        .collect::<Result<Vec<_>, String>>()?;
    Ok(json!({"role": message.role.as_str(), "content": parts}))
}

/// A template error on one line, with its place.
fn sentence(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AudioRef, ImageRef, Window};

    fn user(parts: Vec<Part>) -> Message {
        Message { role: Role::User, parts }
    }

    #[test]
    fn messages_take_the_form_that_templates_expect() {
        let audio = Part::Audio(AudioRef { name: "a.wav".to_owned(), window: Window::Whole });
        assert_eq!(
            message_value(&Message::text(Role::System, "s")).unwrap(),
            json!({"role": "system", "content": "s"})
        );
        assert_eq!(
            message_value(&user(vec![audio, Part::Text("t".to_owned())])).unwrap(),
            json!({"role": "user", "content": [
                {"type": "audio", "audio_url": "audio"}, {"type": "text", "text": "t"}]})
        );
        let image = user(vec![Part::Image(ImageRef { name: "i.png".to_owned() })]);
        assert!(message_value(&image).unwrap_err().contains("i.png"));
    }

    #[test]
    fn a_template_that_fails_says_why() {
        let render = |source: &str| {
            ChatTemplate::compile(source, Vec::new())
                .and_then(|template| template.render(&[Message::text(Role::User, "x")]))
        };
        for (source, part) in [
            ("{% for m in messages %}", "cannot be compiled"),
            ("{{ messages[0].nothing.more }}", "undefined"),
            ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
            ("{{ messages | nofilter }}", "unknown filter"),
            ("{{ strftime_now('%Y') }}", "strftime_now"),
        ] {
            let error = render(source).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{source}: {error}");
        }
        assert_eq!(render("{{ 'A b'.upper() }}{{ messages[0].nothing }}").unwrap(), "A B");
        assert_eq!(render("{{ 1 if strftime_now is defined else 2 }}").unwrap(), "2");
    }

    #[test]
    fn roles_print_and_named_templates_are_found() {
        let roles = vec![("eos_token".to_owned(), "<|im_end|>".to_owned())];
        let template = ChatTemplate::compile("{{ eos_token }}", roles).unwrap();
        assert_eq!(template.render(&[]).unwrap(), "<|im_end|>");
        for value in [
            json!({"chat_template": "x"}),
            json!({"chat_template": {"default": "x", "tool": "y"}}),
            json!({"chat_template": [{"name": "tool", "template": "y"}, {"name": "default", "template": "x"}]}),
        ] {
            assert_eq!(default_template(&value).as_deref(), Some("x"));
        }
        assert_eq!(default_template(&json!({})), None);
    }
}
