//! The tables of a fresh `brain.db`, as its owner creates them.

/// Every table that a memory touches, with the owner's indexes.
pub(super) const FRESH: &str = "
CREATE TABLE threads (
    id TEXT PRIMARY KEY, subject TEXT, created_at TEXT NOT NULL, updated_at TEXT);
CREATE TABLE messages (
    id TEXT PRIMARY KEY, thread_id TEXT NOT NULL, parent_id TEXT, from_agent TEXT NOT NULL,
    to_agent TEXT, priority TEXT DEFAULT 'info', subject TEXT, body TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT, metadata TEXT, expires_at TEXT, task_status TEXT,
    result TEXT, context TEXT);
CREATE TABLE stm (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    categories TEXT,
    importance REAL DEFAULT 1.0,
    access_count INTEGER DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT,
    expires_at TEXT,
    source TEXT DEFAULT 'agent',
    source_message_id TEXT,
    FOREIGN KEY (source_message_id) REFERENCES messages(id));
CREATE TABLE embeddings (
    id TEXT PRIMARY KEY,
    source_type TEXT NOT NULL,
    source_id TEXT NOT NULL,
    content TEXT,
    embedding BLOB NOT NULL,
    model TEXT DEFAULT 'all-MiniLM-L6-v2',
    created_at TEXT NOT NULL,
    UNIQUE(source_type, source_id));
CREATE TABLE atoms (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL, action TEXT NOT NULL, outcome TEXT NOT NULL,
    consequences TEXT, confidence REAL DEFAULT 1.0, source TEXT, source_message_id TEXT,
    source_type TEXT DEFAULT 'unknown', created_at TEXT NOT NULL, access_count INTEGER DEFAULT 0);
CREATE TABLE working_memory (
    id TEXT PRIMARY KEY, label TEXT, content TEXT NOT NULL, pinned_at TEXT, position INTEGER);
CREATE TABLE categories (
    name TEXT PRIMARY KEY, description TEXT, keywords TEXT DEFAULT '[]', created_at TEXT);
CREATE INDEX idx_stm_importance ON stm(importance DESC);
CREATE INDEX idx_stm_source ON stm(source_message_id);
CREATE INDEX idx_embeddings_source ON embeddings(source_type, source_id);
CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', content_rowid='');
CREATE VIRTUAL TABLE messages_fts USING fts5(subject, body, content='', content_rowid='');
";

/// Columns that later versions and other tools of the owner added.
pub(super) const LATER_COLUMNS: &str = "
ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
ALTER TABLE stm ADD COLUMN last_accessed INTEGER;
ALTER TABLE stm ADD COLUMN validation_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN contradiction_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN compressed_from TEXT;
ALTER TABLE stm ADD COLUMN archived_by TEXT;
ALTER TABLE stm ADD COLUMN timestamp TEXT;
ALTER TABLE embeddings ADD COLUMN confidence REAL;
ALTER TABLE embeddings ADD COLUMN access_count INTEGER DEFAULT 1;
";
