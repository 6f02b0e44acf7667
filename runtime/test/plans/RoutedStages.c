/* Four ranks, pp 2 (stride 2) times dp 2: two layers without experts, the first on ranks 0 and 1, the second on ranks 2
   and 3, for two micro-batches a and b [4,4], which are cut over dp and are their own logits, k = 2 of 4 experts. A
   stage takes one micro-batch after the other; the reference takes a micro-batch through both layers. */
#include "Plan.h"

/* clang-format off */
#define VALUE(name, role, local, layout)                                                                               \
  "{\"name\":\"" name "\",\"role\":\"" role "\",\"dtype\":\"f32\",\"shape\":[4,4],\"local_shape\":[" local             \
  ",4],\"layout\":[[" layout "],[]]}"
#define INPUTS(local, layout) "[" VALUE("a", "input", local, layout) "," VALUE("b", "input", local, layout) "]"
#define OUTPUTS(local, layout) "[" VALUE("y.a", "output", local, layout) "," VALUE("y.b", "output", local, layout) "]"
#define OP(name, label, group)                                                                                         \
  "{\"name\":\"" name "\",\"label\":\"" label "\",\"stream\":\"compute\",\"group\":" group ",\"flops\":1,\"bytes\":1," \
  "\"bytes_sent\":0,\"rows\":0}"
#define LAYER(label) OP("route", label, "null") "," OP("dispatch", label, "null") "," OP("combine", label, "null")
#define TRANSFER(name) OP(name, "", "\"pp\"")
#define REST "\"arenas\":{\"device\":8192,\"host_pinned\":0},\"streams\":[\"compute\"],\"events\":0,\"ops\":["

const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":9,\"world\":4,\"parallel\":{\"pp\":2},\"schedule\":\"hand\",\"mode\":\"train\","
    "\"dtype\":\"f32\",\"groups\":[{\"name\":\"dp\",\"size\":2,\"stride\":1},{\"name\":\"pp\",\"size\":2,\"stride\":2}],"
    "\"programs\":["
    "{\"first_rank\":0,\"ranks\":2,\"symbol\":\"moeplan_first\",\"arguments\":" INPUTS("2", "\"dp\"")
    ",\"results\":[]," REST LAYER("layer0") "," LAYER("layer0") "," TRANSFER("send") "," TRANSFER("send") "]},"
    "{\"first_rank\":2,\"ranks\":2,\"symbol\":\"moeplan_second\",\"arguments\":[],\"results\":" OUTPUTS("2", "\"dp\"")
    "," REST TRANSFER("receive") "," TRANSFER("receive") "," LAYER("layer1") "," LAYER("layer1") "]}],"
    "\"reference\":{\"symbol\":\"moeplan_reference\",\"arguments\":" INPUTS("4", "") ",\"results\":" OUTPUTS("4", "")
    "," REST LAYER("layer0") "," LAYER("layer1") "," LAYER("layer0") "," LAYER("layer1") "]}}";
/* clang-format on */

static const moert_group kPp = {"pp", 2, 2};

/* Ops `op` to `op` + 2. */
static int32_t layer(moert_rank_t rank, int64_t op, int64_t tokens, int64_t groups, const moert_buffer *in,
                     const moert_buffer *out) {
  const moert_buffer scores = DEVICE(0, MOERT_F32, 2, tokens, 4), experts = DEVICE(128, MOERT_I32, 2, tokens, 2);
  const moert_buffer slots = DEVICE(256, MOERT_I32, 2, tokens, 2), weights = DEVICE(512, MOERT_F32, 2, tokens, 2);
  const moert_buffer counts = DEVICE(768, MOERT_I32, 2, 1, 4), aux = DEVICE(1024, MOERT_F32, 0, 0);
  const moert_buffer rows = DEVICE(1280, MOERT_F32, 2, 2 * tokens, 4);
  TRY(moert_route(rank, op, in, NULL, &scores, &experts, &slots, &weights, &counts, &aux, MOERT_SOFTMAX, 0, 1, 1,
                  MOERT_GROUP_MAX, 0, groups, 1, 2 * tokens, -1, 2, 2, 1, 1.0, 0));
  TRY(moert_dispatch(rank, op + 1, in, &slots, NULL, NULL, &rows, 0));
  return moert_combine(rank, op + 2, &rows, &slots, &weights, NULL, out, 0);
}

int32_t moeplan_first(moert_rank_t rank) {
  const moert_buffer a = ARGUMENT(0, MOERT_F32, 2, 2, 4), b = ARGUMENT(1, MOERT_F32, 2, 2, 4);
  const moert_buffer ha = DEVICE(4096, MOERT_F32, 2, 2, 4), hb = DEVICE(4608, MOERT_F32, 2, 2, 4);
  TRY(layer(rank, 0, 2, 1, &a, &ha));
  TRY(layer(rank, 3, 2, 1, &b, &hb));
  TRY(moert_send(rank, 6, &ha, 1, &kPp, 0));
  return moert_send(rank, 7, &hb, 1, &kPp, 0);
}

int32_t moeplan_second(moert_rank_t rank) {
  const moert_buffer a = ARGUMENT(0, MOERT_F32, 2, 2, 4), b = ARGUMENT(1, MOERT_F32, 2, 2, 4);
  const moert_buffer ha = DEVICE(4096, MOERT_F32, 2, 2, 4), hb = DEVICE(4608, MOERT_F32, 2, 2, 4);
  TRY(moert_receive(rank, 0, &ha, 0, &kPp, 0));
  TRY(moert_receive(rank, 1, &hb, 0, &kPp, 0));
  TRY(layer(rank, 2, 2, 1, &ha, &a));
  return layer(rank, 5, 2, 1, &hb, &b);
}

int32_t moeplan_reference(moert_rank_t rank) {
  const moert_buffer a = ARGUMENT(0, MOERT_F32, 2, 4, 4), b = ARGUMENT(1, MOERT_F32, 2, 4, 4);
  const moert_buffer ya = ARGUMENT(2, MOERT_F32, 2, 4, 4), yb = ARGUMENT(3, MOERT_F32, 2, 4, 4);
  const moert_buffer h = DEVICE(4096, MOERT_F32, 2, 4, 4);
  TRY(layer(rank, 0, 4, 2, &a, &h));
  TRY(layer(rank, 3, 4, 2, &h, &ya));
  TRY(layer(rank, 6, 4, 2, &b, &h));
  return layer(rank, 9, 4, 2, &h, &yb);
}
