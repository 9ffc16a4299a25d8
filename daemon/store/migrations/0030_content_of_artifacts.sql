-- The large content of an artifact is in a file below its session's artifacts: its hash, or what is the matter with the file.
alter table artifacts add column names_file integer not null default 0 check (names_file in (0, 1));
alter table artifacts add column file_sha256 text check (length(file_sha256) = 64);
alter table artifacts add column file_size integer check (file_size > 0);
alter table artifacts add column file_problem text check (file_problem is null or file_sha256 is null);
