//! One request and its response: what is checked, what is answered, what goes wrong.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;

use super::content::{Content, Found, Sum};
use super::dialect::{Dialect, Finish, Route, Turn, sse};
use super::fault::{Fault, draw};
use super::http::{Connection, Head, Length, Reply, Trouble};
use super::multipart;
use super::scan::Scan;
use super::server::{Shared, Wire};
use super::strict;

/// How a response goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Whole,
    /// The first half, then a reset.
    Half,
    /// In pieces, with a pause before each.
    Drip(Duration),
    /// A reset before the first byte.
    Nothing,
    /// Nothing, until the client gives up.
    Never,
}

/// The pieces of a body that drips.
const DRIPS: usize = 10;

/// A response with all that is recorded about it.
struct Answer {
    reply: Reply,
    delivery: Delivery,
    fault: Option<Fault>,
    /// The key of the content, where the request was understood, and the attempt at it.
    content: Option<(u64, u32)>,
    sum: Sum,
    latency: Duration,
    /// Whether this is the right answer.
    right: bool,
}

impl Answer {
    fn plain(reply: Reply) -> Self {
        Self {
            reply,
            delivery: Delivery::Whole,
            fault: None,
            content: None,
            sum: Sum::default(),
            latency: Duration::ZERO,
            right: false,
        }
    }
}

/// Serves a connection until it ends; true where it asked for the end of the server.
pub(crate) fn converse(shared: &Shared, wire: &Wire<'_>, connection: &mut Connection<'_>) -> bool {
    // Reused by bodies that are kept whole: forms, and all under strict checks.
    let mut kept = Vec::new();
    loop {
        let mut shutdown = false;
        let (dialect, outcome) = match connection.head() {
            Ok(head) => match Route::of(&head) {
                Route::Answer(dialect, model) => {
                    (dialect, respond(shared, wire, connection, &head, dialect, model.as_deref(), &mut kept))
                }
                route => {
                    shutdown = route == Route::Shutdown;
                    (Dialect::Chat, inform(shared, wire, connection, &head, &route))
                }
            },
            Err(trouble) => (Dialect::Chat, Err(trouble)),
        };
        match outcome {
            Ok(true) if !wire.was_reset() => {}
            Ok(_) => return shutdown,
            Err(Trouble::Gone) => return false,
            Err(Trouble::Bad(status, why)) => {
                let (head, body) = Reply::json(status, &dialect.error(status, &why)).wire(true);
                let mut stream = wire.stream;
                if stream.write_all(&[head, body].concat()).is_ok() {
                    connection.linger();
                }
                return false;
            }
        }
    }
}

/// Answers one request to a model; false where the connection ends with it.
fn respond(
    shared: &Shared,
    wire: &Wire<'_>,
    connection: &mut Connection<'_>,
    head: &Head,
    dialect: Dialect,
    model: Option<&str>,
    kept: &mut Vec<u8>,
) -> Result<bool, Trouble> {
    let flight = Flight::new(shared);
    let answer = match answer(shared, connection, head, dialect, model, flight.number, kept) {
        Ok(Some(answer)) => answer,
        // The request after which the server goes down: it ends with all the others.
        Ok(None) => {
            shared.memory().ended(&head.path, "down".to_owned());
            shared.go_down();
            wire.sleep(shared.options.down_for);
            return Ok(false);
        }
        Err(trouble) => {
            drop(flight);
            match &trouble {
                Trouble::Gone => shared.memory().gone(&head.path),
                Trouble::Bad(status, _) => shared.memory().ended(&head.path, status.to_string()),
            }
            return Err(trouble);
        }
    };
    // Counted before the client can see the end of the response: what it does next must find it counted.
    let mut flight = Some(flight);
    let mut settle = |sent: Option<u64>| {
        if flight.take().is_some() {
            record(shared, wire, head, &answer, sent);
        }
    };
    let close = head.close || shared.options.close;
    if deliver(wire, &answer, close, &mut settle).is_ok() {
        return Ok(!close && matches!(answer.delivery, Delivery::Whole | Delivery::Drip(_)));
    }
    settle(None);
    Ok(false)
}

