# SPDX-License-Identifier: Apache-2.0
"""bench/regret with tiny limits: a table per shape, and what it comes to."""
import re
import subprocess
import sys

script, program = sys.argv[1:]
done = subprocess.run([sys.executable, script, "--program", program, "-s", "2", "-s", "2", "-b", "4", "-e", "64K",
                       "-f", "16384", "--time", "2", "--launches", "1"], capture_output=True, text=True, timeout=100)
assert done.returncode == 0, done.stderr
text = done.stdout
rows = re.findall(r"^\| allreduce \| (\S+ \S+) \| (native\S*) \| ([\d.e+]+) \| (\S+) \| ([\d.e+]+) \| ([\d.]+) \| (\d+) \|$",
                  text, re.M)
assert [row[0] for row in rows] == ["4 B", "64 KiB"] * 2, text
for _, model, model_us, best, best_us, ratio, tried in rows:
    assert abs(float(ratio) - float(model_us) / float(best_us)) < 0.006 + 0.002 * float(ratio), text
    assert model != best or float(ratio) == 1, text
    assert int(tried) > 1, text
for title, times in (("### one host, 2 ranks", 2), ("### All shapes", 1)):
    assert text.count(title) == times, text
assert len(re.findall(r"^The choice is within 10 % of the best in \d of 2 cells, at worst [\d.]+ x\.$", text, re.M)) == 2, text
assert re.search(r"in \d of 4 cells", text), text
