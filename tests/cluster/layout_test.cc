// SPDX-License-Identifier: Apache-2.0
// Who is where on several hosts, and a split that goes across them, through the C ABI.
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cluster/virtual_cluster.h"

namespace echelon::test {
namespace {

using nlohmann::json;

json place(int rank, int size, int local_rank, int local_size, int host, int hosts) {
  return {{"rank", rank},
          {"size", size},
          {"local_rank", local_rank},
          {"host", host},
          {"local_size", local_size},
          {"hosts", hosts}};
}

class Layouts : public OnCluster {};

TEST_F(Layouts, OfUnequalHosts) {
  const Result r = run_program({program(), "run", "--emulate", "3+1+2:1gbit", "--no-tag", "--",
                                std::getenv("ECHELON_LAYOUT_RANK")},
                               "", std::chrono::seconds(60));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  std::map<int, json> ranks;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) {
    const json said = json::parse(line, nullptr, false);
    ASSERT_TRUE(said.is_object()) << r.out;
    ranks[said["all"]["rank"]] = said;
  }
  ASSERT_EQ(ranks.size(), 6u) << r.out;
  const int host[] = {0, 0, 0, 1, 2, 2}, local[] = {0, 1, 2, 0, 0, 1}, ranks_of_host[] = {3, 1, 2};
  for (int k = 0; k < 6; ++k)
    EXPECT_EQ(ranks[k]["all"], place(k, 6, local[k], ranks_of_host[host[k]], host[k], 3)) << k;
  // Local rank 0: ranks 4, 3, 0. Local rank 1: 5, 1. Local rank 2: 2.
  const int part_rank[] = {2, 1, 0, 1, 0, 0}, part_size[] = {3, 2, 1, 3, 3, 2};
  const int sum[] = {7, 6, 2, 7, 7, 6};
  for (int k = 0; k < 6; ++k) {
    EXPECT_EQ(ranks[k]["part"], place(part_rank[k], part_size[k], 0, 1, part_rank[k], part_size[k]))
        << k;
    EXPECT_EQ(ranks[k]["sum"], sum[k]) << k;
  }
}

}  // namespace
}  // namespace echelon::test
