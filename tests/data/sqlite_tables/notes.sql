-- A table with every kind of value.
CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, extra ANY, weight REAL, user_id TEXT, archived INTEGER DEFAULT 0);
INSERT INTO notes VALUES (1, 'Ana lives in Rome', x'00ff', 0.1, 'u', 0), (2, 'Ana lives in Rome.', NULL, 1e300, 'u', 0),
    (3, 'Tea is served at five', 'text', 2, 'u', 0), (4, NULL, 1, 2, 'u', 0), (5, 'put away', 1, 2, 'u', 1);
