// SPDX-License-Identifier: Apache-2.0
// Allreduces of many buffers on the memory of GPUs, through the C ABI, on the stand-ins.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/multi/gpu_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

enum class Form { kBlocking, kNonblocking, kInStream };

class GpuPiece : public GpuTrial {
 public:
  using GpuTrial::GpuTrial;
  const void* send() const { return send_; }
  void* recv() const { return recv_; }
};

struct GpuList {
  GpuList(const GpuRank& rank, const std::vector<std::size_t>& given, Case each)
      : rank(rank), each(each), counts(given) {
    for (std::size_t count : counts) {
      each.count = count;
      pieces.push_back(count > 0 ? std::make_unique<GpuPiece>(rank, each) : nullptr);
      send.push_back(count > 0 ? pieces.back()->send() : nullptr);
      recv.push_back(count > 0 ? pieces.back()->recv() : nullptr);
    }
  }

  void run(Form form) {
    if (form == Form::kBlocking) {
      ASSERT_TRUE(ok(ech_allreduce_many(send.data(), recv.data(), counts.data(), counts.size(),
                                        each.dtype, each.op, 1, 1, rank.comm)));
    } else if (form == Form::kNonblocking) {
      ech_request* request = nullptr;
      ASSERT_TRUE(ok(ech_iallreduce_many(send.data(), recv.data(), counts.data(), counts.size(),
                                         each.dtype, each.op, 1, 1, rank.comm, nullptr, &request)));
      ASSERT_TRUE(ok(ech_wait(&request)));
    } else {
      const CudaStream stream = rank.gpu.stream();
      ASSERT_TRUE(
          ok(ech_allreduce_many_on_stream(send.data(), recv.data(), counts.data(), counts.size(),
                                          each.dtype, each.op, 1, 1, rank.comm, stream)));
      send.assign(send.size(), nullptr);  // were read
      rank.gpu.wait(stream);
      rank.gpu->stream_destroy(stream);
    }
    for (auto& piece : pieces)
      if (piece) piece->check();
  }

  const GpuRank& rank;
  const Case each;
  const std::vector<std::size_t> counts;
  std::vector<std::unique_ptr<GpuPiece>> pieces;
  std::vector<const void*> send;
  std::vector<void*> recv;
};

class GpuMany : public testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Hosts, GpuMany,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{2, 1}),
                         [](const auto& info) {
                           std::string name = "On";
                           for (int gpus : info.param) name += std::to_string(gpus);
                           return name;
                         });

TEST_P(GpuMany, EveryTypeAndForm) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    int turn = 0;
    for (ech_dtype dtype : kTypes) {
      for (ech_op op : {ECH_SUM, ECH_MAX, ECH_AVG}) {
        ++turn;
        GpuList(rank, {3, 0, 1000, 17}, {ECH_ALLREDUCE, 0, dtype, op, 0, turn % 2 == 0})
            .run(Form(turn % 3));
      }
    }
  });
}

TEST_P(GpuMany, ListsOfManySegments) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    for (Form form : {Form::kBlocking, Form::kNonblocking, Form::kInStream})
      GpuList(rank, {2'500'001, 5, 700'003, 1}, {ECH_ALLREDUCE, 0, ECH_FLOAT64}).run(form);
  });
}

TEST_P(GpuMany, FactorsAreTheKernels) {
  run_on_gpus({GetParam()}, [](GpuRank& rank) {
    const Gpu& gpu = rank.gpu;
    const std::vector<float> ones(1000, 1.0F);
    std::vector<void*> buffers;
    for (int k = 0; k < 2; ++k) buffers.push_back(reinterpret_cast<void*>(gpu.upload(ones)));
    const std::size_t counts[] = {1000, 500};
    ASSERT_TRUE(ok(ech_allreduce_many(buffers.data(), buffers.data(), counts, 2, ECH_FLOAT32,
                                      ECH_AVG, 0.5, 3, rank.comm)));
    const auto of = [&](int k) {
      return gpu.download<float>(reinterpret_cast<CudaPointer>(buffers[k]), 1000);
    };
    EXPECT_EQ(of(0), std::vector<float>(1000, 1.5F));
    EXPECT_EQ(of(1)[499], 1.5F);
    EXPECT_EQ(of(1)[500], 1.0F) << "beyond the buffer's count";
  });
}

TEST(GpuManyErrors, BuffersOfTwoKindsAreRefused) {
  run_on_gpus({{1}}, [](GpuRank& rank) {
    float host[10] = {};
    void* const there = reinterpret_cast<void*>(rank.gpu.memory(40));
    void* mixed[] = {host, there};
    const std::size_t counts[] = {10, 10};
    EXPECT_TRUE(failed_with(
        ech_allreduce_many(mixed, mixed, counts, 2, ECH_FLOAT32, ECH_SUM, 1, 1, rank.comm),
        ECH_ERR_INVALID));
    EXPECT_NE(std::string(ech_last_error())
                  .find("send[0] is in host memory, but send[1] in the memory of CUDA device 0"),
              std::string::npos)
        << ech_last_error();
    EXPECT_TRUE(failed_with(ech_allreduce_many_on_stream(mixed, mixed, counts, 1, ECH_FLOAT32,
                                                         ECH_SUM, 1, 1, rank.comm, nullptr),
                            ECH_ERR_INVALID));
    const std::size_t skipped[] = {0, 10};
    EXPECT_TRUE(
        ok(ech_allreduce_many(mixed, mixed, skipped, 2, ECH_FLOAT32, ECH_SUM, 1, 1, rank.comm)));
  });
}

}  // namespace
}  // namespace echelon::test
