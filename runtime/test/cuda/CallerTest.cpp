//===- CallerTest.cpp - steps among the work of a caller on a GPU ---------===//
//
// Ranks of a plan in a caller's program. Each is a world of one rank on its own device, with the caller's memory,
// stream and communicators. Here the ranks are threads of one process, which share the emulation of CUDA and NCCL with
// the runtime.
//
//===----------------------------------------------------------------------===//

#include "core/Module.h"
#include "emulation/Emulation.h"
#include "moert/world.h"

#include <cstdlib>
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <nccl.h>
#include <nlohmann/json.hpp>
#include <thread>

extern "C" const moert::BackendModule moert_backend_module;

namespace moert::cuda {
namespace {

using testing::HasSubstr;
using Values = std::vector<std::vector<char>>; ///< arguments, then results

/// CUDA's backends are linked with this program.
const BackendRegistration direct("cuda", moert_backend_module.create);
const BackendRegistration loopback("cuda-loopback", moert_backend_module.create);

#define EXPECT_CUDA(expression) EXPECT_EQ(expression, cudaSuccess)

constexpr int kRanks = 4;

class Plan {
public:
  explicit Plan(const std::string &name) {
    EXPECT_EQ(moert_plan_open((PLANS "/" + name + ".so").c_str(), &handle), MOERT_OK) << moert_last_error();
    const auto program = nlohmann::json::parse(moert_plan_metadata(handle))["programs"][0];
    for (const char *key : {"arguments", "results"})
      for (const auto &value : program[key]) {
        int64_t elements = 1;
        for (int64_t dim : value["local_shape"])
          elements *= dim;
        bytes.push_back(4 * elements);
      }
    arguments = program["arguments"].size();
  }
  ~Plan() { moert_plan_close(handle); }

  /// Values of a step. Results are empty.
  Values inputs(int64_t rank, int seed) const {
    Values values(bytes.size());
    for (size_t i = 0; i < arguments; ++i)
      for (int64_t k = 0; k < bytes[i] / 4; ++k) {
        // Parameters are equal on all ranks that hold the same part.
        const auto number = static_cast<float>(i == 0 ? rank / 2 * 31 + k * 7 + seed * 3 : rank % 2 * 5 + k + seed);
        const auto *first = reinterpret_cast<const char *>(&number);
        values[i].insert(values[i].end(), first, first + 4);
      }
    return values;
  }

  moert_plan_t handle = nullptr;
  std::vector<int64_t> bytes;
  size_t arguments = 0;
};

moert_world_config makeConfig(const char *backend) {
  moert_world_config config{};
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.backend = backend;
  return config;
}

/// Results of the ordinary world, by rank.
std::vector<Values> runOrdinary(const Plan &plan, int seed) {
  const moert_world_config config = makeConfig("cuda-loopback");
  moert_world_t world = nullptr;
  EXPECT_EQ(moert_world_create(plan.handle, &config, &world), MOERT_OK) << moert_last_error();
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const Values values = plan.inputs(rank, seed);
    for (size_t i = 0; i < plan.arguments; ++i)
      EXPECT_EQ(moert_world_write(world, rank, static_cast<int64_t>(i), values[i].data(), plan.bytes[i]), MOERT_OK);
  }
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_OK) << moert_last_error();
  std::vector<Values> all(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank)
    for (size_t i = 0; i < plan.bytes.size(); ++i) {
      all[static_cast<size_t>(rank)].emplace_back(static_cast<size_t>(plan.bytes[i]));
      EXPECT_EQ(moert_world_read(world, rank, static_cast<int64_t>(i), all[static_cast<size_t>(rank)][i].data(),
                                 plan.bytes[i]),
                MOERT_OK);
    }
  moert_world_destroy(world);
  return all;
}

/// Ids that a caller gives to all members of a group.
class Ids {
public:
  ncclUniqueId of(const moert_members &members) {
    std::lock_guard lock(mutex);
    auto [it, isNew] = ids.try_emplace({members.group, members.ranks[0]});
    if (isNew) {
      EXPECT_EQ(ncclGetUniqueId(&it->second), ncclSuccess);
    }
    return it->second;
  }

private:
  std::mutex mutex;
  std::map<std::pair<std::string, int64_t>, ncclUniqueId> ids;
};

