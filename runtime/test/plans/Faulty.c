/* Four ranks that sum a vector 60 times. Between two of these sums one rank breaks. MOERT_TEST_FAULT selects the rank
   and the fault, as in "2:kill": kill, stop (the process stands still), spin (its program never returns), exit, fail.
   If ranks are processes, their number is the launcher's. In one process, ranks are numbered as they come. */
#include "Plan.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUES                                                                                                         \
  "\"arguments\":[{\"name\":\"x\",\"role\":\"input\",\"dtype\":\"f32\",\"shape\":[4],\"local_shape\":[4],"             \
  "\"layout\":[[]]}],"                                                                                                 \
  "\"results\":[{\"name\":\"y\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[4],\"local_shape\":[4],"              \
  "\"layout\":[[]]}],"

const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":9,\"world\":4,\"parallel\":{},\"schedule\":\"hand\",\"mode\":\"train\","
    "\"dtype\":\"f32\",\"groups\":[{\"name\":\"ep\",\"size\":4,\"stride\":1}],"
    "\"programs\":[{\"first_rank\":0,\"ranks\":4,\"symbol\":\"moeplan_rank\"," VALUES
    "\"arenas\":{\"device\":0,\"host_pinned\":0},\"streams\":[\"comm\"],\"events\":0,\"ops\":["
    "{\"name\":\"all_reduce\",\"label\":\"layer0\",\"stream\":\"comm\",\"group\":\"ep\",\"flops\":0,\"bytes\":0,"
    "\"bytes_sent\":0,\"rows\":0}]}],\"reference\":null}";

static const moert_group kEp = {"ep", 4, 1};

static void breakHere(const char *how) {
  usleep(200000); /* The others are in the next sum by now. */
  if (!strcmp(how, "kill"))
    raise(SIGKILL);
  if (!strcmp(how, "stop"))
    raise(SIGSTOP);
  if (!strcmp(how, "exit"))
    exit(0);
  while (!strcmp(how, "spin"))
    pause();
}

int32_t moeplan_rank(moert_rank_t rank) {
  static const moert_buffer x = ARGUMENT(0, MOERT_F32, 1, 4);
  static const moert_buffer y = ARGUMENT(1, MOERT_F32, 1, 4);
  static int calls = 0, steps = 0;
  const char *fault = getenv("MOERT_TEST_FAULT"), *process = getenv("OMPI_COMM_WORLD_RANK");
  const char *when = getenv("MOERT_TEST_FAULT_AT");
  int me = process ? atoi(process) : __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  /* The step before has shown that all ranks exist. If the program is listed before, those calls count, too. */
  int due = !process || __atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED) == (when ? atoi(when) : 1);
  if (fault && due && me == atoi(fault)) {
    breakHere(strchr(fault, ':') + 1);
    return MOERT_ERROR_INTERNAL;
  }
  for (int i = 0; i < 60; ++i)
    TRY(moert_all_reduce(rank, 0, i ? &y : &x, NULL, &y, &kEp, 0));
  return MOERT_OK;
}
