//===- main.cpp - a program that runs a plan -------------------------------===//
//
// Runs three steps of a plan on random values, and prints their time and the memory of a rank. All parameters and
// inputs of the plan are f32.
//
//===----------------------------------------------------------------------===//
#include <moert/world.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

static void check(int32_t status) {
  if (status == MOERT_OK)
    return;
  std::fprintf(stderr, "error: %s\n", moert_last_error());
  std::exit(1);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_plan PLAN.so\n");
    return 2;
  }
  moert_plan_t plan = nullptr;
  check(moert_plan_open(argv[1], &plan));
  moert_world_config config = {.size = sizeof config, .version = MOERT_WORLD_CONFIG_VERSION};
  moert_world_t world = nullptr;
  check(moert_world_create(plan, &config, &world));
  int64_t size = 0, count = 0;
  const int64_t *ranks = nullptr;
  check(moert_world_ranks(world, &size, &ranks, &count));

  // All ranks get the same values, since ranks of a group may share a part.
  const auto metadata = nlohmann::json::parse(moert_plan_metadata(plan));
  int64_t index = 0;
  for (const auto &argument : metadata.at("programs").at(0).at("arguments")) {
    std::mt19937 random(index);
    std::vector<float> values(1);
    for (const auto &dimension : argument.at("local_shape"))
      values.resize(values.size() * dimension.get<size_t>());
    for (float &value : values)
      value = std::normal_distribution(0.f, 0.02f)(random);
    for (int64_t i = 0; i < count; ++i)
      check(moert_world_write(world, ranks[i], index, values.data(), values.size() * sizeof(float)));
    ++index;
  }
  for (double seconds : {0., 0., 0.}) {
    check(moert_world_run(world, &seconds));
    std::printf("%.3f ms on %d ranks\n", seconds * 1e3, static_cast<int>(size));
  }
  int64_t planned = 0, used = 0;
  check(moert_world_memory(world, ranks[0], MOERT_SPACE_DEVICE, &planned, &used));
  std::printf("%.3f MB of rank %d are planned, %.3f MB were used\n", planned * 1e-6, static_cast<int>(ranks[0]),
              used * 1e-6);
  moert_world_destroy(world);
  moert_plan_close(plan);
}
