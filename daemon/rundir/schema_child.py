"""Checks JSON documents against JSON Schemas, in a separate process; a program, not a module.

A run may have written both, and can make them so that a check takes years, all memory or the whole stack. Here that
only costs a process with limits. It reads one JSON list of [schema, document] from its input, both as text, and writes
a line for each: null if the document is valid, else [message, path].
"""

import json
import resource
import sys

CPU_S = 10
MEMORY = 1 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import jsonschema_rs

    for schema, document in json.load(sys.stdin):
        try:
            validator = jsonschema_rs.validator_for(
                json.loads(schema), pattern_options=jsonschema_rs.RegexOptions(), offline=True
            )
            first = next(iter(validator.iter_errors(json.loads(document))), None)
            answer = None if first is None else [first.message[:300], list(first.instance_path)]
        except (ValueError, RecursionError, MemoryError) as error:
            answer = [f"the schema can't be used: {str(error)[:300]}", []]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
