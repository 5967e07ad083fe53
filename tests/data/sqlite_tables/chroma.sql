-- Chroma 1.5: documents among the metadata, vectors in the queue.
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL);
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL,
    seq_id BLOB NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (segment_id, embedding_id));
CREATE TABLE embedding_metadata (id INTEGER REFERENCES embeddings(id), key TEXT NOT NULL, string_value TEXT,
    int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));
CREATE TABLE embeddings_queue (seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP, operation INTEGER NOT NULL,
    topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT);
INSERT INTO collections VALUES ('42ff55c5-98be-414f-b290-7d87ecfa80cf', 'notes', 2, 'd');
INSERT INTO segments VALUES ('s', 'urn:chroma:segment/metadata/sqlite', 'METADATA', '42ff55c5-98be-414f-b290-7d87ecfa80cf');
INSERT INTO embeddings (id, segment_id, embedding_id, seq_id) VALUES (1, 's', 'a', 1), (2, 's', 'b', 2);
INSERT INTO embedding_metadata (id, key, string_value) VALUES (1, 'chroma:document', 'Tea is green'), (1, 'user_id', 'u'),
    (2, 'chroma:document', 'Tea is green.'), (2, 'user_id', 'u');
INSERT INTO embedding_metadata (id, key, int_value) VALUES (1, 'n', 1);
INSERT INTO embeddings_queue VALUES
    (1, '', 0, 'persistent://default/default/42ff55c5-98be-414f-b290-7d87ecfa80cf', 'a', x'0000000000000000', 'FLOAT32', '{}'),
    (2, '', 0, 'persistent://default/default/42ff55c5-98be-414f-b290-7d87ecfa80cf', 'a', x'0000803f00000000', 'FLOAT32', '{}');
