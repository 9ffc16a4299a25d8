"""The yardstick of a first reading: bare `json.loads` over the lines of a file, which are in memory already.

bare_json.py FILE      prints {"lines": how many, "cpu_s": the processor time of nothing but the parsing}
"""

import json
import sys
import time
from pathlib import Path


def main(path: str) -> None:
    lines = Path(path).read_bytes().splitlines()
    begin = time.process_time()
    for line in lines:
        json.loads(line)
    print(json.dumps({"lines": len(lines), "cpu_s": time.process_time() - begin}))


if __name__ == "__main__":
    main(sys.argv[1])
