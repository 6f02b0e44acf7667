/* Four ranks, dp 2 (stride 2) times mp 2: two layers without experts. x [8,4] is its own logits, k = 2 of 4 experts;
   each layer dispatches and combines. x is divided over dp, so that two ranks route the same four tokens, and with
   SHARES also over mp. Results are y, the experts of both layers, and a gradient of the first one's logits. The
   definitions below make variants of it. */
#include "Plan.h"

#ifdef SHARES
#define LAYOUT "\"dp\",\"mp\""
#define SHARDS 4
#define TOKENS 2
#define LOCAL "2"
#else
#define LAYOUT "\"dp\""
#define SHARDS 2
#define TOKENS 4
#define LOCAL "4"
#endif
#ifndef CAPACITY
#define CAPACITY 0
#endif
#ifndef CHUNKS
#define CHUNKS 1
#endif
#ifndef LEAVE
#define LEAVE -1
#endif

#define SHAPE(columns, local, layout)                                                                                  \
  "\"shape\":[8," columns "],\"local_shape\":[" local "," columns "],\"layout\":[[" layout "],[]]}"
#define OP(name)                                                                                                       \
  "{\"name\":\"" name "\",\"label\":\"\",\"stream\":\"compute\",\"group\":null,\"flops\":1,\"bytes\":1,"               \
  "\"bytes_sent\":0,\"rows\":0}"
#define RESULT(name, role, dtype, columns, local, layout)                                                              \
  "{\"name\":\"" name "\",\"role\":\"" role "\",\"dtype\":\"" dtype "\"," SHAPE(columns, local, layout)
#define PROGRAM(symbol, local, layout)                                                                                                                 \
  "\"symbol\":\"" symbol "\",\"arguments\":[{\"name\":\"x\",\"role\":\"input\",\"dtype\":\"f32\"," SHAPE("4", local, layout) "],\"results\":[" RESULT( \
      "y", "output", "f32", "4", local,                                                                                                                \
      layout) "," RESULT("experts0", "output", "i32", "2", local,                                                                                      \
                         layout) "," RESULT("experts1", "output", "i32", "2", local,                                                                   \
                                            layout) "," RESULT("grad.x", "gradient", "f32", "4", local,                                                \
                                                               layout) "],\"arenas\":{\"device\":8192,\"host_"                                         \
                                                                       "pinned\":0},"                                                                  \
                                                                       "\"streams\":[\"compute\"],\"events\":0,"                                       \
                                                                       "\"ops\":[" OP("route") "," OP("dispatch") "," OP("combine") "," OP(            \
                                                                           "route") "," OP("dispatch") "," OP("combin"                                 \
                                                                                                              "e") "," OP("route_grad") "]}"
#ifdef NO_REFERENCE
#define REFERENCE "]"
#else
#define REFERENCE "],\"reference\":{" PROGRAM("moeplan_reference", "8", "")
#endif
#define REST                                                                                                           \
  "\"world\":4,\"parallel\":{},\"schedule\":\"hand\",\"mode\":\"train\",\"dtype\":\"f32\",\"groups\":[{\"name\":"      \
  "\"mp\",\"size\":2,\"stride\":1},{\"name\":\"dp\",\"size\":2,\"stride\":2}],\"programs\":[{\"first_rank\":0,"        \
  "\"ranks\":4," PROGRAM("moeplan_rank", LOCAL, LAYOUT) REFERENCE

#ifdef VARIANTS
const char moeplan_metadata[] = "{\"moeplan\":5,\"abi\":9,\"variants\":[{\"batch\":1,\"sequence\":4," REST
                                "},{\"batch\":2,\"sequence\":4," REST "}]}";
int64_t moeplan_choose(int64_t batch, int64_t sequence) { return sequence == 4 && batch <= 2 ? batch - 1 : -1; }
#else
const char moeplan_metadata[] = "{\"moeplan\":5,\"abi\":9," REST "}";
#endif

