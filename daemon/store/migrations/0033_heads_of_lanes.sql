-- The head of a lane is its first job that waits or is held. What may run is found among the heads, so no question grows with
-- what waits: behind them, for later, or held. Triggers keep the mark, so it holds after whatever writes a job's state.

alter table jobs add column is_head integer not null default 0;
-- Whether a job in the background reads so much that it is done alone.
alter table jobs add column is_large integer not null default 0;
update jobs set is_head = 1 where id in (select min(id) from jobs where state in ('waiting', 'held') group by lane);
update jobs set is_large = 1 where state in ('waiting', 'held', 'running') and lane glob 'files:*'
  and (select payload ->> 'produced_bytes' from events where seq = jobs.event) > 268435456;

create index jobs_next on jobs ((lane glob 'timer:schedule:*'), run_after, id)
  where is_head = 1 and state = 'waiting' and lane not glob 'files:*';
create index jobs_next_in_background on jobs (is_large, run_after, id)
  where is_head = 1 and state = 'waiting' and lane glob 'files:*';

-- Whatever happened to one job of a lane: the first open one is its head, and the second one isn't.
create trigger jobs_head_after_insert after insert on jobs when new.state in ('waiting', 'held')
begin
    update jobs set is_head = 1 - is_head
    where id in (select id from jobs where lane = new.lane and state in ('waiting', 'held') order by id limit 2)
      and is_head <> (id = (select min(id) from jobs where lane = new.lane and state in ('waiting', 'held')));
end;
create trigger jobs_head_after_update after update of state on jobs
when (new.state in ('waiting', 'held')) <> (old.state in ('waiting', 'held'))
begin
    update jobs set is_head = 0 where id = new.id and is_head = 1;
    update jobs set is_head = 1 - is_head
    where id in (select id from jobs where lane = new.lane and state in ('waiting', 'held') order by id limit 2)
      and is_head <> (id = (select min(id) from jobs where lane = new.lane and state in ('waiting', 'held')));
end;
create trigger jobs_head_after_delete after delete on jobs when old.state in ('waiting', 'held')
begin
    update jobs set is_head = 1
    where id = (select min(id) from jobs where lane = old.lane and state in ('waiting', 'held')) and is_head = 0;
end;
