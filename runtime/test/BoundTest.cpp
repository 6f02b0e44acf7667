//===- BoundTest.cpp - ranks on a caller's memory and exchanges -----------===//

#include "CallersMemory.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <thread>

using namespace moert::test;
using testing::HasSubstr;

namespace {

using Values = std::vector<std::vector<float>>; ///< arguments, then results

class Plan {
public:
  explicit Plan(const std::string &name) {
    EXPECT_EQ(moert_plan_open((PLANS "/" + name + ".so").c_str(), &handle), MOERT_OK) << moert_last_error();
    auto metadata = nlohmann::json::parse(moert_plan_metadata(handle));
    ranks = metadata["world"];
    const auto program = metadata["programs"][0];
    for (const char *key : {"arguments", "results"})
      for (const auto &value : program[key])
        elements.push_back(std::accumulate(value["local_shape"].begin(), value["local_shape"].end(), int64_t(1),
                                           [](int64_t product, int64_t dim) { return product * dim; }));
    arguments = program["arguments"].size();
  }
  ~Plan() { moert_plan_close(handle); }

  /// Values of a step, equal on the ranks that hold the same part. Results hold garbage that must be overwritten.
  Values inputs(int64_t rank) const {
    Values values;
    for (size_t i = 0; i < elements.size(); ++i) {
      auto &value = values.emplace_back(static_cast<size_t>(elements[i]), 99.0f);
      for (size_t k = 0; i < arguments && k < value.size(); ++k)
        value[k] = static_cast<float>(i == 0 ? rank / 2 * 31 + static_cast<int64_t>(k) * 7
                                             : rank % 2 * 5 + static_cast<int64_t>(k)) /
                   8;
    }
    return values;
  }

  moert_plan_t handle = nullptr;
  int64_t ranks = 0;
  std::vector<int64_t> elements;
  size_t arguments = 0;
};

moert_world_config makeConfig(const char *backend, const moert_communicator *table) {
  moert_world_config config{};
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.backend = backend;
  config.workers = 1;
  config.communicator = table;
  config.bound = table != nullptr;
  return config;
}

/// A rank of a caller.
class Rank {
public:
  Rank(const Plan &plan, moert_communicator table) : plan(plan), table(table), values(plan.inputs(table.rank)) {
    const moert_world_config config = makeConfig("caller", &this->table);
    EXPECT_EQ(moert_world_create(plan.handle, &config, &world), MOERT_OK) << moert_last_error();
    int64_t planned = 0, measured = 0;
    EXPECT_EQ(moert_world_memory(world, table.rank, MOERT_SPACE_DEVICE, &planned, &measured), MOERT_OK);
    arena.resize(static_cast<size_t>(planned) + 256);
  }
  ~Rank() { moert_world_destroy(world); }

  int32_t bind(size_t index, int64_t shift = 0) {
    auto bytes = static_cast<int64_t>(values[index].size() * sizeof(float));
    // The memory is aligned to at least 16 bytes.
    auto &place = placed.emplace_back(values[index].size() + 8);
    char *data = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(place.data()) + 15) / 16 * 16) + shift;
    std::memcpy(data, values[index].data(), static_cast<size_t>(bytes));
    addresses.push_back(data);
    return moert_world_bind(world, table.rank, static_cast<int64_t>(index), data, bytes);
  }
  int32_t bindArena() {
    auto begin = (reinterpret_cast<uintptr_t>(arena.data()) + 255) / 256 * 256;
    return moert_world_bind_arena(world, table.rank, MOERT_SPACE_DEVICE, reinterpret_cast<void *>(begin),
                                  static_cast<int64_t>(arena.size()) - 256);
  }
  int32_t bindAll() {
    for (size_t i = 0; i < values.size(); ++i)
      if (int32_t status = bind(i))
        return status;
    return bindArena();
  }
  Values results() const {
    Values all = values;
    for (size_t i = 0; i < all.size(); ++i)
      std::memcpy(all[i].data(), addresses[i], all[i].size() * sizeof(float));
    return all;
  }

  const Plan &plan;
  moert_communicator table;
  Values values;
  std::vector<char> arena;
  std::vector<std::vector<float>> placed;
  std::vector<char *> addresses;
  moert_world_t world = nullptr;
};

/// Results of the ordinary world, by rank.
std::vector<Values> runOrdinary(const Plan &plan) {
  const moert_world_config config = makeConfig("host", nullptr);
  moert_world_t world = nullptr;
  EXPECT_EQ(moert_world_create(plan.handle, &config, &world), MOERT_OK) << moert_last_error();
  std::vector<Values> all;
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    all.push_back(plan.inputs(rank));
    for (size_t i = 0; i < plan.arguments; ++i)
      EXPECT_EQ(moert_world_write(world, rank, static_cast<int64_t>(i), all.back()[i].data(), plan.elements[i] * 4),
                MOERT_OK);
  }
  EXPECT_EQ(moert_world_run(world, nullptr), MOERT_OK) << moert_last_error();
  for (int64_t rank = 0; rank < plan.ranks; ++rank)
    for (size_t i = 0; i < plan.elements.size(); ++i)
      EXPECT_EQ(moert_world_read(world, rank, static_cast<int64_t>(i), all[static_cast<size_t>(rank)][i].data(),
                                 plan.elements[i] * 4),
                MOERT_OK);
  moert_world_destroy(world);
  return all;
}

