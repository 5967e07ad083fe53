-- claude-mem 13.25: `observations` with a full-text index that triggers keep in step.
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT UNIQUE, project TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
    project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT,
    concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
    FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE);
CREATE VIRTUAL TABLE observations_fts USING fts5(title, narrative, content='observations', content_rowid='id');
CREATE TRIGGER observations_ad AFTER DELETE ON observations BEGIN
    INSERT INTO observations_fts(observations_fts, rowid, title, narrative)
    VALUES('delete', old.id, old.title, old.narrative);
END;
INSERT INTO sdk_sessions VALUES (1, 's1', 'kiln');
INSERT INTO observations (memory_session_id, project, type, title, narrative, facts, concepts, created_at, created_at_epoch)
VALUES ('s1', 'kiln', 'discovery', 'Port', 'The kiln listens on 8080', '[]', '["network"]', '2026-11-01T10:00:00Z', 1),
       ('s1', 'kiln', 'discovery', 'Port', 'The kiln listens on 8080', '[]', '["network"]', '2026-11-02T10:00:00Z', 2);
