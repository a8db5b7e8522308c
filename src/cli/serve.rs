//! A server that is started for a stage: what the user sees of it, and how the stage waits for it.

use std::path::{Path, PathBuf};

#[cfg(all(feature = "endpoint", unix))]
pub(super) use started::Served;

use super::exit::{self, Failure};
use super::progress::Voice;
use crate::config::secret::Secrets;
use crate::config::{ModelConfig, ServerConfig};

/// A server that a stage needs.
pub(super) struct Serve<'a> {
    config: &'a ServerConfig,
    secrets: &'a Secrets,
    log: PathBuf,
}

impl<'a> Serve<'a> {
    /// The server of a model, if one is configured. `log` is the name of its log in the run's folder.
    pub(super) fn of(model: &'a ModelConfig, secrets: &'a Secrets, folder: &Path, log: &str) -> Option<Self> {
        let config = model.endpoint.as_ref()?.server.as_ref()?;
        Some(Self { config, secrets, log: folder.join(log) })
    }
}

/// Where servers cannot be started.
#[cfg(not(all(feature = "endpoint", unix)))]
pub(super) struct Served;

#[cfg(not(all(feature = "endpoint", unix)))]
impl Served {
    pub(super) fn start(
        serve: &Serve<'_>,
        _: &crate::model::Opened,
        _: &Voice,
        _: tokio::sync::watch::Sender<crate::run::generate::Stop>,
    ) -> Result<Self, Failure> {
        let Serve { config, secrets: _, log: _ } = serve;
        let program = config.command.first().map(String::as_str).unwrap_or_default();
        let sentence = format!(
            "error: on this system no server can be started for a stage: start `{program}` yourself, and leave the \
             section [model.server] or [judge.server] out"
        );
        Err(Failure::new(exit::MODEL, sentence))
    }

    #[expect(clippy::unused_async, reason = "it is awaited where there are servers")]
    pub(super) async fn ready(&mut self) -> Result<Option<u8>, Failure> {
        Ok(None)
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        None
    }

    pub(super) fn stop(self) {}
}

#[cfg(all(feature = "endpoint", unix))]
mod started {
    use std::ffi::OsString;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tokio::sync::watch;

    use super::super::progress::{EVERY, duration};
    use super::super::run::wait_for_signal;
    use super::{Failure, Serve, Voice, exit};
    use crate::model::Opened;
    use crate::model::endpoint::Doorman;
    use crate::run::generate::Stop;
    use crate::server::{Event, ServerError, ServerSpec, Supervisor, lines};

    /// How a server stands, for those who wait for it.
    #[derive(Clone, Debug)]
    enum State {
        Starting,
        Ready,
        Failed(ServerError),
    }

    /// A server that was started for a stage; dropping it ends the server.
    pub(in super::super) struct Served {
        /// Absent where another one's server is used.
        supervisor: Option<Supervisor>,
        state: watch::Receiver<State>,
        doorman: Arc<Doorman>,
        patience: Duration,
    }

    impl Served {
        /// Starts it. A stage that is under way is stopped by `stop` where the server is lost for good.
        pub(in super::super) fn start(
            serve: &Serve<'_>,
            opened: &Opened,
            voice: &Voice,
            stop: watch::Sender<Stop>,
        ) -> Result<Self, Failure> {
            let Serve { config, secrets, log } = serve;
            let Some(endpoint) = opened.endpoint() else {
                return Err(Failure::new(exit::USAGE, "error: only endpoints have servers that are started"));
            };
            let doorman = endpoint.doorman(config.ready_url.as_deref());
            let doorman = doorman.map_err(|e| Failure::new(exit::USAGE, format!("error: {e}")))?;
            let doorman = Arc::new(doorman);
            let patience = seconds(config.ready_seconds);
            let (state_in, state) = watch::channel(State::Starting);
            if let Some(taken) = doorman.taken() {
                if config.reuse {
                    eprintln!("a server is there already at {taken}: it is used, and left running");
                    return Ok(Self { supervisor: None, state, doorman, patience });
                }
                let sentence = format!(
                    "error: somebody listens at {taken} already, and it is not the server that this stage would start: \
                     end it, give this one another port (in command and base_url), or set reuse = true to use the one \
                     that is there"
                );
                return Err(Failure::new(exit::MODEL, sentence));
            }
            let spec = ServerSpec {
                command: config.command.clone(),
                env: secrets.server_env.clone(),
                folder: config.folder.clone(),
                log: log.clone(),
                secrets: secrets.all(),
                ready_within: patience,
                grace: seconds(config.stop_seconds),
                restarts: config.restarts,
                guard: role()?,
            };
            let program = config.command.first().map(String::as_str).unwrap_or_default();
            eprintln!("starting server {program}, which writes to {}", log.display());
            let asked = Arc::clone(&doorman);
            let ready = move || -> futures::future::BoxFuture<'static, Result<(), String>> {
                let doorman = Arc::clone(&asked);
                Box::pin(async move { doorman.ready().await })
            };
            doorman.attend();
            let on = on(voice.clone(), Arc::clone(&doorman), state_in, stop);
            let supervisor = Supervisor::start(spec, Box::new(ready), Box::new(on)).map_err(|e| fatal(&e))?;
            Ok(Self { supervisor: Some(supervisor), state, doorman, patience })
        }

