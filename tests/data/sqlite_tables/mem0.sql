-- mem0 2.2: one row for each event of a memory.
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
INSERT INTO history (id, memory_id, old_memory, new_memory, event, created_at, updated_at, is_deleted) VALUES
    ('1', 'm1', NULL, 'Likes tea', 'ADD', '2026-11-01', NULL, 0),
    ('2', 'm1', 'Likes tea', 'Likes green tea', 'UPDATE', '2026-11-01', '2026-11-02', 0),
    ('3', 'm2', NULL, 'Likes green tea', 'ADD', '2026-11-01', NULL, 0),
    ('4', 'm3', NULL, 'Lives in Bern', 'ADD', '2026-11-01', NULL, 0),
    ('5', 'm3', 'Lives in Bern', NULL, 'DELETE', '2026-11-01', '2026-11-03', 1);