TEST(Bound, EqualsTheOrdinaryWorld) {
  const Plan plan("small");
  const std::vector<Values> expected = runOrdinary(plan);
  Memory memory;
  std::vector<Values> found(static_cast<size_t>(plan.ranks));
  std::vector<std::thread> threads;
  for (int64_t number = 0; number < plan.ranks; ++number)
    threads.emplace_back([&, number] {
      Rank rank(plan, makeTable(memory, number, plan.ranks));
      EXPECT_EQ(rank.bindAll(), MOERT_OK) << moert_last_error();
      // A second step on the same memory gives the same results.
      for (int step = 0; step < 2; ++step)
        EXPECT_EQ(moert_world_run(rank.world, nullptr), MOERT_OK) << moert_last_error();
      found[static_cast<size_t>(number)] = rank.results();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(found, expected);
}

TEST(Bound, NamesWhatIsNotBound) {
  const Plan plan("small");
  Memory memory;
  Rank rank(plan, makeTable(memory, 0, plan.ranks));
  EXPECT_NE(moert_world_run(rank.world, nullptr), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("'x' was not bound before the step"));
  for (size_t i = 0; i < rank.values.size(); ++i)
    EXPECT_EQ(rank.bind(i), MOERT_OK);
  EXPECT_NE(moert_world_run(rank.world, nullptr), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("arena 0 was not bound before the step"));
}

TEST(Bound, ChecksWhatIsBound) {
  const Plan plan("small");
  Memory memory;
  Rank rank(plan, makeTable(memory, 0, plan.ranks));
  EXPECT_NE(rank.bind(0, 4), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected 'x' at an address that is a multiple of 16"));
  alignas(256) char data[512];
  EXPECT_NE(moert_world_bind(rank.world, 0, 0, data, 4), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("bytes for 'x' of one rank but got 4"));
  EXPECT_NE(moert_world_bind(rank.world, 1, 0, data, plan.elements[0] * 4), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("rank 1 does not run in this process"));
  EXPECT_NE(moert_world_bind_arena(rank.world, 0, MOERT_SPACE_DEVICE, data, 1), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected an arena of at least"));
  EXPECT_NE(moert_world_bind_arena(rank.world, 0, MOERT_SPACE_DEVICE, data + 16, 1 << 30), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("multiple of 256"));
}

TEST(Bound, TellsErrorsOfTheCaller) {
  const Plan plan("small");
  moert_communicator table{sizeof table, MOERT_COMMUNICATOR_VERSION, nullptr, 0, plan.ranks, nullptr, nullptr, nullptr};
  table.all_to_all = [](void *, const moert_members *, const void *, const int64_t *, void *, const int64_t *) {
    return 1;
  };
  table.all_gather = [](void *, const moert_members *, const void *, int64_t, void *) { return 1; };
  table.last_error = [](void *) { return "the cable is out"; };
  Rank rank(plan, table);
  EXPECT_EQ(rank.bindAll(), MOERT_OK);
  EXPECT_NE(moert_world_run(rank.world, nullptr), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("' failed: the cable is out"));
  EXPECT_NE(moert_world_run(rank.world, nullptr), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr("an earlier step failed: "));
}

void expectRefused(const Plan &plan, const moert_world_config &config, const char *text) {
  moert_world_t world = nullptr;
  EXPECT_NE(moert_world_create(plan.handle, &config, &world), MOERT_OK);
  EXPECT_THAT(moert_last_error(), HasSubstr(text));
}

TEST(Bound, RefusesOtherTables) {
  const Plan plan("small"), stages("stages");
  Memory memory;
  moert_communicator table = makeTable(memory, 0, plan.ranks);
  moert_world_config config = makeConfig("caller", &table);
  table.version = 0;
  expectRefused(plan, config, "expected a moert_communicator of version");
  table = makeTable(memory, 0, plan.ranks);
  table.all_gather = nullptr;
  expectRefused(plan, config, "with all_to_all and all_gather");
  table = makeTable(memory, 0, plan.ranks + 1);
  expectRefused(plan, config, "but the communicator has rank 0 of");
  table = makeTable(memory, 0, stages.ranks);
  expectRefused(stages, config, "backend 'caller' runs no pipelines");
  expectRefused(plan, makeConfig("caller", nullptr), "expected a communicator for backend 'caller'");
  config = makeConfig("host", &table);
  expectRefused(plan, config, "expected a communicator for backend 'caller', and for no other one");
}

} // namespace
