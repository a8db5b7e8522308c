//! Streamed chat completions, put together to what the same answer is without streaming.
//!
//! Nothing is shown while it streams, so the stream is read whole and then assembled: pure, and as strict as
//! for any other reply. A stream that ends without saying so is cut short.

use serde_json::{Map, Value, json};

/// Whether a body is a stream, whatever its content type says.
pub(super) fn looks_like(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    start.starts_with(b"data:") || start.starts_with(b"event:") || start.starts_with(b": ")
}

/// The chat completion that a stream amounts to, or its error object; a sentence where it is no whole stream.
pub(super) fn assemble(body: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(body);
    let mut content = String::new();
    let mut refusal = String::new();
    let (mut reason, mut usage) = (Value::Null, Value::Null);
    let (mut events, mut done) = (0, false);
    let mut model = Value::Null;
    for data in events_of(&text) {
        if data.trim() == "[DONE]" {
            done = true;
            break;
        }
        let event: Value = serde_json::from_str(&data)
            .map_err(|error| format!("event {} of the stream is no JSON ({error})", events + 1))?;
        events += 1;
        if event.get("error").is_some_and(|error| !error.is_null())
            || event.get("object").and_then(Value::as_str) == Some("error")
        {
            return Ok(event);
        }
        // Azure's first event, of the filter's results, names none.
        if let Some(named) = event.get("model").filter(|named| named.as_str().is_some_and(|n| !n.is_empty()))
        {
            model = named.clone();
        }
        if let Some(counted) = event.get("usage").filter(|usage| usage.is_object()) {
            usage = counted.clone();
        }
        let Some(choice) = event.get("choices").and_then(|choices| choices.get(0)) else { continue };
        if choice.get("error").is_some_and(|error| !error.is_null()) {
            return Ok(event);
        }
        let piece = |key: &str| {
            let delta = choice.get("delta").or_else(|| choice.get("message"));
            delta.and_then(|delta| delta.get(key)).and_then(Value::as_str)
        };
        content.push_str(
            piece("content").or_else(|| choice.get("text").and_then(Value::as_str)).unwrap_or_default(),
        );
        refusal.push_str(piece("refusal").unwrap_or_default());
        if let Some(given) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
            reason = given.clone();
        }
    }
    if !done && reason.is_null() {
        return Err(format!("the stream is cut short after {events} events"));
    }
    if events == 0 {
        return Err("the stream is empty".to_owned());
    }
    let mut message = Map::from_iter([("content".to_owned(), Value::from(content))]);
    if !refusal.is_empty() {
        message.insert("refusal".to_owned(), refusal.into());
    }
    let mut whole = json!({"choices": [{"message": message, "finish_reason": reason}], "usage": usage});
    if !model.is_null() {
        whole["model"] = model;
    }
    Ok(whole)
}

/// The data of each event (WHATWG, server-sent events): lines `data:` up to a blank line belong together.
fn events_of(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut data: Option<String> = None;
        for line in lines.by_ref() {
            if let Some(rest) = line.strip_prefix("data:") {
                let rest = rest.strip_prefix(' ').unwrap_or(rest);
                data = Some(match data {
                    Some(before) => before + "\n" + rest,
                    None => rest.to_owned(),
                });
            } else if line.is_empty() && data.is_some() {
                return data;
            }
        }
        data
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_becomes_the_answer_it_carries() {
        let stream = ": hello\n\n\
            data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n\
            event: x\ndata: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Par\"},\"finish_reason\":null}]}\n\n\
            data:{\"choices\":[{\"delta\":{\"content\":\"is\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n\
            data: {\"choices\":[],\"model\":\"m-1\",\"usage\":{\"prompt_tokens\":5}}\n\n\
            data: [DONE]\n\n";
        assert!(looks_like(stream.as_bytes()));
        let expected = json!({
            "choices": [{"message": {"content": "Paris"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 5},
            "model": "m-1",
        });
        assert_eq!(assemble(stream.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_stream_that_breaks_off_is_no_answer() {
        let check =
            |stream: &str, expected: &str| assert_eq!(assemble(stream.as_bytes()).unwrap_err(), expected);
        check(
            "data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\n\n",
            "the stream is cut short after 1 events",
        );
        check("", "the stream is cut short after 0 events");
        check("data: [DONE]\n\n", "the stream is empty");
        assert!(assemble(b"data: {\"choi\n\n").unwrap_err().starts_with("event 1 of the stream is no JSON"));
    }

    #[test]
    fn an_error_in_a_stream_is_given_on() {
        let stream =
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"code\":500}}\n\n";
        assert_eq!(assemble(stream.as_bytes()).unwrap(), json!({"error": {"code": 500}}));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "(data: ?[\\[{\"a:}\\]]{0,9}\n?){0,9}") {
            drop(assemble(&bytes));
            drop(assemble(text.as_bytes()));
        }
    }
}
