-- An outcome that was read while its session ran is provisional: no step goes by it until the verdict has read it, too.
alter table artifacts add column is_provisional integer not null default 0 check (is_provisional in (0, 1));
