/* Two ranks, dp 2: y = 2 x, for batches of 2 and 4 sequences of 4 tokens, the first by two schedules, of which the plan
   chooses the second. */
#include "Plan.h"

#define SHAPE(rows, local, dp)                                                                                         \
  "\"dtype\":\"f32\",\"shape\":[" rows ",3],\"local_shape\":[" local ",3],\"layout\":[[" dp "],[]]"
#define PROGRAM(symbol, rows, local, dp)                                                                               \
  "\"symbol\":\"" symbol "\",\"arguments\":[{\"name\":\"x\",\"role\":\"input\"," SHAPE(                                \
      rows, local,                                                                                                     \
      dp) "}],\"results\":[{\"name\":\"y\",\"role\":\"output\"," SHAPE(rows, local,                                    \
                                                                       dp) "}],\"arenas\":{\"device\":256,\"host_"     \
                                                                           "pinned\":0},\"streams\":[\"compute\"],"    \
                                                                           "\"events\":0,\"ops\":[{\"name\":"          \
                                                                           "\"scale\",\"label\":\"\",\"stream\":"      \
                                                                           "\"compute\",\"group\":null,\"flops\":1,"   \
                                                                           "\"bytes\":1,\"bytes_sent\":0,"             \
                                                                           "\"rows\":0}]}"
#define VARIANT(number, batch, schedule, rows, local)                                                                  \
  "{\"batch\":" batch ",\"sequence\":4,\"world\":2,\"parallel\":{},\"schedule\":\"" schedule                           \
  "\",\"mode\":\"train\",\"dtype\":\"f32\",\"groups\":[{\"name\":\"dp\",\"size\":2,\"stride\":1}],\"programs\":[{"     \
  "\"first_rank\":0,\"ranks\":2," PROGRAM("moeplan_v" number "_rank", rows, local,                                     \
                                          "\"dp\"") "],\"reference\":{" PROGRAM("moeplan_v" number "_reference", rows, \
                                                                                rows, "") "}"

const char moeplan_metadata[] = "{\"moeplan\":5,\"abi\":9,\"variants\":[" VARIANT(
    "0", "2", "s1", "16", "8") "," VARIANT("1", "2", "s2", "16", "8") "," VARIANT("2", "4", "s1", "32", "16") "]}";

static int32_t scale(moert_rank_t rank, int64_t rows) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, rows, 3), y = ARGUMENT(1, MOERT_F32, 2, rows, 3);
  return moert_scale(rank, 0, &x, &y, 2.0, 0);
}

int32_t moeplan_v0_rank(moert_rank_t rank) { return scale(rank, 8); }
int32_t moeplan_v0_reference(moert_rank_t rank) { return scale(rank, 16); }
int32_t moeplan_v1_rank(moert_rank_t rank) { return scale(rank, 8); }
int32_t moeplan_v1_reference(moert_rank_t rank) { return scale(rank, 16); }
int32_t moeplan_v2_rank(moert_rank_t rank) { return scale(rank, 16); }
int32_t moeplan_v2_reference(moert_rank_t rank) { return scale(rank, 32); }

#ifndef NO_CHOICE
int64_t moeplan_choose(int64_t batch, int64_t sequence) {
  if (sequence != 4)
    return -1;
#ifdef WRONG_CHOICE
  return 3;
#endif
  return batch == 2 ? 1 : batch == 4 ? 2 : -1;
}
#endif