/// Answers a request that asks no model; false where the connection ends with it.
fn inform(
    shared: &Shared,
    wire: &Wire<'_>,
    connection: &mut Connection<'_>,
    head: &Head,
    route: &Route,
) -> Result<bool, Trouble> {
    let options = &shared.options;
    if head.expects {
        connection.go_ahead()?;
    }
    connection.body(head.length, options.max_body, |_| {})?;
    let reply = match route {
        Route::Models(dialect, one) => match refused_key(shared, *dialect, head) {
            Some(refusal) => refusal,
            None => dialect.models(&options.models, one.as_deref()),
        },
        Route::Counters => {
            let counters = serde_json::to_value(shared.memory().snapshot());
            Reply::json(200, &counters.unwrap_or_default())
        }
        Route::Shutdown => Reply::json(200, &json!({"stopping": true})),
        Route::Health => Reply::new(200, "text/plain", b"ok\n".to_vec()),
        Route::WrongMethod(method) => {
            let mut reply =
                Reply::json(405, &Dialect::Chat.error(405, &format!("expected {method} for {}", head.path)));
            reply.headers.push(("allow", (*method).to_owned()));
            reply
        }
        Route::Answer(..) | Route::Unknown => {
            shared.memory().ended("(unknown)", "404".to_owned());
            Reply::json(
                404,
                &Dialect::Chat.error(404, &format!("no such path: {} {}", head.method, head.path)),
            )
        }
    };
    let close = head.close || options.close || *route == Route::Shutdown;
    let delivered = deliver(wire, &Answer::plain(reply), close, &mut |_| {});
    Ok(delivered.is_ok() && !close)
}

/// A request under way.
struct Flight<'a> {
    shared: &'a Shared,
    /// How many there are with this one.
    number: u64,
}

impl<'a> Flight<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut memory = shared.memory();
        let counters = &mut memory.counters;
        counters.in_flight += 1;
        counters.max_in_flight = counters.max_in_flight.max(counters.in_flight);
        Self { shared, number: counters.in_flight }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.shared.memory().counters.in_flight -= 1;
    }
}

/// Reads a request and makes its response; `None` where the server is to go down now.
fn answer(
    shared: &Shared,
    connection: &mut Connection<'_>,
    head: &Head,
    dialect: Dialect,
    model: Option<&str>,
    in_flight: u64,
    kept: &mut Vec<u8>,
) -> Result<Option<Answer>, Trouble> {
    let options = &shared.options;
    let refuse =
        |status, why: &str| Ok(Some(Answer::plain(Reply::json(status, &dialect.error(status, why)))));
    if head.expects && !matches!(head.length, Length::Fixed(size) if size > options.max_body) {
        connection.go_ahead()?;
    }
    let sha256 = shared.originals.is_some();
    let (size, content) = read(options.strict, sha256, options.max_body, connection, head, dialect, kept)?;
    if options.down_after == Some(shared.memory().arrival(size)) {
        return Ok(None);
    }
    if options.max_concurrency.is_some_and(|most| in_flight > most) {
        return refuse(503, "The server is overloaded; try again later");
    }
    if let Some(refusal) = refused_key(shared, dialect, head) {
        return Ok(Some(Answer::plain(refusal)));
    }
    if options.strict
        && let Err(why) = strict::head(dialect, head)
    {
        return refuse(400, &why);
    }
    let mut content = match content {
        Ok(content) => content,
        Err(why) => return refuse(400, &why),
    };
    if let Some(model) = model {
        content.model = Some(model.to_owned());
    }
    let model = content.model.clone().unwrap_or_default();
    if !options.models.is_empty() && !options.models.contains(&model) {
        return refuse(404, &format!("The model `{model}` does not exist"));
    }
    if let Some(piece) = content.pieces.iter().find(|piece| !options.takes(piece.form, piece.kind)) {
        return refuse(400, &format!("This model does not support {:?} content", piece.form));
    }
    let streams = matches!(dialect, Dialect::Chat | Dialect::Azure | Dialect::Completions);
    if content.stream && !streams {
        return refuse(400, "this server streams only chat and raw completions");
    }
    if let Some(originals) = &shared.originals {
        let media = content.pieces.iter().filter(|piece| !piece.is_text());
        let (known, others): (Vec<&Found>, Vec<&Found>) =
            media.partition(|piece| piece.sha256.is_some_and(|sha256| originals.contains(&sha256)));
        let mut memory = shared.memory();
        memory.counters.media_original += known.len() as u64;
        memory.counters.media_other += others.len() as u64;
    }
    let key = content.key(&content.sum());
    if options.deaf {
        content.pieces.retain(Found::is_text);
    }
    let sum = content.sum();
    let attempt = {
        let mut memory = shared.memory();
        memory.counters.with_media += u64::from(sum.media > 0);
        memory.counters.media_bytes += sum.audio_bytes + sum.image_bytes;
        memory.attempt(key)
    };
    let fault = draw(&options.faults, options.fail_first, options.seed, key, attempt);
    let text = match options.answers.len() as u64 {
        0 => sum.answer(),
        choices if options.seeded => options.answers[(key % choices) as usize].clone(),
        choices => options.answers[(sum.hash() % choices) as usize].clone(),
    };
    let named = match options.answers_as.len() as u64 {
        0 => &model,
        choices => &options.answers_as[(sum.hash() % choices) as usize],
    };
    let mut answer = compose(shared, dialect, &content, named, key, &text, sum, fault);
    answer.content = Some((key, attempt));
    if fault.is_none_or(Fault::takes_time) {
        answer.latency = options.latency.draw(options.seed, key, attempt);
    }
    if let Some(wait) = told_to_wait(fault, options.retry_after) {
        shared.memory().wait(key, wait);
    }
    Ok(Some(answer))
}

