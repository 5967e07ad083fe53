//! [`Admitted`]: what a layer may say.
//!
//! A store can come from somebody else, and with it the file beside it and the plans saved in it. So nothing there says where texts and keys go, which
//! programs are asked, or where files are written beyond the store's own folder: only a person's own layers do (the system's
//! and the user's file, `--config`, variables, the command line). [`lay_over`](super::layers::lay_over) takes admitted layers
//! alone, and there is one way to make them.

use std::path::{Component, Path};

use super::aliases::take;
use super::document::{Node, NodeValue};
use super::source::{FileLayer, Notice, Source};

/// Sections that say where texts and keys go.
const PERSONAL: &[&str] = &["embed"];

/// Whose word a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// That of the person who runs this: their own files, variables and command line.
    Own,
    /// That of whoever made the store.
    Store,
}

impl Origin {
    /// Returns whose word a file is.
    pub(super) const fn of_file(file: FileLayer) -> Self {
        match file {
            FileLayer::Store => Self::Store,
            FileLayer::System | FileLayer::User | FileLayer::Given => Self::Own,
        }
    }
}

/// A layer that holds only what its place may say.
pub(super) struct Admitted(Node);

impl Admitted {
    /// Takes a layer in one spelling; what its place may not say is left out, and told.
    pub(super) fn of(mut layer: Node, origin: Origin, notices: &mut Vec<Notice>) -> Self {
        if origin == Origin::Store {
            for section in PERSONAL {
                if let Some(node) = take(&mut layer, section) {
                    notices.push(not_used(section, node.source));
                }
            }
            let leaves_folder = |node: &Node| match &node.value {
                NodeValue::Text(dir) | NodeValue::Words(dir) => leads_out(Path::new(dir)),
                _ => false,
            };
            if layer.get(&["reports_dir"]).is_some_and(leaves_folder)
                && let Some(node) = take(&mut layer, "reports_dir")
            {
                notices.push(not_used("reports_dir", node.source));
            }
        }
        Self(layer)
    }

    pub(super) fn into_node(self) -> Node {
        self.0
    }

    /// Changes the layer without moving it to another place.
    pub(super) fn try_map<E>(
        self,
        change: impl FnOnce(Node) -> Result<Node, E>,
    ) -> Result<Self, E> {
        change(self.0).map(Self)
    }
}

/// Tells whether a path leads out of the folder that it counts from.
fn leads_out(path: &Path) -> bool {
    path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

fn not_used(section: &str, source: Source) -> Notice {
    let text = format!(
        "`{section}` is not used: what comes with a store does not say where texts or keys go; move it to \
         ~/.config/memfold/config.yaml, or name the file with --config"
    );
    Notice { source, text }
}
