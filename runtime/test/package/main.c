/* Runs one step of the plan of ../plans/Small.c: y = 2 (x w) with x and w full of ones, which have 4 columns and 4
 * rows. */
#include "moert/world.h"

#include <stdio.h>

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    if ((call) != MOERT_OK) {                                                                                          \
      fprintf(stderr, "error: %s\n", moert_last_error());                                                              \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: consumer PLAN\n");
    return 2;
  }
  moert_plan_t plan;
  TRY(moert_plan_open(argv[1], &plan));
  moert_world_config config = {
      .size = sizeof config, .version = MOERT_WORLD_CONFIG_VERSION, .program = MOERT_PROGRAM_RANK};
  moert_world_t world;
  TRY(moert_world_create(plan, &config, &world));
  int64_t size, count;
  const int64_t *ranks;
  TRY(moert_world_ranks(world, &size, &ranks, &count));
  float ones[16], y[24];
  for (int i = 0; i < 16; ++i)
    ones[i] = 1;
  for (int64_t i = 0; i < count; ++i) {
    TRY(moert_world_write(world, ranks[i], 0, ones, 16 * sizeof(float)));
    TRY(moert_world_write(world, ranks[i], 1, ones, 12 * sizeof(float)));
  }
  TRY(moert_world_run(world, NULL));
  for (int64_t i = 0; i < count; ++i) {
    TRY(moert_world_read(world, ranks[i], 2, y, sizeof y));
    for (int j = 0; j < 24; ++j)
      if (y[j] != 8) {
        fprintf(stderr, "error: rank %d: expected 8 but got %g\n", (int)ranks[i], y[j]);
        return 1;
      }
  }
  moert_world_destroy(world);
  moert_plan_close(plan);
  printf("ran %d ranks\n", (int)size);
  return 0;
}