/// A rank of the caller, on the device of its number.
class Rank {
public:
  Rank(int number, Ids &ids) : number(number), ids(ids) {
    use();
    for (cudaStream_t &made : streams)
      EXPECT_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    table.size = sizeof table;
    table.version = MOERT_CUDA_CALLER_VERSION;
    table.context = this;
    table.rank = number;
    table.ranks = kRanks;
    table.stream = [](void *rank) -> void * { return static_cast<Rank *>(rank)->stream(); };
    table.communicator = [](void *rank, const moert_members *members) -> void * {
      return static_cast<Rank *>(rank)->makeCommunicator(*members);
    };
    table.last_error = [](void *) { return "the caller has no such group"; };
  }
  Rank(const Rank &) = delete;
  ~Rank() {
    use();
    moert_world_destroy(world);
    for (void *data : memory)
      EXPECT_CUDA(cudaFree(data));
    for (void *data : pinned)
      EXPECT_CUDA(cudaFreeHost(data));
    for (cudaStream_t made : streams)
      EXPECT_CUDA(cudaStreamDestroy(made));
    for (ncclComm_t comm : comms)
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }

  void use() const { EXPECT_CUDA(cudaSetDevice(number)); }
  cudaStream_t stream() const { return streams[current]; }

  moert_world_config config() const {
    moert_world_config config = makeConfig("cuda");
    config.bound = 1;
    config.timeout_s = timeout;
    config.cuda_caller = &table;
    return config;
  }
  int32_t create(const Plan &plan) {
    const moert_world_config made = config();
    return moert_world_create(plan.handle, &made, &world);
  }
  void *allocate(int64_t bytes) {
    memory.push_back(nullptr);
    EXPECT_CUDA(cudaMalloc(&memory.back(), static_cast<size_t>(bytes)));
    return memory.back();
  }
  void *allocatePinned(int64_t bytes) {
    pinned.push_back(nullptr);
    EXPECT_CUDA(cudaMallocHost(&pinned.back(), static_cast<size_t>(bytes)));
    return pinned.back();
  }
  /// Binds fresh memory that is full of NaN.
  void bind(const Plan &plan) {
    places.clear();
    for (size_t i = 0; i < plan.bytes.size(); ++i) {
      places.push_back(allocate(plan.bytes[i]));
      EXPECT_EQ(moert_world_bind(world, number, static_cast<int64_t>(i), places[i], plan.bytes[i]), MOERT_OK)
          << moert_last_error();
    }
    int64_t planned = 0, measured = 0;
    EXPECT_EQ(moert_world_memory(world, number, MOERT_SPACE_DEVICE, &planned, &measured), MOERT_OK);
    arena = arena ? arena : allocate(planned);
    EXPECT_EQ(moert_world_bind_arena(world, number, MOERT_SPACE_DEVICE, arena, planned), MOERT_OK);
  }
  /// Enqueues copies to the arguments, a step, and copies of all values, without a wait.
  int32_t enqueueStep(const Plan &plan, int seed, std::vector<void *> &out) {
    const Values values = plan.inputs(number, seed);
    for (size_t i = 0; i < plan.arguments; ++i) {
      void *in = allocatePinned(plan.bytes[i]);
      std::copy(values[i].begin(), values[i].end(), static_cast<char *>(in));
      EXPECT_CUDA(cudaMemcpyAsync(places[i], in, values[i].size(), cudaMemcpyDefault, stream()));
    }
    const int32_t code = moert_world_run(world, nullptr);
    for (size_t i = 0; i < plan.bytes.size(); ++i) {
      out.push_back(allocatePinned(plan.bytes[i]));
      EXPECT_CUDA(cudaMemcpyAsync(out[i], places[i], static_cast<size_t>(plan.bytes[i]), cudaMemcpyDefault, stream()));
    }
    return code;
  }

  const int number;
  moert_cuda_caller table{};
  double timeout = 0;
  moert_world_t world = nullptr;
  cudaStream_t streams[2] = {};
  size_t current = 0; ///< number of the current stream
  std::vector<ncclComm_t> comms;
  bool refuses = false, isWrong = false; ///< ways in which the function that returns communicators fails

private:
  void *makeCommunicator(const moert_members &members) {
    if (refuses)
      return nullptr;
    const auto member = static_cast<int>(isWrong ? members.count - 1 - members.member : members.member);
    EXPECT_EQ(ncclCommInitRank(&comms.emplace_back(), static_cast<int>(members.count), ids.of(members), member),
              ncclSuccess);
    return comms.back();
  }

