-- One event may report several actions, so an action names the one that reports it.

alter table actions add column told_in text;
update actions set told_in = (
  select t.key from events t where t.key in (actions.key || '/taken', actions.session_key || '#' ||
    (select i.payload ->> 'attempt' from events i where i.seq = actions.seq) || '/action/' || actions.line || '/taken')
);
