/* Four ranks, dp 2 (stride 2) times mp 2: x [8,4] is cut over dp, w [4,6] in columns over mp; y = 2 (x w) is gathered over
   mp, g = sum of y's parts over dp. Two streams and an event. The definitions below make
   variants of it. */
#include "Plan.h"

#ifndef ABI
#define ABI "9"
#endif
#ifdef WRONG_FACTOR
#define FACTOR 2.5
#else
#define FACTOR 2.0
#endif
#ifdef MANY_RANKS
#define WORLD "64"
#define DP "32"
#define DP_SIZE 32
#define ROWS "128"
#define LOCAL_ROWS 4
#define ALL_ROWS 128
#else
#define WORLD "4"
#define DP "2"
#define DP_SIZE 2
#define ROWS "8"
#define LOCAL_ROWS 4
#define ALL_ROWS 8
#endif
#ifdef DROPOUT
#define SECOND "dropout"
#elif defined(WIDE_INDEX)
#define SECOND "index_affine"
#else
#define SECOND "scale"
#endif
#ifdef HUGE_ARENA
#define ARENA "1000000000000000"
#else
#define ARENA "4096"
#endif

#define VALUES(local, dp, local_n, mp)                                                                                 \
  "\"arguments\": ["                                                                                                   \
  "{\"name\":\"x\",\"role\":\"input\",\"dtype\":\"f32\",\"shape\":[" ROWS ",4],\"local_shape\":[" local                \
  ",4],\"layout\":[[" dp "],[]]},"                                                                                     \
  "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4,6],\"local_shape\":[4," local_n               \
  "],\"layout\":[[],[" mp "]]}],"                                                                                      \
  "\"results\": ["                                                                                                     \
  "{\"name\":\"y\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[" ROWS ",6],\"local_shape\":[" local               \
  ",6],\"layout\":[[" dp "],[]]},"                                                                                     \
  "{\"name\":\"g\",\"role\":\"gradient\",\"dtype\":\"f32\",\"shape\":[4,6],\"local_shape\":[4,6],"                     \
  "\"layout\":[[],[]]}],"

#define OP(name, stream, group, flops, bytes, sent)                                                                    \
  "{\"name\":\"" name "\",\"label\":\"layer0\",\"stream\":\"" stream "\",\"group\":" group ",\"flops\":" flops         \
  ",\"bytes\":" bytes ",\"bytes_sent\":" sent ",\"rows\":0}"

#ifdef NO_METADATA
#define moeplan_metadata other_symbol
#endif
const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":" ABI ",\"world\":" WORLD ",\"parallel\":{},\"schedule\":\"hand\",\"mode\":\"train\","
    "\"dtype\":\"f32\",\"groups\":[{\"name\":\"mp\",\"size\":2,\"stride\":1},{\"name\":\"dp\",\"size\":" DP
    ",\"stride\":2}],"
    "\"programs\":[{\"first_rank\":0,\"ranks\":" WORLD ",\"symbol\":\"moeplan_rank\","
    VALUES("4", "\"dp\"", "3", "\"mp\"")
    "\"arenas\":{\"device\":" ARENA ",\"host_pinned\":0},\"streams\":[\"compute\",\"comm\"],\"events\":2,\"ops\":["
    OP("matmul", "compute", "null", "96", "144", "0") ","
    OP(SECOND, "compute", "null", "12", "96", "0") ","
    OP("all_gather", "comm", "\"mp\"", "0", "0", "48") ","
    OP("all_reduce", "comm", "\"dp\"", "0", "0", "96") ","
    OP("assume_replicated", "comm", "\"mp\"", "0", "0", "0") "]}],"
    "\"reference\":{\"symbol\":\"moeplan_reference\"," VALUES(ROWS, "", "6", "")
    "\"arenas\":{\"device\":65536,\"host_pinned\":0},\"streams\":[\"compute\"],\"events\":0,\"ops\":["
    OP("matmul", "compute", "null", "384", "480", "0") ","
    OP("scale", "compute", "null", "48", "384", "0") ","
    OP("local_reduce", "compute", "null", "24", "288", "0") "]}}";

static const moert_group kMp = {"mp", 2, 1};
static const moert_group kDp = {"dp", DP_SIZE, 2};

int32_t moeplan_rank(moert_rank_t rank) {
  static const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, LOCAL_ROWS, 4);
  static const moert_buffer w = ARGUMENT(1, MOERT_F32, 2, 4, 3);
  static const moert_buffer y = ARGUMENT(2, MOERT_F32, 2, LOCAL_ROWS, 6);
  static const moert_buffer g = ARGUMENT(3, MOERT_F32, 2, LOCAL_ROWS, 6);
  static const moert_buffer part = DEVICE(0, MOERT_F32, 2, LOCAL_ROWS, 3);
  static const moert_buffer scaled = DEVICE(256, MOERT_F32, 2, LOCAL_ROWS, 3);
#ifdef WRONG_BUFFER
  static const moert_buffer outside = DEVICE(4080, MOERT_F32, 2, LOCAL_ROWS, 3);
  TRY(moert_matmul(rank, 0, &x, &w, &outside, 0, 0, 0));
#else
  TRY(moert_matmul(rank, 0, &x, &w, &part, 0, 0, 0));
#endif
#ifdef DROPOUT
  static const moert_buffer step = DEVICE(512, MOERT_I32, 0, 0);
  TRY(moert_dropout(rank, 1, &part, &step, &scaled, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0.0, 0));
#elif defined(WIDE_INDEX)
  /* The index is never written. For any value but 0 the result does not fit. */
  static const moert_buffer index = DEVICE(512, MOERT_I32, 0, 0);
  TRY(moert_index_affine(rank, 1, &index, &index, INT64_C(1) << 40, 0, 0));
#else
  TRY(moert_scale(rank, 1, &part, &scaled, FACTOR, 0));
#endif
  TRY(moert_record(rank, 0, 0));
  TRY(moert_wait(rank, 0, 1));
#ifdef HANG
  /* Only the rank that comes first issues its collectives. */
  static int calls = 0;
  if (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) > 0)
    return MOERT_OK;
#endif
  TRY(moert_all_gather(rank, 2, &scaled, &y, 1, &kMp, 1));
#ifdef NOT_REPLICATED
  TRY(moert_assume_replicated(rank, 4, &scaled, &kMp, 1));
#else
  TRY(moert_assume_replicated(rank, 4, &y, &kMp, 1));
#endif
  TRY(moert_all_reduce(rank, 3, &y, NULL, &g, &kDp, 1));
  return MOERT_OK;
}

int32_t moeplan_reference(moert_rank_t rank) {
  static const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, ALL_ROWS, 4);
  static const moert_buffer w = ARGUMENT(1, MOERT_F32, 2, 4, 6);
  static const moert_buffer y = ARGUMENT(2, MOERT_F32, 2, ALL_ROWS, 6);
  static const moert_buffer g = ARGUMENT(3, MOERT_F32, 2, LOCAL_ROWS, 6);
  static const moert_buffer product = DEVICE(0, MOERT_F32, 2, ALL_ROWS, 6);
  TRY(moert_matmul(rank, 0, &x, &w, &product, 0, 0, 0));
  TRY(moert_scale(rank, 1, &product, &y, 2.0, 0));
  TRY(moert_local_reduce(rank, 2, &y, &g, 0, 1, 0));
  return MOERT_OK;
}