/// Reads the body, and what it says or why it says nothing: the outer error ends the connection, the inner one
/// is answered.
fn read(
    strict: bool,
    sha256: bool,
    max: u64,
    connection: &mut Connection<'_>,
    head: &Head,
    dialect: Dialect,
    kept: &mut Vec<u8>,
) -> Result<(u64, Result<Content, String>), Trouble> {
    kept.clear();
    if dialect == Dialect::Transcription {
        let size = connection.body(head.length, max, |bytes| kept.extend_from_slice(bytes))?;
        return Ok((size, form(strict, sha256, head, kept)));
    }
    let mut scan = Scan::new().with_sha256(sha256);
    let mut wrong = None;
    let size = connection.body(head.length, max, |bytes| {
        if wrong.is_none() {
            wrong = scan.feed(bytes).err();
        }
        if strict {
            kept.extend_from_slice(bytes);
        }
    })?;
    let content = match wrong {
        Some(wrong) => Err(wrong.to_owned()),
        None => scan.finish().map_err(str::to_owned),
    };
    let checked = if strict { strict::body(dialect, kept) } else { Ok(()) };
    Ok((size, checked.and(content)))
}

fn form(strict: bool, sha256: bool, head: &Head, body: &[u8]) -> Result<Content, String> {
    let content_type = head.header("content-type").unwrap_or_default();
    let boundary = multipart::boundary(content_type).ok_or_else(|| {
        format!("content-type is `{content_type}`; expected multipart/form-data with a boundary")
    })?;
    let fields = multipart::fields(body, boundary)?;
    if strict {
        strict::form(&fields)?;
    }
    if !fields.iter().any(|field| field.name == "file") {
        return Err("file: expected a field with the clip".to_owned());
    }
    Ok(multipart::content(&fields, sha256))
}

/// The response to a wrong key, where one is asked for.
fn refused_key(shared: &Shared, dialect: Dialect, head: &Head) -> Option<Reply> {
    let expected = shared.options.key.as_deref()?;
    let message = match dialect.key(head) {
        Some(key) if key == expected => return None,
        Some(_) => "Incorrect API key provided",
        None => "No API key provided",
    };
    Some(Reply::json(401, &dialect.error(401, message)))
}