        /// Waits until it is ready; the exit code where a signal came first.
        pub(in super::super) async fn ready(&mut self) -> Result<Option<u8>, Failure> {
            let wait = async {
                if self.supervisor.is_none() {
                    return another_s(&self.doorman, self.patience).await;
                }
                let state = self.state.wait_for(|state| !matches!(state, State::Starting)).await;
                match state.as_deref() {
                    Ok(State::Failed(error)) => Err(fatal(error)),
                    Ok(State::Ready | State::Starting) => Ok(()),
                    Err(_) => Err(Failure::new(exit::MODEL, "error: the server is not watched any more")),
                }
            };
            tokio::select! {
                done = wait => done.map(|()| None),
                code = wait_for_signal() => {
                    eprintln!("\nstopping: the server was not ready yet, and is ended");
                    Ok(Some(code))
                }
            }
        }

        /// Why it is lost for good, if it is.
        pub(in super::super) fn failure(&self) -> Option<Failure> {
            match &*self.state.borrow() {
                State::Failed(error) => Some(fatal(error)),
                State::Starting | State::Ready => None,
            }
        }

        /// Ends it, and waits until it is gone.
        pub(in super::super) fn stop(self) {
            if let Some(supervisor) = self.supervisor {
                eprintln!("stopping server");
                supervisor.stop();
            }
        }
    }

    /// This program as a guard. What runs is meant, even where its file was replaced meanwhile.
    fn role() -> Result<Vec<OsString>, Failure> {
        let own = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe().map_err(|e| {
                Failure::new(exit::MODEL, format!("error: the file of this program cannot be found: {e}"))
            })?
        };
        Ok(vec![own.into_os_string(), super::super::GUARD.into()])
    }

    /// A time that the check has bounded.
    fn seconds(seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn fatal(error: &ServerError) -> Failure {
        Failure::new(
            exit::MODEL,
            format!("error: {error}\nwhat was answered so far is kept; the same command goes on from there"),
        )
    }

    /// Waits for a server that somebody else has started.
    async fn another_s(doorman: &Doorman, patience: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut told = begun;
        loop {
            let Err(why) = doorman.ready().await else { return Ok(()) };
            if begun.elapsed() >= patience {
                let within = patience.as_secs_f64();
                let sentence = format!(
                    "error: the server that is there was not ready within {within:.0} s ({why}): see what it says, or \
                     end it so that this stage starts its own"
                );
                return Err(Failure::new(exit::MODEL, sentence));
            }
            if told.elapsed() >= EVERY {
                told = Instant::now();
                eprintln!("waiting for server, {}, {why}", duration(begun.elapsed().as_secs_f64()));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// What the user and the stage hear of a server.
    fn on(
        voice: Voice,
        doorman: Arc<Doorman>,
        state: watch::Sender<State>,
        stop: watch::Sender<Stop>,
    ) -> impl Fn(Event) + Send {
        let told = std::sync::Mutex::new(Duration::ZERO);
        move |event| match event {
            Event::Waiting { since, last, again } => {
                let last = if last.is_empty() { String::new() } else { format!(", last line: {last}") };
                let line = format!("waiting for server, {}{last}", duration(since.as_secs_f64()));
                if again && !matches!(*state.borrow(), State::Starting) {
                    // The stage's own progress shows it.
                    doorman.hold(line);
                    return;
                }
                let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if since >= *told + EVERY || since < *told {
                    *told = since;
                    voice.say(&line);
                }
            }
            Event::Ready { after } => {
                let again = !matches!(*state.borrow(), State::Starting);
                let again = if again { " again" } else { "" };
                voice.say(&format!("server ready{again} after {}", duration(after.as_secs_f64())));
                doorman.release();
                let _ = state.send(State::Ready);
            }
            // A batch system that ends a job tells all of its processes: nothing is waited for then.
            Event::Died { .. } if *stop.borrow() != Stop::No => {
                let _ = stop.send(Stop::Now);
            }
            Event::Died { how, last, restart, of } => {
                doorman.hold(format!("the server {how}, and is started again ({restart} of {of})"));
                voice.say(&format!(
                    "warning: the server {how}; it is started again ({restart} of {of}); its last lines{}",
                    lines(&last)
                ));
            }
            Event::Failed(error) => {
                let _ = state.send(State::Failed(error));
                let _ = stop.send(Stop::Now);
            }
        }
    }
}
