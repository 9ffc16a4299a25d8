-- How far the wall clock was ahead of the machine's own (of the boot of that name), and what it said then.
alter table daemon add column clock_boot_id text not null default '';
alter table daemon add column clock_ahead real;
alter table daemon add column clock_at real;
