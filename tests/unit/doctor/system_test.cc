// SPDX-License-Identifier: Apache-2.0
// The checks of kernel, processors and limits, on hosts made by hand.
#include <gtest/gtest.h>

#include "tests/unit/doctor/fixture.h"

namespace echelon::doctor {
namespace {

TEST(Kernel, OldOnesHaveNoSealedMemory) {
  FakeHost host;
  EXPECT_EQ(said(check_kernel(host.view)), "ok: 6.1.0-18-amd64");
  host.probes().kernel = "3.17.0";
  EXPECT_EQ(said(check_kernel(host.view)), "ok: 3.17.0");
  for (const char* release : {"3.16.7", "2.6.32-754.el6", "", "unknown"}) {
    host.probes().kernel = release;
    EXPECT_EQ(check_kernel(host.view).verdict, Verdict::kBroken) << release;
  }
}

TEST(Cpus, AffinityIsToldAgainstAllThatAreOnline) {
  FakeHost host;
  EXPECT_EQ(said(check_cpus(host.view)), "ok: 4 cpus");
  host.put("/sys/devices/system/cpu/online", "0-63\n");
  EXPECT_EQ(said(check_cpus(host.view)), "ok: 4 of 64 cpus");
}

TEST(Cpus, MoreRanksThanCpusCost) {
  FakeHost host;
  host.view.job.local_ranks = 4;
  EXPECT_EQ(check_cpus(host.view).verdict, Verdict::kOk);
  host.view.job.local_ranks = 5;
  EXPECT_EQ(said(check_cpus(host.view)), "costs: 4 cpus for 5 ranks");
  EXPECT_TRUE(contains(check_cpus(host.view).remedy, "at most 4 slots"));
}

TEST(Cpus, TheQuotaOfAGroupOrOfOneAboveItCosts) {
  FakeHost host;
  host.put("/proc/self/cgroup", "0::/jobs/mine\n");
  host.put("/sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n");
  EXPECT_EQ(check_cpus(host.view).verdict, Verdict::kOk);
  host.put("/sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(said(check_cpus(host.view)),
            "costs: 4 cpus, but a control group grants the time of 1.5");
  host.put("/sys/fs/cgroup/jobs/mine/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(host.view).value(), 0.5);
  host.put("/sys/fs/cgroup/jobs/mine/cpu.max", "400000 100000\n");
  host.put("/sys/fs/cgroup/jobs/cpu.max", "800000 100000\n");
  EXPECT_EQ(check_cpus(host.view).verdict, Verdict::kOk) << "it grants what there is";
}

// As in a container: /proc names the group from outside, and the files lie at the mount.
TEST(Cpus, TheQuotaOfVersionOneGroups) {
  FakeHost host;
  host.put("/proc/self/cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n");
  const std::string folder = "/sys/fs/cgroup/cpu,cpuacct/";
  host.put(folder + "cpu.cfs_period_us", "100000\n");
  host.put(folder + "cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(cpu_quota(host.view).has_value());
  host.put(folder + "cpu.cfs_quota_us", "200000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(host.view).value(), 2);
  EXPECT_EQ(check_cpus(host.view).verdict, Verdict::kCosts);
}

TEST(Cpus, NonsenseInGroupFilesIsNoQuota) {
  FakeHost host;
  for (const char* groups : {"", "x", "::", "0::", "0::relative", "1:cpu:/\n0::/"}) {
    host.put("/proc/self/cgroup", groups);
    host.put("/sys/fs/cgroup/cpu.max", "much");
    host.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "0");
    EXPECT_FALSE(cpu_quota(host.view).has_value()) << groups;
    host.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "nan");
    host.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    EXPECT_FALSE(cpu_quota(host.view).has_value()) << groups;
  }
}

TEST(Governor, OnlyThoseThatStartSlowlyCost) {
  FakeHost host;
  EXPECT_EQ(check_governor(host.view).verdict, Verdict::kOk);
  const std::string cpus = "/sys/devices/system/cpu/";
  host.put(cpus + "cpu0/cpufreq/scaling_governor", "performance\n");
  host.put(cpus + "cpu1/cpufreq/scaling_governor", "performance\n");
  host.put(cpus + "cpufreq/policy0/scaling_governor", "powersave\n");
  EXPECT_EQ(said(check_governor(host.view)), "ok: full speed at once on 2 cpus");
  host.put(cpus + "cpu1/cpufreq/scaling_governor", "schedutil\n");
  EXPECT_EQ(said(check_governor(host.view)), "costs: schedutil on 1 cpu");
  host.put(cpus + "cpu1/cpufreq/scaling_governor", "powersave\n");
  EXPECT_EQ(said(check_governor(host.view)), "costs: powersave on 1 cpu");
  host.put(cpus + "cpu1/cpufreq/energy_performance_preference", "balance_performance\n");
  EXPECT_EQ(check_governor(host.view).verdict, Verdict::kOk);
}

TEST(Descriptors, TheLimitIsHeldAgainstTheRanks) {
  FakeHost host;
  EXPECT_EQ(said(check_descriptors(host.view)),
            "ok: 1024 (hard limit 1048576), enough for about 406 ranks");
  host.view.job = {50, 500, 10};
  const Finding few = check_descriptors(host.view);
  EXPECT_EQ(said(few),
            "broken: 1024 (hard limit 1048576), about 1212 needed for 500 ranks with a network");
  EXPECT_EQ(few.remedy, "ulimit -n 65536");
  host.probes().descriptors.hard = 1024;
  EXPECT_TRUE(contains(check_descriptors(host.view).remedy, "limits.conf"));
  host.probes().descriptors = {};
  EXPECT_EQ(said(check_descriptors(host.view)), "ok: unlimited (hard limit unlimited)");
}

// What docs/errors.md says: 20 and 2 for each rank, and 64 and 2 for each other that UCX wants.
TEST(Descriptors, AreCountedAsRanksCountThem) {
  FakeHost host;
  host.view.job = {2, 4, 2};
  const int needed = 20 + 2 * 4 + 64 + 2 * 3;
  for (const int limit : {needed - 1, needed}) {
    host.probes().descriptors = {static_cast<std::uint64_t>(limit), 1048576};
    EXPECT_EQ(check_descriptors(host.view).verdict,
              limit < needed ? Verdict::kBroken : Verdict::kOk);
  }
  host.probes().descriptors.soft = 75;
  EXPECT_EQ(check_descriptors(host.view).verdict, Verdict::kBroken);
  host.view.job = {1, 4, 4};
  EXPECT_EQ(check_descriptors(host.view).verdict, Verdict::kCosts) << "one host needs no network";
}

TEST(Descriptors, TwentyAreTooFewForAnyJob) {
  FakeHost host;
  host.probes().descriptors = {20, 20};
  host.probes().cpus = 1;
  EXPECT_EQ(check_descriptors(host.view).verdict, Verdict::kBroken);
}

TEST(LockedMemory, MattersForRdmaOnly) {
  FakeHost host;
  EXPECT_EQ(check_locked_memory(host.view).verdict, Verdict::kOk);
  host.add_nic("ib0", 100, "10.1.0.1").kind = LinkKind::kInfiniband;
  EXPECT_EQ(said(check_locked_memory(host.view)), "costs: 8192 KiB on a host with RDMA devices");
  host.put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\nSeccomp:\t0\n");
  EXPECT_EQ(check_locked_memory(host.view).verdict, Verdict::kOk) << "CAP_IPC_LOCK";
  host.put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000003fff\n");
  EXPECT_EQ(check_locked_memory(host.view).verdict, Verdict::kCosts);
  host.probes().locked_memory = {};
  EXPECT_EQ(said(check_locked_memory(host.view)), "ok: unlimited");
}

}  // namespace
}  // namespace echelon::doctor
