-- Shadow tables of sqlite-vec 0.1.9 with an auxiliary column; the virtual table itself needs its extension.
CREATE TABLE items_chunks (chunk_id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL, validity BLOB NOT NULL,
    rowids BLOB NOT NULL);
CREATE TABLE items_rowids (rowid INTEGER PRIMARY KEY AUTOINCREMENT, id, chunk_id INTEGER, chunk_offset INTEGER);
CREATE TABLE items_vector_chunks00 (rowid PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE items_auxiliary (rowid integer PRIMARY KEY, value00);
INSERT INTO items_rowids VALUES (10, NULL, 1, 0), (12, NULL, 1, 2);
INSERT INTO items_auxiliary VALUES (10, 'item ten'), (12, 'item twelve');
INSERT INTO items_chunks VALUES (1, 8, x'05', zeroblob(64));
INSERT INTO items_vector_chunks00 VALUES (1, CAST(x'0000803f00000000' || zeroblob(8) || x'000000000000803f' || zeroblob(40) AS BLOB));
