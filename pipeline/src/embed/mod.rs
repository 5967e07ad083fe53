//! Vectors for texts: a provider turns texts into vectors, each answer is checked before it is used.
//!
//! No provider is configured unless a person does so, and texts go nowhere else than to the
//! configured one. docs/embedding.md lists the requests.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use memfold::embed::embedder;
//! use memfold_core::policy::ConfigLoader;
//!
//! let settings = ConfigLoader::new().set("embed.provider=daemon").load()?.settings.embed;
//! let variables = |name: &str| std::env::var(name).ok();
//! let mut daemon = embedder(&settings, None, &variables)?.ok_or("no provider")?;
//! let vectors = daemon.embed(&["the release is on Friday"])?;
//! assert_eq!(vectors.len(), 1);
//! # Ok(())
//! # }
//! ```

mod provider;
mod http;
pub(crate) mod local;
mod open;
pub mod fill;
pub mod replace;

pub use memfold_core::judge::http::HttpError;
pub use memfold_core::policy::{EmbedSettings, KeyFromElsewhere, Provider};
pub use open::embedder;
pub(crate) use open::store_model;
pub use provider::{EmbedError, Embedder};