static int32_t route(moert_rank_t rank, int64_t op, int64_t tokens, int64_t groups, int64_t chunks, int64_t base,
                     const moert_buffer *logits, const moert_buffer *experts) {
  const moert_buffer scores = DEVICE(base, MOERT_F32, 2, tokens, 4);
  const moert_buffer slots = DEVICE(base + 256, MOERT_I32, 2, tokens, 2);
  const moert_buffer weights = DEVICE(base + 512, MOERT_F32, 2, tokens, 2);
  const moert_buffer counts = DEVICE(base + 768, MOERT_I32, 2, chunks, 4);
  const moert_buffer aux = DEVICE(base + 1024, MOERT_F32, 0, 0);
  return moert_route(rank, op, logits, NULL, &scores, experts, &slots, &weights, &counts, &aux, MOERT_SOFTMAX, 1, 1, 1,
                     MOERT_GROUP_MAX, CAPACITY, groups, chunks, CAPACITY ? 0 : 2 * tokens / chunks, LEAVE, 2, 2, 1, 1.0,
                     0);
}

/* Ops `op` to `op` + 2, in 2048 bytes of the arena from `base` on. */
static int32_t layer(moert_rank_t rank, int64_t op, int64_t tokens, int64_t groups, int64_t chunks, int64_t base,
                     const moert_buffer *in, const moert_buffer *experts, const moert_buffer *out) {
  const moert_buffer slots = DEVICE(base + 256, MOERT_I32, 2, tokens, 2);
  const moert_buffer weights = DEVICE(base + 512, MOERT_F32, 2, tokens, 2);
#if CAPACITY
  const moert_buffer rows = DEVICE(base + 1280, MOERT_F32, 3, 4, groups * CAPACITY, 4);
#else
  const moert_buffer rows = DEVICE(base + 1280, MOERT_F32, 2, 2 * tokens, 4);
#endif
  TRY(route(rank, op, tokens, groups, chunks, base, in, experts));
  TRY(moert_dispatch(rank, op + 1, in, &slots, NULL, NULL, &rows, 0));
  return moert_combine(rank, op + 2, &rows, &slots, &weights, NULL, out, 0);
}

static int32_t run(moert_rank_t rank, int64_t tokens, int64_t groups, int64_t chunks) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, tokens, 4), y = ARGUMENT(1, MOERT_F32, 2, tokens, 4);
  const moert_buffer experts0 = ARGUMENT(2, MOERT_I32, 2, tokens, 2), experts1 = ARGUMENT(3, MOERT_I32, 2, tokens, 2);
  const moert_buffer grad = ARGUMENT(4, MOERT_F32, 2, tokens, 4), between = DEVICE(4096, MOERT_F32, 2, tokens, 4);
  const moert_buffer scores = DEVICE(0, MOERT_F32, 2, tokens, 4), weights = DEVICE(512, MOERT_F32, 2, tokens, 2);
  TRY(layer(rank, 0, tokens, groups, chunks, 0, &x, &experts0, &between));
  TRY(layer(rank, 3, tokens, groups, chunks, 2048, &between, &experts1, &y));
  return moert_route_grad(rank, 6, &scores, &experts0, &weights, NULL, &grad, MOERT_SOFTMAX, 1, groups, 1.0, 0);
}

int32_t moeplan_rank(moert_rank_t rank) { return run(rank, TOKENS, 1, CHUNKS); }

#ifdef UNEVEN
/* Both layers route UNEVEN tokens, which may not be a multiple of a rank's. */
int32_t moeplan_reference(moert_rank_t rank) {
  const moert_buffer logits = DEVICE(4096, MOERT_F32, 2, UNEVEN, 4), experts = DEVICE(6144, MOERT_I32, 2, UNEVEN, 2);
  TRY(route(rank, 0, UNEVEN, 1, 1, 0, &logits, &experts));
  return route(rank, 3, UNEVEN, 1, 1, 2048, &logits, &experts);
}
#elif defined(ONE_LAYER)
int32_t moeplan_reference(moert_rank_t rank) {
  const moert_buffer logits = DEVICE(4096, MOERT_F32, 2, 8, 4), experts = DEVICE(6144, MOERT_I32, 2, 8, 2);
  return route(rank, 0, 8, SHARDS, 1, 0, &logits, &experts);
}
#else
int32_t moeplan_reference(moert_rank_t rank) { return run(rank, 8, SHARDS, 1); }
#endif
