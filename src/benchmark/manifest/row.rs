//! A row of a user's manifest.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::types::{AudioRef, ImageRef, Message, Part, Role, Tags, Window};

/// The fields that a row may have, by our names; `[benchmark.fields]` gives them others.
pub(super) const FIELDS: [&str; 10] =
    ["id", "question", "messages", "audio", "image", "text", "reference", "category", "set", "language"];
/// Where references may stand too, unless `reference` has another name.
const OTHER_REFERENCES: [&str; 2] = ["references", "answer"];
/// Fields that are tags as whole numbers too.
const TAG_FIELDS: [&str; 3] = ["category", "set", "language"];
/// The longest string that is taken for a tag, in code points.
const LONGEST_TAG: usize = 64;

/// What a row asks.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name, if it has one.
    pub(super) id: Option<String>,
    /// What is asked, without the section's system message.
    pub(super) messages: Vec<Message>,
    /// At least one.
    pub(super) references: Vec<String>,
    pub(super) tags: Tags,
}

/// A row with the names that its fields have.
struct Fields<'a> {
    row: &'a Map<String, Value>,
    names: &'a BTreeMap<String, String>,
    window: Window,
}

impl Row {
    pub(super) fn read(
        row: &Value,
        names: &BTreeMap<String, String>,
        window: Window,
    ) -> Result<Self, String> {
        let row = row.as_object().ok_or("a row must be a JSON object")?;
        let fields = Fields { row, names, window };
        Ok(Self {
            id: fields.id()?,
            messages: fields.messages()?,
            references: fields.references()?,
            tags: fields.tags(),
        })
    }
}

