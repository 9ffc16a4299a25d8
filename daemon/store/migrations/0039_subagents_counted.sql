-- Transcripts of sub-agents are read like those of their sessions. Before, only their first lines were, and the names of those
-- that had been seen (`$[3][3]`, what was read of the session's files) were remembered.
update cursors set state = json_remove(state, '$[3][3]')
where session_key not glob 'native:*' and json_valid(state) and json_array_length(state, '$[3]') = 7;

-- Sessions with such files are read again. Until then they are missing.
update usage_read set looks = 0 where session_key in (
    select session_key from cursors
    where session_key glob 'claude-code:*' and json_valid(state) and json_valid(json_extract(state, '$[4]'))
        and json_extract(json_extract(state, '$[4]'), '$[32]') > 0
);
update places set signature = null where session_key in (select session_key from usage_read where looks = 0);
