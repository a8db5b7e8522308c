//! The JSON schema of a configuration, made from the types of [`super::raw`]: for editors, and for the check
//! of a file before it is read into those types.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use super::raw::RawConfig;

/// The schema, made once.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // Draft 7 without references is what TOML language servers read best.
    let mut schema = SchemaSettings::draft07()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(tidy))
        .into_generator()
        .into_root_schema_for::<RawConfig>()
        .to_value();
    parts_of_cascades(&mut schema);
    schema
});

/// The parts of a cascade have the keys of `[model]`, but are none themselves; nor is a judge.
fn parts_of_cascades(schema: &mut Value) {
    const PARTS: [&str; 3] = ["asr", "llm", "transcripts"];
    let Some(model) = schema.pointer("/properties/model") else { return };
    let mut part = model.clone();
    if let Some(keys) = part.get_mut("properties").and_then(Value::as_object_mut) {
        keys.retain(|key, _| !PARTS.contains(&key.as_str()));
        let kinds = keys.get_mut("kind").and_then(|kind| kind.get_mut("oneOf")).and_then(Value::as_array_mut);
        if let Some(kinds) = kinds {
            kinds.retain(|kind| kind.get("const") != Some(&Value::from("cascade")));
        }
    }
    for place in [
        "/properties/model/properties/asr",
        "/properties/model/properties/llm",
        "/properties/judge/properties/model",
    ] {
        let Some(found) = schema.pointer_mut(place) else { continue };
        let described = found.get("description").cloned();
        *found = part.clone();
        if let (Some(found), Some(described)) = (found.as_object_mut(), described) {
            found.insert("description".to_owned(), described);
        }
    }
}

/// The JSON schema of a configuration file: every key with its description, type, default, bounds and
/// examples.
pub fn schema() -> Value {
    SCHEMA.clone()
}

/// The same without a copy.
pub(super) fn root() -> &'static Value {
    &SCHEMA
}

/// TOML has no null: an optional key may be left out, so its schema is that of its value. Number formats say
/// nothing that bounds don't, and line breaks of doc comments mean nothing.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("format");
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(mut choices)) = object.remove("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
        match <[Value; 1]>::try_from(choices) {
            Ok([Value::Object(only)]) => {
                for (key, value) in only {
                    object.entry(key).or_insert(value);
                }
            }
            Ok([only]) => drop(object.insert("anyOf".to_owned(), Value::from(vec![only]))),
            Err(choices) => drop(object.insert("anyOf".to_owned(), Value::from(choices))),
        }
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// The schemas of a section's keys, in the order of the types.
pub(super) fn keys(section: &Value) -> impl Iterator<Item = (&str, &Value)> {
    section
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, schema)| (key.as_str(), schema))
}

/// The schema of one key of a section; for a section of free keys, that of its values.
pub(super) fn key<'a>(section: &'a Value, name: &str) -> Option<&'a Value> {
    section
        .get("properties")
        .and_then(|properties| properties.get(name))
        .or_else(|| section.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// Whether a section takes any key with any value.
pub(super) fn is_free(section: &Value) -> bool {
    section.get("additionalProperties") == Some(&Value::Bool(true))
}

/// Of a key that takes a number or one of some words: the schema of what was typed, a text or not.
pub(super) fn of_either(schema: &Value, text: bool) -> Option<Value> {
    let choices = schema.get("anyOf")?.as_array()?;
    let chosen = choices.iter().find(|choice| (type_of(choice) == "string") == text)?;
    let mut whole = schema.as_object()?.clone();
    whole.remove("anyOf");
    whole.extend(chosen.as_object()?.clone());
    Some(Value::Object(whole))
}

/// The JSON type that a schema asks for.
pub(super) fn type_of(schema: &Value) -> &str {
    let of_choices = || schema.get("oneOf")?.get(0)?.get("type")?.as_str();
    schema.get("type").and_then(Value::as_str).or_else(of_choices).unwrap_or("string")
}

/// The values that a schema allows, where it lists them.
pub(super) fn choices(schema: &Value) -> Option<Vec<&str>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().filter_map(Value::as_str).collect());
    }
    if let Some(value) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![value]);
    }
    let values = schema.get("oneOf").and_then(Value::as_array)?;
    Some(values.iter().filter_map(choices).flatten().collect())
}