impl<'a> Fields<'a> {
    /// The name that a field has in the file.
    fn name(&self, field: &'a str) -> &'a str {
        self.names.get(field).map_or(field, String::as_str)
    }

    /// A field that is there and not null.
    fn get(&self, field: &'a str) -> Option<&'a Value> {
        self.row.get(self.name(field)).filter(|value| !value.is_null())
    }

    fn string(&self, field: &'a str) -> Result<Option<&'a str>, String> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{}` must be a string", self.name(field))),
        }
    }

    fn id(&self) -> Result<Option<String>, String> {
        match self.get("id") {
            None => Ok(None),
            Some(Value::String(id)) if !id.is_empty() => Ok(Some(id.clone())),
            Some(Value::Number(id)) if id.is_i64() || id.is_u64() => Ok(Some(id.to_string())),
            Some(_) => {
                Err(format!("`{}` must be a string or a whole number, and not empty", self.name("id")))
            }
        }
    }

    /// Names of media: a string, or a list of them.
    fn media(&self, field: &'a str) -> Result<Vec<String>, String> {
        let name = self.name(field);
        let wrong = || format!("`{name}` must be a file name, or a list of them");
        strings(self.get(field), &wrong)
            .and_then(|names| if names.iter().any(String::is_empty) { Err(wrong()) } else { Ok(names) })
    }

    fn references(&self) -> Result<Vec<String>, String> {
        let elsewhere = || OTHER_REFERENCES.into_iter().filter(|_| !self.names.contains_key("reference"));
        let name = std::iter::once(self.name("reference"))
            .chain(elsewhere())
            .find(|name| self.row.get(*name).is_some_and(|value| !value.is_null()));
        let Some(name) = name else {
            return Err(format!(
                "the row has no `{}`: a sample needs one to be scored",
                self.name("reference")
            ));
        };
        let wrong = || format!("`{name}` must be a string or a list of strings (a number is written \"42\")");
        let references = strings(self.row.get(name), &wrong)?;
        if references.is_empty() { Err(format!("`{name}` is an empty list")) } else { Ok(references) }
    }

    /// The row's own messages, or one made of clips, images, text and question, in this order.
    fn messages(&self) -> Result<Vec<Message>, String> {
        let (audio, images) = (self.media("audio")?, self.media("image")?);
        let (text, question) = (self.string("text")?, self.string("question")?);
        if let Some(messages) = self.get("messages") {
            let beside = [
                ("question", question.is_some()),
                ("text", text.is_some()),
                ("audio", !audio.is_empty()),
                ("image", !images.is_empty()),
            ];
            if let Some((field, _)) = beside.into_iter().find(|(_, given)| *given) {
                return Err(format!(
                    "the row has both `{}` and `{}`: keep one",
                    self.name("messages"),
                    self.name(field)
                ));
            }
            return self.own_messages(messages);
        }
        let mut parts: Vec<Part> = audio.into_iter().map(|name| self.clip(name)).collect();
        parts.extend(images.into_iter().map(|name| Part::Image(ImageRef { name })));
        let words: Vec<&str> =
            [text, question].into_iter().flatten().filter(|text| !text.is_empty()).collect();
        if !words.is_empty() {
            // One part: chat templates glue neighbouring texts without a blank.
            parts.push(Part::Text(words.join("\n")));
        }
        if parts.is_empty() {
            let (question, messages, audio) =
                (self.name("question"), self.name("messages"), self.name("audio"));
            return Err(format!("the row asks nothing: it has no `{question}`, `{messages}` or `{audio}`"));
        }
        Ok(vec![Message { role: Role::User, parts }])
    }

    fn clip(&self, name: String) -> Part {
        Part::Audio(AudioRef { name, window: self.window })
    }

    /// Messages in the form of chat requests.
    fn own_messages(&self, messages: &Value) -> Result<Vec<Message>, String> {
        let name = self.name("messages");
        let Some(list) = messages.as_array().filter(|list| !list.is_empty()) else {
            return Err(format!("`{name}` must be a list of messages, each with `role` and `content`"));
        };
        let messages = list
            .iter()
            .enumerate()
            .map(|(i, message)| self.own_message(message).map_err(|e| format!("`{name}[{i}]` {e}")))
            .collect::<Result<Vec<_>, _>>()?;
        match messages.last() {
            Some(last) if last.role == Role::User => Ok(messages),
            _ => Err(format!("the last of `{name}` must have the role `user`: it is what the model answers")),
        }
    }

    fn own_message(&self, message: &Value) -> Result<Message, String> {
        let role = match message.get("role").and_then(Value::as_str) {
            Some("system") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => return Err("must have the `role` system, user or assistant".to_owned()),
        };
        let parts = match message.get("content") {
            Some(Value::String(text)) => vec![Part::Text(text.clone())],
            Some(Value::Array(parts)) if !parts.is_empty() => {
                parts.iter().map(|part| self.own_part(part)).collect::<Result<_, _>>()?
            }
            _ => return Err("must have a `content`: a string, or a list of parts".to_owned()),
        };
        Ok(Message { role, parts })
    }

    fn own_part(&self, part: &Value) -> Result<Part, String> {
        let field = |name: &str| part.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        match part.get("type").and_then(Value::as_str) {
            Some("text") => field("text").map(|text| Part::Text(text.to_owned())),
            Some("audio") => field("audio").map(|name| self.clip(name.to_owned())),
            Some("image") => field("image").map(|name| Part::Image(ImageRef { name: name.to_owned() })),
            _ => None,
        }
        .ok_or_else(|| {
            "has a part that is none of {\"type\": \"text\", \"text\": …}, {\"type\": \"audio\", \"audio\": file name}, \
             {\"type\": \"image\", \"image\": file name}"
                .to_owned()
        })
    }

    /// `category`, `set` and `language`, and every other field that is a short string of one line.
    fn tags(&self) -> Tags {
        let used = FIELDS.map(|field| self.name(field));
        let mut tags = Tags::new();
        let mut tag = |key: &str, value: &Value| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(n) if TAG_FIELDS.contains(&key) && !n.is_f64() => n.to_string(),
                _ => return,
            };
            let is_short = text.chars().count() <= LONGEST_TAG && !text.chars().any(char::is_control);
            if is_short && !text.is_empty() {
                tags.insert(key.to_owned(), text);
            }
        };
        for (key, value) in self.row {
            if !used.contains(&key.as_str()) && !OTHER_REFERENCES.contains(&key.as_str()) {
                tag(key, value);
            }
        }
        for field in TAG_FIELDS {
            if let Some(value) = self.get(field) {
                tag(field, value);
            }
        }
        tags
    }
}

/// A string or a list of strings; nothing is an empty list.
fn strings(value: Option<&Value>, wrong: &dyn Fn() -> String) -> Result<Vec<String>, String> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(list)) => {
            list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}
