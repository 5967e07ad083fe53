//! From the command line to servers that run, and to their end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Parser as _;
use memfold::ops::Failure;
use memfold_terminal::failure::Exit;
use memfold_terminal::printer::Printer;
use memfold_terminal::stages::Stages;
use memfold_terminal::{Shown, finish};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Cli, Command, HttpArgs, McpArgs, ServerArg, StoresArgs};
use crate::http::{App, Gate, Listen, Listener, Token, openapi, router, serve};
use crate::schedule::Schedules;
use crate::service::{Service, Serving, name_of};
use crate::telemetry::Telemetry;
use crate::{dashboard, mcp};

/// Requests at work at once, for each core: some wait for the disk.
const WORKERS_PER_CORE: usize = 4;
/// A cancelled run finishes its unit, which takes less.
const RUN_PATIENCE: Duration = Duration::from_secs(20);

/// Runs `memfold-server` with the arguments of this process.
pub fn run() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let exit = match Cli::try_parse_from(&typed) {
        Ok(cli) => {
            let shown = cli.options.shown();
            finish(shown, |printer| dispatch(&cli, shown, printer))
        }
        Err(error) => Exit::of_usage(&error, &typed),
    };
    exit.into()
}

fn dispatch(cli: &Cli, shown: Shown, printer: Printer) -> Result<Exit, Failure> {
    let serving = cli.options.serving();
    match &cli.command {
        Command::Http(args) => {
            watched(shown, printer, |telemetry| http(args, serving, printer, telemetry))
        }
        Command::Mcp(args) => {
            watched(shown, printer, |telemetry| stdio(args, serving, printer, telemetry))
        }
        Command::Openapi => {
            printer.data(&format!("{:#}\n", openapi()))?;
            Ok(Exit::Done)
        }
    }
}

/// Serves while telemetry is exported or printed.
fn watched(
    shown: Shown,
    printer: Printer,
    serve: impl FnOnce(&Telemetry) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let telemetry = Telemetry::start(printer, Stages::wanted(shown, printer));
    let served = serve(&telemetry);
    telemetry.stop();
    served
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("start", &error, None))
}

fn open(
    args: &StoresArgs,
    serving: Serving,
    printer: Printer,
    workers: Option<u16>,
) -> Result<Arc<Service>, Failure> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = workers.map_or(cores * WORKERS_PER_CORE, usize::from);
    let alone = args.stores.iter().map(|path| (name_of(path), path.clone()));
    let stores: Vec<(String, PathBuf)> = args.store.iter().cloned().chain(alone).collect();
    Ok(Arc::new(Service::open(stores, serving, printer, args.allow_writes, workers)?))
}

fn http(
    args: &HttpArgs,
    serving: Serving,
    printer: Printer,
    telemetry: &Telemetry,
) -> Result<Exit, Failure> {
    let token = args.token_file.as_deref().map(Token::read).transpose()?;
    let listen = match &args.unix_socket {
        Some(path) => Listen::Unix(path.clone()),
        None => Listen::Tcp(args.listen),
    };
    if let Listen::Tcp(address) = &listen
        && !address.ip().is_loopback()
        && token.is_none()
    {
        return Err(Failure::usage(
            format!("{address} can be reached by others, and there is no token"),
            "give --token-file FILE, listen at 127.0.0.1, or on a --unix-socket",
        ));
    }
    let service = open(&args.stores, serving, printer, args.workers)?;
    telemetry.watch(&service.metrics);
    let settings = args.schedule.settings();
    if let Some(settings) = &settings {
        let zone = service.store(None).map(|store| store.time_zone.clone());
        let checked = zone.and_then(|zone| settings.cron(&zone));
        checked
            .map_err(|problem| Failure::usage(problem.detail, problem.hint.unwrap_or_default()))?;
    }
    runtime()?.block_on(async {
        let stop = Stop::new()?;
        let listener = Listener::bind(&listen).await?;
        let address = listener.address();
        let gate = Gate::at(address, &args.allow_host, &args.allow_origin, token);
        let gate = Arc::new(gate);
        let schedules = Arc::new(Schedules::new(settings, Arc::clone(&service.metrics)));
        let app = App { service: Arc::clone(&service), schedules, gate };
        let place = match (&listen, address) {
            (Listen::Unix(path), _) => path.display().to_string(),
            (Listen::Tcp(asked), address) => format!("http://{}", address.unwrap_or(*asked)),
        };
        printer.failure_note(&format!("memfold-server listens at {place}"));
        let clock =
            tokio::spawn(Arc::clone(&app.schedules).run(service.stores().cloned().collect()));
        let upkeep = tokio::spawn(Arc::clone(&service).shorten_logs());
        let (agents, stop_agents) = mcp::routes(mcp::agent(&service));
        let router = router(app, Router::new().merge(agents).merge(dashboard::routes()));
        serve(listener, router, async {
            stop.asked().await;
            // Streams that wait for news would hold their connections.
            stop_agents.cancel();
            for store in service.stores() {
                store.stop();
            }
        })
        .await;
        clock.abort();
        upkeep.abort();
        Ok::<_, Failure>(())
    })?;
    service.stop(RUN_PATIENCE);
    Ok(Exit::Done)
}

fn stdio(
    args: &McpArgs,
    serving: Serving,
    printer: Printer,
    telemetry: &Telemetry,
) -> Result<Exit, Failure> {
    let (agent, service) = match args.serve_as {
        Some(ServerArg::ServerMemory) => (mcp::server_memory(only_file(args)?)?, None),
        None => {
            let service = open(&args.stores, serving, printer, None)?;
            telemetry.watch(&service.metrics);
            (mcp::agent(&service), Some(service))
        }
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let stop = Stop::new()?;
        let _upkeep = service.clone().map(|service| tokio::spawn(service.shorten_logs()));
        tokio::select! {
            ended = agent.serve_stdio() => ended,
            () = stop.asked() => Ok(()),
        }
    });
    if let Some(service) = service {
        service.stop(RUN_PATIENCE);
    }
    // A read of stdin that waits would hold the runtime.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

/// The one file to serve with the tools of the reference server.
fn only_file(args: &McpArgs) -> Result<&Path, Failure> {
    let [path] = &args.stores.stores[..] else {
        let advice = "name one: memfold-server mcp memory.jsonl --as server-memory";
        return Err(Failure::usage("--as server-memory serves one file", advice));
    };
    Ok(path)
}

/// Ctrl-C and SIGTERM, from the moment this is made: a signal before that ends the process
/// directly.
struct Stop {
    terminated: Signal,
    interrupted: Signal,
}

impl Stop {
    fn new() -> Result<Self, Failure> {
        let of =
            |kind| signal(kind).map_err(|error| Failure::new("listen for signals", &error, None));
        Ok(Self {
            terminated: of(SignalKind::terminate())?,
            interrupted: of(SignalKind::interrupt())?,
        })
    }

    /// Waits until one comes.
    async fn asked(mut self) {
        tokio::select! {
            _ = self.terminated.recv() => {}
            _ = self.interrupted.recv() => {}
        }
    }
}