  Ids &ids;
  std::vector<void *> memory, pinned, places;
  void *arena = nullptr;
};

class CallerTest : public testing::Test {
protected:
  CallerTest() {
    ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    emulation::setDevices(kRanks, size_t(4) << 30);
    for (int number = 0; number < kRanks; ++number)
      ranks.push_back(std::make_unique<Rank>(number, ids));
  }
  ~CallerTest() override {
    ranks.clear();
    EXPECT_CUDA(cudaSetDevice(0));
  }

  /// Calls `body` for all ranks at the same time.
  void forRanks(const std::function<void(Rank &)> &body) {
    std::vector<std::thread> threads;
    for (const auto &rank : ranks)
      threads.emplace_back([&] {
        rank->use();
        body(*rank);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  void createAll(const Plan &plan) {
    forRanks([&](Rank &rank) {
      ASSERT_EQ(rank.create(plan), MOERT_OK) << moert_last_error();
      rank.bind(plan);
    });
  }
  void expectValues(const Plan &plan, const std::vector<std::vector<void *>> &out, int seed) {
    const std::vector<Values> expected = runOrdinary(plan, seed);
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (size_t i = 0; i < plan.bytes.size(); ++i) {
        const auto *first = static_cast<const char *>(out[rank][i]);
        EXPECT_EQ(std::vector<char>(first, first + plan.bytes[i]), expected[rank][i])
            << "rank " << rank << ", value " << i << ", seed " << seed;
      }
  }

  Ids ids;
  std::vector<std::unique_ptr<Rank>> ranks;
};

// --- Values and order ----------------------------------------------------------

/// Runs steps of all ranks between copies on their streams, in different memory each time.
class CallerValuesTest : public CallerTest, public testing::WithParamInterface<const char *> {};

TEST_P(CallerValuesTest, AreThoseOfTheOrdinaryWorld) {
  Plan plan(GetParam());
  createAll(plan);
  for (int seed = 1; seed <= 8; ++seed) {
    emulation::setSeed(static_cast<uint64_t>(seed));
    std::vector<std::vector<void *>> out(kRanks);
    forRanks([&](Rank &rank) {
      rank.bind(plan);
      EXPECT_EQ(rank.enqueueStep(plan, seed, out[static_cast<size_t>(rank.number)]), MOERT_OK) << moert_last_error();
      EXPECT_CUDA(cudaStreamSynchronize(rank.stream()));
    });
    expectValues(plan, out, seed);
  }
  forRanks([](Rank &rank) { EXPECT_EQ(moert_world_wait(rank.world), MOERT_OK) << moert_last_error(); });
}

// `ragged` reads counts on the host in the middle of a step.
INSTANTIATE_TEST_SUITE_P(Plans, CallerValuesTest, testing::Values("small", "ragged"));

TEST_F(CallerTest, StepsFollowEachOtherOnDifferentStreams) {
  Plan plan("small");
  createAll(plan);
  for (int seed = 1; seed <= 8; ++seed) {
    emulation::setSeed(static_cast<uint64_t>(seed));
    std::vector<std::vector<void *>> first(kRanks), second(kRanks);
    forRanks([&](Rank &rank) {
      rank.bind(plan);
      rank.current = 0;
      EXPECT_EQ(rank.enqueueStep(plan, seed, first[static_cast<size_t>(rank.number)]), MOERT_OK);
      rank.bind(plan);
      rank.current = 1;
      EXPECT_EQ(rank.enqueueStep(plan, seed + 1, second[static_cast<size_t>(rank.number)]), MOERT_OK);
      for (cudaStream_t stream : rank.streams)
        EXPECT_CUDA(cudaStreamSynchronize(stream));
    });
    expectValues(plan, first, seed);
    expectValues(plan, second, seed + 1);
  }
}

TEST_F(CallerTest, TheHostDoesNotWait) {
  Plan plan("small");
  createAll(plan);
  bool hasRun = false;
  Rank &rank = *ranks[0];
  rank.use();
  EXPECT_CUDA(emulation::enqueueWork(rank.stream(), [&] { hasRun = true; }));
  // The other ranks do not exist.
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_OK) << moert_last_error();
  EXPECT_FALSE(hasRun);
  forRanks([&](Rank &other) {
    if (&other != &rank) {
      EXPECT_EQ(moert_world_run(other.world, nullptr), MOERT_OK) << moert_last_error();
    }
    EXPECT_EQ(moert_world_wait(other.world), MOERT_OK) << moert_last_error();
  });
  EXPECT_TRUE(hasRun);
}

TEST_F(CallerTest, ReadingWaitsForTheStep) {
  Plan plan("small");
  createAll(plan);
  std::vector<std::vector<void *>> out(kRanks);
  std::vector<Values> read(kRanks, Values(plan.bytes.size()));
  forRanks([&](Rank &rank) {
    const auto at = static_cast<size_t>(rank.number);
    EXPECT_EQ(rank.enqueueStep(plan, 1, out[at]), MOERT_OK) << moert_last_error();
    int64_t count = 0;
    moert_op_time times[8];
    EXPECT_EQ(moert_world_timeline(rank.world, rank.number, times, 8, &count), MOERT_OK) << moert_last_error();
    // Replicas are only compared under `verify`.
    EXPECT_EQ(count, 4);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_LE(0, times[i].begin_s);
    for (size_t i = 0; i < plan.bytes.size(); ++i) {
      read[at][i].resize(static_cast<size_t>(plan.bytes[i]));
      EXPECT_EQ(moert_world_read(rank.world, rank.number, static_cast<int64_t>(i), read[at][i].data(), plan.bytes[i]),
                MOERT_OK)
          << moert_last_error();
    }
  });
  EXPECT_EQ(read, runOrdinary(plan, 1));
}

// --- Owners --------------------------------------------------------------------

TEST_F(CallerTest, CommunicatorsStayTheCallers) {
  const int64_t made = emulation::communicatorsMade(), before = emulation::communicators();
  Plan plan("small");
  createAll(plan);
  std::vector<std::vector<void *>> out(kRanks);
  forRanks([&](Rank &rank) {
    EXPECT_EQ(rank.comms.size(), 2u);
    EXPECT_EQ(emulation::keptBytes(), UINT64_MAX);
    EXPECT_EQ(rank.enqueueStep(plan, 1, out[static_cast<size_t>(rank.number)]), MOERT_OK) << moert_last_error();
    moert_world_destroy(std::exchange(rank.world, nullptr));
  });
  // Each rank has one for each of two groups, all made by the caller.
  EXPECT_EQ(emulation::communicatorsMade() - made, 2 * kRanks);
  EXPECT_EQ(emulation::communicators() - before, 2 * kRanks);
}

// --- Errors --------------------------------------------------------------------

TEST_F(CallerTest, SeveralCommunicatorsNeedAnOrder) {
  Plan plan("small");
  ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  ranks[0]->use();
  EXPECT_EQ(ranks[0]->create(plan), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(),
              HasSubstr("expected NCCL_LAUNCH_ORDER_IMPLICIT=1 before the process uses NCCL (2.26 or "
                        "newer) but got no such variable"));
}

// Fresh memory of the emulation holds -1.
TEST_F(CallerTest, FaultsOfKernelsComeByWait) {
  Plan plan("wide-index");
  createAll(plan);
  std::vector<std::vector<void *>> out(kRanks);
  forRanks([&](Rank &rank) {
    EXPECT_EQ(rank.enqueueStep(plan, 1, out[static_cast<size_t>(rank.number)]), MOERT_OK) << moert_last_error();
    EXPECT_EQ(moert_world_wait(rank.world), MOERT_ERROR_INVALID_ARGUMENT);
    const std::string expected = "rank " + std::to_string(rank.number) +
                                 ", op 1 'layer0': 'index_affine': the result of -1 at 0 does not fit in i32";
    EXPECT_EQ(moert_last_error(), expected);
    EXPECT_EQ(moert_world_wait(rank.world), MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(moert_last_error(), "an earlier step failed: " + expected);
  });
}

TEST_F(CallerTest, FaultsOfKernelsComeByTheNextStep) {
  Plan plan("wide-index");
  createAll(plan);
  std::vector<std::vector<void *>> out(kRanks);
  forRanks([&](Rank &rank) {
    EXPECT_EQ(rank.enqueueStep(plan, 1, out[static_cast<size_t>(rank.number)]), MOERT_OK) << moert_last_error();
    EXPECT_CUDA(cudaStreamSynchronize(rank.stream()));
    EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(moert_last_error(), HasSubstr("an earlier step failed: rank "));
  });
}

/// One rank runs a step alone, which cannot end.
class CallerAloneTest : public CallerTest {
protected:
  void runAlone(double timeout) {
    rank.timeout = timeout;
    rank.use();
    ASSERT_EQ(rank.create(plan), MOERT_OK) << moert_last_error();
    rank.bind(plan);
    ASSERT_EQ(moert_world_run(rank.world, nullptr), MOERT_OK) << moert_last_error();
  }
  /// Aborts as the caller has to. The world can then be destroyed.
  void abort() {
    for (ncclComm_t comm : rank.comms)
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    rank.comms.clear();
    EXPECT_CUDA(cudaStreamSynchronize(rank.stream()));
    const size_t bytes = emulation::allocatedBytes();
    moert_world_destroy(std::exchange(rank.world, nullptr));
    EXPECT_LT(emulation::allocatedBytes(), bytes);
  }

  Plan plan{"small"};
  Rank &rank = *ranks[0];
};

TEST_F(CallerAloneTest, ErrorsOfNcclComeByWait) {
  runAlone(0);
  emulation::failCommunicator(rank.comms[0]);
  EXPECT_EQ(moert_world_wait(rank.world), MOERT_ERROR_INTERNAL);
  EXPECT_THAT(moert_last_error(), HasSubstr("a transfer failed"));
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INTERNAL);
  EXPECT_THAT(moert_last_error(), HasSubstr("an earlier step failed: a transfer failed"));
  abort();
}

TEST_F(CallerAloneTest, ErrorsOfNcclComeByTheNextStep) {
  runAlone(0);
  emulation::failCommunicator(rank.comms[0]);
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INTERNAL);
  EXPECT_THAT(moert_last_error(), HasSubstr("an earlier step failed: a transfer failed"));
  abort();
}

// NCCL would enqueue the transfer later, after the step's next work.
TEST_F(CallerAloneTest, CommunicatorsMustBlock) {
  rank.use();
  ASSERT_EQ(rank.create(plan), MOERT_OK) << moert_last_error();
  rank.bind(plan);
  for (ncclComm_t comm : rank.comms)
    emulation::setNonblocking(comm);
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_UNSUPPORTED);
  EXPECT_THAT(moert_last_error(), HasSubstr("ncclAllGather returned before its end; expected a blocking communicator "
                                            "(NCCL_COMM_BLOCKING=1; in PyTorch TORCH_NCCL_USE_COMM_NONBLOCKING=0)"));
  abort();
}

