// SPDX-License-Identifier: Apache-2.0
// The checks of shared memory: verdicts on hosts made by hand, and the attempts on this machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/doctor/fixture.h"
#include "tools/doctor/attempts.h"

namespace echelon::doctor {
namespace {

TEST(Memfd, RefusalAndFiltersBreak) {
  FakeHost host;
  EXPECT_EQ(check_memfd(host.view).verdict, Verdict::kOk);
  host.probes().memfd.error = ENOSYS;
  EXPECT_EQ(said(check_memfd(host.view)), "broken: memfd_create: Function not implemented");
  host.probes().memfd = {0, SIGSYS, ""};
  EXPECT_EQ(said(check_memfd(host.view)), "broken: memfd_create: killed by signal 31");
}

TEST(ProcFd, TheMountOptionExplains) {
  FakeHost host;
  host.put("/proc/self/mounts",
           "sysfs /sys sysfs rw,hidepid=1 0 0\nproc /proc proc rw,nosuid,hidepid=invisible 0 0\n");
  EXPECT_TRUE(contains(said(check_proc_fd(host.view)), "ok: "));
  host.probes().descriptor_of_other.error = EACCES;
  EXPECT_EQ(said(check_proc_fd(host.view)),
            "broken: /proc/PID/fd of another process: Permission denied (/proc has "
            "hidepid=invisible)");
  EXPECT_TRUE(contains(check_proc_fd(host.view).remedy, "hidepid=0"));
  host.put("/proc/self/mounts", "proc /proc proc rw,hidepid=0,nosuid 0 0\n");
  EXPECT_FALSE(contains(said(check_proc_fd(host.view)), "hidepid"));
  EXPECT_TRUE(contains(check_proc_fd(host.view).remedy, "one user"));
}

TEST(VmReadv, CostsWhereItIsAskedFor) {
  FakeHost host;
  EXPECT_EQ(said(check_vm_readv(host.view)), "ok: allowed");
  host.probes().memory_of_other.error = EPERM;
  host.put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
  for (const char* setting : {"off", "auto"}) {
    host.probes().options.single_copy = setting;
    EXPECT_EQ(check_vm_readv(host.view).verdict, Verdict::kOk) << setting;
  }
  host.probes().options.single_copy = "on";
  EXPECT_EQ(said(check_vm_readv(host.view)),
            "costs: process_vm_readv: Operation not permitted, by kernel.yama.ptrace_scope=1");
  EXPECT_TRUE(contains(check_vm_readv(host.view).remedy, "sysctl kernel.yama.ptrace_scope=0"));
}

TEST(VmReadv, WhoRefusesIsNamed) {
  FakeHost host;
  host.probes().options.single_copy = "on";
  host.probes().memory_of_other.error = EPERM;
  EXPECT_TRUE(contains(said(check_vm_readv(host.view)), "by the kernel or its security module"));
  host.put("/proc/self/status", "Seccomp:\t2\n");
  EXPECT_TRUE(contains(said(check_vm_readv(host.view)), "by a system call filter"));
  EXPECT_TRUE(contains(check_vm_readv(host.view).remedy, "SYS_PTRACE"));
  host.probes().memory_of_other = {0, SIGSYS, ""};
  EXPECT_TRUE(contains(said(check_vm_readv(host.view)), "killed by signal 31, by a system call"));
}

TEST(DevShm, HasToHoldWhatUcxTakes) {
  FakeHost host;
  EXPECT_EQ(said(check_dev_shm(host.view)), "ok: 8192 MiB of 8192 MiB free, enough for 1906 ranks");
  host.probes().shm.free = 64 << 20;
  host.view.job = {2, 32, 16};
  EXPECT_EQ(said(check_dev_shm(host.view)), "costs: 64 MiB of 8192 MiB free, 69 MiB needed");
  host.probes().options.ucx_tls = "sm,tcp";
  EXPECT_EQ(check_dev_shm(host.view).verdict, Verdict::kBroken) << "there is no other way";
  host.view.job = {2, 28, 14};
  EXPECT_EQ(check_dev_shm(host.view).verdict, Verdict::kOk);
  host.view.job = {1, 16, 16};
  EXPECT_EQ(check_dev_shm(host.view).verdict, Verdict::kCosts) << "one host opens no network";
}

TEST(DevShm, NoneIsBetterThanOneThatRefuses) {
  FakeHost host;
  host.view.job.hosts = 2;
  host.probes().shm.writable = false;
  EXPECT_EQ(said(check_dev_shm(host.view)), "broken: not writable");
  host.probes().shm = {};
  EXPECT_EQ(said(check_dev_shm(host.view)), "costs: not there");
}

TEST(Attempts, ThisMachineCanDoWhatTheTestsOfSharedMemoryDo) {
  EXPECT_TRUE(try_memfd().good()) << text_of(try_memfd());
  EXPECT_TRUE(try_descriptor_of_other().good()) << text_of(try_descriptor_of_other());
}

TEST(Attempts, TellErrorsSignalsAndWords) {
  EXPECT_EQ(attempt([](std::string&) { return EACCES; }).error, EACCES);
  const Attempt killed = attempt([](std::string&) { return raise(SIGKILL); });
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_FALSE(killed.good());
  EXPECT_EQ(text_of(killed), "killed by signal 9");
  const std::string words(300000, 'x');  // more than a pipe holds
  const Attempt spoke = attempt([&](std::string& said) {
    said = words;
    return 0;
  });
  EXPECT_TRUE(spoke.good());
  EXPECT_EQ(spoke.said.size(), words.size());
}

TEST(Attempts, RunInAProcessOfTheirOwn) {
  const pid_t parent = getpid();
  const Attempt inside = attempt([&](std::string& said) {
    said = std::to_string(getpid() != parent);
    return 0;
  });
  EXPECT_EQ(inside.said, "1");
}

TEST(Attempts, ResourcesTravelAsText) {
  const auto resources = resources_from("1 tcp eth0\n0 self memory\n1 rc_verbs mlx5_0:1\nrubbish");
  ASSERT_EQ(resources.size(), 3u);
  EXPECT_EQ(resources[2].transport, "rc_verbs");
  EXPECT_EQ(resources[2].device, "mlx5_0:1");
  EXPECT_TRUE(resources[0].network);
  EXPECT_FALSE(resources[1].network);
}

}  // namespace
}  // namespace echelon::doctor
