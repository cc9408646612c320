# SPDX-License-Identifier: Apache-2.0
"""Real Slurm on a virtual cluster: its daemons run on the virtual hosts, and srun, salloc and sbatch
start ranks there.

  slurm_test.py PROGRAM   outside: munged, then the virtual cluster with this file on every host
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HOSTS = 2
CONFIGURATION = """\
ClusterName=virtual
SlurmctldHost=host0({addresses[0]})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# PMIx keeps files in /tmp, whose names Slurm makes of the job's number: each host needs its own.
WITH_ITS_TMP = 'mkdir "$0/tmp.$ECHELON_RANK" && mount --bind "$0/tmp.$ECHELON_RANK" /tmp && exec "$@"'
PERF = ["perf", "-b", "8", "-e", "64K", "-f", "64", "-n", "5"]

folder = program = None


def wait_for(what, seconds=30):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise TimeoutError(f"not in {seconds} s: {what}")
        time.sleep(0.1)


class Slurm(unittest.TestCase):
    def run_it(self, *command, stdin=None, code=0):
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=60,
                              errors="replace")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def launched(self, *command, **more):
        """By `echelon run` in an allocation of two ranks a host."""
        return self.run_it("salloc", "--quiet", f"--nodes={HOSTS}", "--ntasks-per-node=2",
                           program, "run", "--no-tag", "--", *command, **more)

    def test_pmix(self):
        done = self.run_it("srun", f"--nodes={HOSTS}", "--ntasks=4", "--mpi=pmix", program, *PERF)
        self.assertIn("4 ranks on 2 hosts", done.stdout)

    def test_variables(self):
        done = self.run_it("srun", f"--nodes={HOSTS}", "--ntasks=3", "--mpi=none", program, *PERF)
        self.assertIn("3 ranks on 2 hosts", done.stdout)

    def test_launcher_in_an_allocation(self):
        self.assertIn("4 ranks on 2 hosts", self.launched(program, *PERF).stdout)

    def test_launcher_in_a_batch_script(self):
        script = f"#!/bin/sh\nexec {program} run -- {program} {' '.join(PERF)}\n"
        output = pathlib.Path(folder, "batch.out")
        self.run_it("sbatch", "--wait", f"--nodes={HOSTS}", "--ntasks-per-node=2",
                    f"--output={output}", stdin=script)
        self.assertIn("4 ranks on 2 hosts", output.read_text())

    def test_input_goes_to_rank_0(self):
        self.assertEqual(self.launched("cat", stdin="one\ntwo").stdout, "one\ntwo")

    def test_output_without_newlines(self):
        """Of the last rank, which is not on the launcher's host: srun keeps unfinished lines back."""
        data = "x" * 300_000
        done = self.launched(sys.executable, "-c", "import os, sys\n"
                             "if os.environ['ECHELON_RANK'] == '3': sys.stdout.write('x' * 300_000)")
        self.assertEqual(hashlib.sha256(done.stdout.strip().encode()).hexdigest(),
                         hashlib.sha256(data.encode()).hexdigest())

    def test_failure_is_named(self):
        done = self.launched("sh", "-c", "[ $ECHELON_RANK = 3 ] && exit 7; sleep 50", code=7)
        self.assertRegex(done.stderr, r"rank 3 on host1 \(pid \d+\) exited with code 7")

    def test_doctor(self):
        done = self.run_it("salloc", "--quiet", f"--nodes={HOSTS}", program, "doctor")
        self.assertIn("0 broken", done.stdout)


# ---- on a virtual host ------------------------------------------------------------------------


def own_address():
    text = subprocess.run(["ip", "-4", "-brief", "address", "show", "eth0"], text=True, check=True,
                          capture_output=True).stdout
    return text.split()[2].split("/")[0]


def configure():
    paths = [folder / f"address.{host}" for host in range(HOSTS)]
    wait_for(lambda: all(path.exists() for path in paths))
    addresses = [path.read_text() for path in paths]
    nodes = "\n".join(f"NodeName=host{host} NodeAddr={address} CPUs=4 State=UNKNOWN"
                      for host, address in enumerate(addresses))
    publish("slurm.conf", CONFIGURATION.format(folder=folder, addresses=addresses, nodes=nodes))


def publish(name, text):
    unfinished = folder / f"{name}.unfinished"
    unfinished.write_text(text)
    unfinished.rename(folder / name)


def are_idle():
    done = subprocess.run(["sinfo", "--noheader", "--format=%D %t"], text=True, capture_output=True)
    return done.stdout.split() == [str(HOSTS), "idle"]


def on_host():
    rank = int(os.environ["ECHELON_RANK"])
    for name in [name for name in os.environ if name.startswith("ECHELON_")]:
        del os.environ[name]
    publish(f"address.{rank}", own_address())
    if rank == 0:
        configure()
    wait_for((folder / "slurm.conf").exists)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    daemons = [["slurmctld", "-D"], ["slurmd", "-D"]] if rank == 0 else [["slurmd", "-D"]]
    running = [subprocess.Popen(daemon, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for daemon in daemons]
    try:
        if rank != 0:
            wait_for((folder / "done").exists, 300)
            return 0
        wait_for(are_idle)
        result = unittest.main(module="__main__", argv=sys.argv[:1], exit=False).result
        publish("done", "")
        return 0 if result.wasSuccessful() else 1
    finally:
        for daemon in reversed(running):
            daemon.terminate()
            daemon.wait()


# ---- outside ------------------------------------------------------------------------------------


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def munged():
    """The command of a daemon of our own, with a key of our own."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    return ["munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid",
            f"--seed-file={folder}/munge.seed"]


def on_virtual_hosts():
    wait_for((folder / "munge.socket").exists)
    return subprocess.run([program, "run", "--no-tag", "--timeout", "240", "--emulate",
                           f"{HOSTS}x1:1gbit", "--", "unshare", "--mount", "sh", "-c", WITH_ITS_TMP,
                           str(folder), sys.executable, __file__, program, str(folder)]).returncode


def outside():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        skip("needs root, for Slurm's daemons and network namespaces")
    for tool in ("slurmctld", "slurmd", "salloc", "munged"):
        if shutil.which(tool) is None:
            skip(f"no {tool} (Debian: slurm-wlm, munge)")
    if pathlib.Path("/tmp") in pathlib.Path(program).resolve().parents:
        skip("the program lies in /tmp, of which each virtual host has its own")
    for name in ["state", *(f"spool.host{host}" for host in range(HOSTS))]:
        (folder / name).mkdir()
    daemon = subprocess.Popen(munged(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        code = on_virtual_hosts()
    finally:
        daemon.terminate()
        daemon.wait()
    if code == 3:
        skip("no virtual cluster here")
    if code != 0:
        for log in sorted(folder.glob("*.log")):
            print(f"==== {log.name}\n{log.read_text()[-3000:]}")
    return code


def main():
    global folder, program
    program = sys.argv[1]
    if len(sys.argv) > 2:
        folder = pathlib.Path(sys.argv[2])
        return on_host()
    # Not in /tmp, which the hosts do not share.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o755)
        return outside()


if __name__ == "__main__":
    sys.exit(main())