// Other ranks have enqueued collectives that this rank has not.
TEST_F(CallerAloneTest, AnErrorOfTheHostStays) {
  rank.use();
  ASSERT_EQ(rank.create(plan), MOERT_OK) << moert_last_error();
  rank.bind(plan);
  emulation::failNext(cudaErrorInvalidValue);
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INTERNAL);
  EXPECT_THAT(moert_last_error(), HasSubstr("rank 0: op 0 matmul 'layer0'"));
  EXPECT_EQ(moert_world_wait(rank.world), MOERT_ERROR_INTERNAL);
  EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_ERROR_INTERNAL);
  EXPECT_THAT(moert_last_error(), HasSubstr("an earlier step failed: rank 0: op 0 matmul 'layer0'"));
  // The step enqueued no collective.
  EXPECT_CUDA(cudaStreamSynchronize(rank.stream()));
}

TEST_F(CallerAloneTest, TimeOutsSayWhereTheRankWaits) {
  runAlone(0.2);
  EXPECT_EQ(moert_world_wait(rank.world), MOERT_ERROR_HANG);
  EXPECT_THAT(moert_last_error(), HasSubstr("rank 0: the time-out of 0.2"));
  EXPECT_THAT(moert_last_error(), HasSubstr("waits in op 2 all_gather 'layer0' on group 'mp'"));
  // The caller's next check finds no error of a step that only was not ready.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  abort();
}

