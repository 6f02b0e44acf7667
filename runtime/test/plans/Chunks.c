/* Two ranks, dp 2: y = 2 x by way of the host's memory, for batches of 2 and 4 sequences of 4 tokens, each in one and
   in two chunks. The offload of a chunk, whatever its size, is modelled to take 10 ms. */
#include "Plan.h"

#define SHAPE(rows, local, dp)                                                                                         \
  "\"dtype\":\"f32\",\"shape\":[" rows ",3],\"local_shape\":[" local ",3],\"layout\":[[" dp "],[]]"
#define OP(name, stream, more)                                                                                         \
  "{\"name\":\"" name "\",\"label\":\"\",\"stream\":\"" stream "\",\"group\":null,\"flops\":1,\"bytes\":1,"            \
  "\"bytes_sent\":0,\"rows\":0" more "}"
#ifdef UNTIMED
#define SECONDS ""
#else
#define SECONDS ",\"seconds\":0.01"
#endif
#define PROGRAM(symbol, rows, local, dp)                                                                               \
  "\"symbol\":\"" symbol "\",\"arguments\":[{\"name\":\"x\",\"role\":\"input\"," SHAPE(                                \
      rows, local,                                                                                                     \
      dp) "}],\"results\":[{\"name\":\"y\",\"role\":\"output\"," SHAPE(rows, local,                                    \
                                                                       dp) "}],\"arenas\":{\"device\":512,"            \
                                                                           "\"host_pinned\":256},\"streams\":["        \
                                                                           "\"compute\",\"copy\"],\"events\":"         \
                                                                           "2,\"ops\":[" OP(                           \
                                                                               "scale", "compute",                     \
                                                                               "") "," OP("offloa"                     \
                                                                                          "d",                         \
                                                                                          "copy",                      \
                                                                                          SECONDS) "," OP("fetch",     \
                                                                                                          "copy",      \
                                                                                                          "") "]}"
#define VARIANT(number, batch, chunks, rows, local)                                                                    \
  "{\"batch\":" batch ",\"sequence\":4,\"chunks\":" chunks ",\"world\":2,\"parallel\":{},\"schedule\":\"s\","          \
  "\"mode\":\"train\",\"dtype\":\"f32\",\"groups\":[{\"name\":\"dp\",\"size\":2,\"stride\":1}],\"programs\":[{"        \
  "\"first_rank\":0,\"ranks\":2," PROGRAM("moeplan_v" number "_rank", rows, local,                                     \
                                          "\"dp\"") "],\"reference\":{" PROGRAM("moeplan_v" number "_reference", rows, \
                                                                                rows, "") "}"

const char moeplan_metadata[] = "{\"moeplan\":5,\"abi\":9,\"cluster\":\"test-cluster\",\"variants\":[" VARIANT(
    "0", "2", "1", "16", "8") "," VARIANT("1", "2", "2", "16", "8") "," VARIANT("2", "4", "1", "32",
                                                                                "16") "," VARIANT("3", "4", "2", "32",
                                                                                                  "16") "]}";

static int32_t run(moert_rank_t rank, int64_t rows, int64_t chunks) {
  const int64_t part = rows / chunks, bytes = part * 12;
  for (int64_t c = 0; c < chunks; ++c) {
    const moert_buffer x = {MOERT_SPACE_ARGUMENT, MOERT_F32, 0, 2, {part, 3}, 1, 0, 0, c * bytes};
    const moert_buffer y = {MOERT_SPACE_ARGUMENT, MOERT_F32, 1, 2, {part, 3}, 1, 0, 0, c * bytes};
    const moert_buffer scaled = DEVICE(c * bytes, MOERT_F32, 2, part, 3);
    const moert_buffer kept = {MOERT_SPACE_HOST_PINNED, MOERT_F32, c * bytes, 2, {part, 3}, 0, 0, 0, 0};
    TRY(moert_scale(rank, 0, &x, &scaled, 2.0, 0));
    TRY(moert_record(rank, c, 0));
    TRY(moert_wait(rank, c, 1));
    TRY(moert_copy(rank, 1, &scaled, &kept, 1));
    TRY(moert_copy(rank, 2, &kept, &y, 1));
  }
  return MOERT_OK;
}

static int32_t reference(moert_rank_t rank, int64_t rows) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, rows, 3), y = ARGUMENT(1, MOERT_F32, 2, rows, 3);
  return moert_scale(rank, 0, &x, &y, 2.0, 0);
}

int32_t moeplan_v0_rank(moert_rank_t rank) { return run(rank, 8, 1); }
int32_t moeplan_v1_rank(moert_rank_t rank) { return run(rank, 8, 2); }
int32_t moeplan_v2_rank(moert_rank_t rank) { return run(rank, 16, 1); }
int32_t moeplan_v3_rank(moert_rank_t rank) { return run(rank, 16, 2); }
int32_t moeplan_v0_reference(moert_rank_t rank) { return reference(rank, 16); }
int32_t moeplan_v1_reference(moert_rank_t rank) { return reference(rank, 16); }
int32_t moeplan_v2_reference(moert_rank_t rank) { return reference(rank, 32); }
int32_t moeplan_v3_reference(moert_rank_t rank) { return reference(rank, 32); }

int64_t moeplan_choose(int64_t batch, int64_t sequence) {
  return sequence != 4 ? -1 : batch == 2 ? 1 : batch == 4 ? 2 : -1;
}