/// How long a fault tells the client to wait.
fn told_to_wait(fault: Option<Fault>, wait: Duration) -> Option<Duration> {
    match fault? {
        Fault::Status(429) => Some(Duration::from_secs(whole_seconds(wait))),
        Fault::LimitMillis | Fault::LimitReset => Some(wait),
        // A date has whole seconds, so half a second less is as well.
        Fault::LimitDate => Some(wait.saturating_sub(Duration::from_millis(500))),
        _ => None,
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The response, right or as the fault wants it.
#[expect(clippy::too_many_arguments, reason = "all that a response is made of, used once")]
fn compose(
    shared: &Shared,
    dialect: Dialect,
    content: &Content,
    model: &str,
    key: u64,
    text: &str,
    sum: Sum,
    fault: Option<Fault>,
) -> Answer {
    let wait = shared.options.retry_after;
    let mut delivery = Delivery::Whole;
    let (mut text, mut finish) = (text, Finish::Stop);
    let half = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    match fault {
        Some(Fault::EmptyChoices) => finish = Finish::NoChoice,
        Some(Fault::EmptyText) => text = "",
        Some(Fault::Length) => (text, finish) = (&text[..half], Finish::Length),
        Some(Fault::Filter) => (text, finish) = ("", Finish::Filter),
        Some(Fault::Refusal) => (text, finish) = ("", Finish::Refusal),
        Some(Fault::Reset) => delivery = Delivery::Half,
        Some(Fault::ResetEarly) => delivery = Delivery::Nothing,
        Some(Fault::Stall) => delivery = Delivery::Never,
        Some(Fault::SlowBody) => delivery = Delivery::Drip(shared.options.slow_body / DRIPS as u32),
        _ => {}
    }
    // A transcription has no field for these.
    let nameless = dialect == Dialect::Transcription
        && matches!(finish, Finish::Length | Finish::Filter | Finish::Refusal);
    let turn = Turn { model, key, text, finish, sum };
    let mut reply = match fault {
        Some(Fault::FilterPrompt) => dialect.prompt_filtered(model),
        _ if nameless => dialect.prompt_filtered(model),
        Some(Fault::Status(status)) => {
            Reply::json(status, &dialect.error(status, &format!("fault {status}, as asked for")))
        }
        Some(Fault::LimitMillis | Fault::LimitDate | Fault::LimitBare) => {
            Reply::json(429, &dialect.error(429, "Rate limit reached"))
        }
        Some(Fault::LimitReset) => dialect.limit_reset(wait),
        Some(fault @ (Fault::OkError | Fault::OkRefused)) => {
            let (status, why) = if fault == Fault::OkError {
                (503, "The server is overloaded; try again later")
            } else {
                (400, "Invalid or unsupported audio file")
            };
            let error = dialect.error(status, why);
            if content.stream { events(sse(&[error])) } else { Reply::json(200, &error) }
        }
        Some(fault @ (Fault::Html | Fault::HtmlOk)) => {
            let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1>\
                </center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
            Reply::new(if fault == Fault::Html { 502 } else { 200 }, "text/html", page.into())
        }
        _ if content.stream => events(turn.events(dialect, content.include_usage)),
        _ if content.plain && finish != Finish::NoChoice => {
            Reply::new(200, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
        }
        _ if content.verbose && finish != Finish::NoChoice => {
            let mut body = turn.whole(dialect);
            // OpenAI's names, not codes. Whatever is said, it is taken for English.
            (body["task"], body["language"]) = ("transcribe".into(), "english".into());
            Reply::json(200, &body)
        }
        _ => Reply::json(200, &turn.whole(dialect)),
    };
    match fault {
        Some(Fault::Status(429)) => reply.headers.push(("retry-after", whole_seconds(wait).to_string())),
        Some(Fault::LimitMillis) => reply.headers.push(("retry-after-ms", wait.as_millis().to_string())),
        Some(Fault::LimitDate) => {
            let at =
                jiff::Timestamp::now().checked_add(wait + Duration::from_millis(500)).unwrap_or_default();
            reply.headers.push(("retry-after", at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()));
        }
        Some(Fault::Truncated) => reply.body.truncate(reply.body.len() / 2),
        Some(Fault::WrongType) => reply.content_type = "text/plain; charset=utf-8",
        _ => {}
    }
    reply.headers.push(("x-request-id", format!("req_{key:016x}")));
    let right = fault.is_none_or(Fault::answers);
    Answer { reply, delivery, fault, content: None, sum, latency: Duration::ZERO, right }
}

fn events(body: Vec<u8>) -> Reply {
    let mut reply = Reply::new(200, "text/event-stream; charset=utf-8", body);
    reply.chunked = true;
    reply
}

/// The client or the server left before the response was sent.
struct Left;

impl From<std::io::Error> for Left {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

/// Sends a response; `settle` is told the number of its bytes just before the last of them go out.
fn deliver(
    wire: &Wire<'_>,
    answer: &Answer,
    close: bool,
    settle: &mut dyn FnMut(Option<u64>),
) -> Result<(), Left> {
    let mut stream = wire.stream;
    if !answer.latency.is_zero() && (!wire.sleep(answer.latency) || wire.client_left()) {
        return Err(Left);
    }
    let (mut head, body) = answer.reply.wire(close);
    let whole = Some((head.len() + body.len()) as u64);
    match answer.delivery {
        Delivery::Whole => {
            head.extend_from_slice(&body);
            settle(whole);
            stream.write_all(&head)?;
        }
        Delivery::Half => {
            head.extend_from_slice(&body[..body.len() / 2]);
            settle(Some(head.len() as u64));
            stream.write_all(&head)?;
            // A reset may overtake what the client has not read yet.
            wire.sleep(Duration::from_millis(20));
            wire.make_reset();
        }
        Delivery::Drip(pause) => {
            stream.write_all(&head)?;
            let mut pieces = body.chunks(body.len().div_ceil(DRIPS).max(1)).peekable();
            while let Some(piece) = pieces.next() {
                if !wire.sleep(pause) || wire.client_left() {
                    return Err(Left);
                }
                if pieces.peek().is_none() {
                    settle(whole);
                }
                stream.write_all(piece)?;
            }
        }
        Delivery::Nothing => {
            settle(Some(0));
            wire.make_reset();
        }
        Delivery::Never => {
            settle(Some(0));
            while wire.sleep(Duration::from_millis(25)) && !wire.client_left() {}
        }
    }
    Ok(())
}

/// Counts and logs how a request ended; `sent` is `None` where its client left before.
fn record(shared: &Shared, wire: &Wire<'_>, head: &Head, answer: &Answer, sent: Option<u64>) {
    let status = match (answer.delivery, answer.fault) {
        _ if sent.is_none() => "gone".to_owned(),
        (Delivery::Half | Delivery::Nothing | Delivery::Never, Some(fault)) => fault.to_string(),
        _ => answer.reply.status.to_string(),
    };
    {
        let mut memory = shared.memory();
        if let Some(fault) = answer.fault {
            *memory.counters.faults.entry(fault.to_string()).or_default() += 1;
        }
        match (sent, answer.content) {
            (Some(_), Some((key, _))) if answer.right => memory.answered(key),
            (None, _) => memory.counters.gone += 1,
            _ => {}
        }
        memory.counters.bytes_out += sent.unwrap_or(0);
        memory.ended(&head.path, status.clone());
    }
    if let Some(log) = &shared.log {
        let line = json!({
            "seconds": shared.started.elapsed().as_secs_f64(), "connection": wire.id, "path": head.path, "status": status,
            "content": answer.content.map(|(key, _)| format!("{key:016x}")), "attempt": answer.content.map(|(_, attempt)| attempt),
            "fault": answer.fault.map(|fault| fault.to_string()), "answer": answer.content.map(|_| answer.sum.answer()),
            "texts": answer.sum.texts, "media": answer.sum.media, "text_bytes": answer.sum.text_bytes,
            "audio_bytes": answer.sum.audio_bytes, "image_bytes": answer.sum.image_bytes,
            "latency": answer.latency.as_secs_f64(), "sent": sent,
        });
        let mut file = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A log that cannot be written must not change what the client sees.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