TEST_F(CallerAloneTest, WhatMayStillRunIsNotDestroyed) {
  runAlone(0.2);
  const size_t bytes = emulation::allocatedBytes();
  moert_world_destroy(rank.world);
  EXPECT_EQ(emulation::allocatedBytes(), bytes);
  abort();
}

// --- What is refused -----------------------------------------------------------

class CallerRefusedTest : public CallerTest {
protected:
  /// Expects an error after `change` breaks one entry of a configuration or of the table.
  void expectRefused(const std::string &text, const std::function<void(moert_world_config &)> &change,
                     const char *plan = "small") {
    Plan opened(plan);
    Rank &rank = *ranks[0];
    rank.use();
    moert_world_config config = rank.config();
    change(config);
    EXPECT_NE(moert_world_create(opened.handle, &config, &rank.world), MOERT_OK) << text;
    EXPECT_THAT(moert_last_error(), HasSubstr(text));
  }
  void expectTableRefused(const std::string &text, const std::function<void(moert_cuda_caller &)> &change) {
    moert_cuda_caller table = ranks[0]->table;
    change(table);
    expectRefused(text, [&](moert_world_config &config) { config.cuda_caller = &table; });
  }
};

TEST_F(CallerRefusedTest, Tables) {
  const std::string expected = "expected a moert_cuda_caller of version 1 and " +
                               std::to_string(sizeof(moert_cuda_caller)) + " bytes but got version ";
  expectTableRefused(expected + "2", [](moert_cuda_caller &table) { table.version = 2; });
  expectTableRefused(expected + "1 and 8 bytes", [](moert_cuda_caller &table) { table.size = 8; });
  const std::string functions = "expected a moert_cuda_caller with stream and communicator";
  expectTableRefused(functions, [](moert_cuda_caller &table) { table.stream = nullptr; });
  expectTableRefused(functions, [](moert_cuda_caller &table) { table.communicator = nullptr; });
  const std::string ranks = "the plan has 4 ranks, but the caller has rank ";
  expectTableRefused(ranks + "0 of 2", [](moert_cuda_caller &table) { table.ranks = 2; });
  expectTableRefused(ranks + "4 of 4", [](moert_cuda_caller &table) { table.rank = 4; });
}

