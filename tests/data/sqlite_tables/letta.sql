-- Letta's archival passages in SQLite, from its public model.
CREATE TABLE archival_passages (id VARCHAR PRIMARY KEY NOT NULL, text VARCHAR NOT NULL, embedding_config JSON,
    metadata_ JSON, tags JSON, embedding BLOB, organization_id VARCHAR, archive_id VARCHAR NOT NULL,
    created_at DATETIME, updated_at DATETIME, is_deleted BOOLEAN DEFAULT FALSE NOT NULL);
INSERT INTO archival_passages (id, text, tags, embedding, archive_id, created_at) VALUES
    ('passage-1', 'The wheel is in the cellar', '["home"]', x'0000803f0000003f', 'archive-1', '2026-11-01 10:00:00'),
    ('passage-2', 'The wheel is in the cellar', '[]', x'0000803f0000003f', 'archive-1', '2026-11-02 10:00:00');
INSERT INTO archival_passages (id, text, archive_id, is_deleted) VALUES ('passage-3', 'old', 'archive-1', TRUE);