TEST_F(CallerRefusedTest, Configurations) {
  expectRefused("bound is 0", [](moert_world_config &config) { config.bound = 0; });
  expectRefused("the backend is 'cuda-loopback'", [](moert_world_config &config) { config.backend = "cuda-loopback"; });
  expectRefused("agreement must be null", [](moert_world_config &config) { config.agreement = "seed: 1"; });
  expectRefused("runs no pipelines", [](moert_world_config &) {}, "stages");
}

// Graphs are refused with a table of communicators, and without one.
TEST_F(CallerRefusedTest, GraphsOfBoundWorlds) {
  const std::string text = "expected graphs = 0 of a world whose memory the caller gives: a CUDA graph would use the "
                           "addresses of the step that it was made of again";
  expectRefused(text, [](moert_world_config &config) { config.graphs = 1; });
  expectRefused(text, [](moert_world_config &config) {
    config.graphs = 1;
    config.cuda_caller = nullptr;
  });
}

TEST_F(CallerRefusedTest, Communicators) {
  ranks[0]->isWrong = true;
  expectRefused("expected a communicator in which rank 0 is member 0 of 2 but it is 1 of 2",
                [](moert_world_config &) {});
  ranks[0]->refuses = true;
  expectRefused("expected a communicator of the caller for group 'mp' but got none: the caller has no such group",
                [](moert_world_config &) {});
}

TEST_F(CallerRefusedTest, Steps) {
  Plan plan("small");
  createAll(plan);
  Rank &rank = *ranks[0];
  const auto expectRefused = [&](double *seconds, const char *text) {
    EXPECT_NE(moert_world_run(rank.world, seconds), MOERT_OK);
    EXPECT_THAT(moert_last_error(), HasSubstr(text));
  };
  double seconds = 0;
  expectRefused(&seconds, "seconds must be null with a CUDA caller");
  EXPECT_CUDA(cudaSetDevice(1));
  expectRefused(nullptr, "expected device 0 to be current, where the world was made, but it is 1");
  rank.use();
  EXPECT_CUDA(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal));
  expectRefused(nullptr, "the caller's stream is captured");
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(rank.stream(), &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  // The refused step enqueued nothing, and the world can go on.
  forRanks([&](Rank &one) {
    EXPECT_EQ(moert_world_run(one.world, nullptr), MOERT_OK) << moert_last_error();
    EXPECT_EQ(moert_world_wait(one.world), MOERT_OK) << moert_last_error();
  });
}

} // namespace
} // namespace moert::cuda
