/* Two stages of two ranks each, dp 2: a plan that --train can train. The first stage sends w0 (its own parameter)
   and counts the step; the second learns w1, w1 += learning_rate w0, as each step does in both stages with `shared`.
   The loss is w1's square, of which the first stage has a metric. */
#include "Plan.h"

#ifdef LARGE
#define COLUMNS 1500000
#define ARENA "12000256"
#else
#define COLUMNS 4
#define ARENA "256"
#endif
/* Place of a weight's change in the arena, behind the weight. */
#define CHANGE (COLUMNS / 16 * 64 + 64)
#define TEXT_OF(number) TEXT_OF_(number)
#define TEXT_OF_(number) #number

/* clang-format off */
#define VALUE(name, role, dtype, shape, local, layout, more)                                                           \
  "{\"name\":\"" name "\",\"role\":\"" role "\",\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"local_shape\":[" local \
  "],\"layout\":[" layout "]" more "}"
#define TEXT(name, local, layout) VALUE(name, "input", "i32", "8", local, "[" layout "]", ",\"below\":256,\"sequence\":2")
#define RATE VALUE("learning_rate", "rate", "f32", "1,1", "1,1", "[],[]", "")
#define STEP VALUE("step", "step", "i32", "", "", "", ",\"updated\":true")
#define SHAPE "1," TEXT_OF(COLUMNS)
#define WEIGHT(name) VALUE(name, "parameter", "f32", SHAPE, SHAPE, "[],[]", ",\"updated\":true,\"fill\":2")
#define METRIC VALUE("cross_entropy", "metric", "f32", "", "", "", "")
#define LOSS VALUE("loss", "loss", "f32", "", "", "", "")
#define OP(name, group)                                                                                                \
  "{\"name\":\"" name "\",\"label\":\"\",\"stream\":\"compute\",\"group\":" group ",\"flops\":1,\"bytes\":1,"          \
  "\"bytes_sent\":0,\"rows\":0}"
#define KERNEL(name) OP(name, "null")
#define REST "\"arenas\":{\"device\":" ARENA ",\"host_pinned\":0},\"streams\":[\"compute\"],\"events\":0,\"ops\":["

const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":9,\"world\":4,\"parallel\":{\"pp\":2},\"schedule\":\"hand\",\"mode\":\"train\","
    "\"dtype\":\"f32\",\"groups\":[{\"name\":\"dp\",\"size\":2,\"stride\":1},{\"name\":\"pp\",\"size\":2,\"stride\":2}],"
    "\"programs\":["
    "{\"first_rank\":0,\"ranks\":2,\"symbol\":\"moeplan_first\",\"arguments\":["
    TEXT("tokens", "4", "\"dp\"") "," STEP "," RATE "," WEIGHT("w0") "," WEIGHT("shared") "],\"results\":[" METRIC "],"
    REST KERNEL("index_affine") "," OP("send", "\"pp\"") "," KERNEL("matmul") "," KERNEL("add") ","
    KERNEL("sum_squares") "]},"
    "{\"first_rank\":2,\"ranks\":2,\"symbol\":\"moeplan_second\",\"arguments\":["
    TEXT("labels", "4", "\"dp\"") "," RATE "," WEIGHT("w1") "," WEIGHT("shared") "],\"results\":[" LOSS "],"
    REST OP("receive", "\"pp\"") "," KERNEL("matmul") "," KERNEL("add") "," KERNEL("sum_squares") "]}],"
    "\"reference\":{\"symbol\":\"moeplan_reference\",\"arguments\":["
    TEXT("tokens", "8", "") "," TEXT("labels", "8", "") "," STEP "," RATE "," WEIGHT("w0") "," WEIGHT("w1") ","
    WEIGHT("shared") "],\"results\":[" LOSS "," METRIC "],"
    REST KERNEL("index_affine") "," KERNEL("matmul") "," KERNEL("add") "," KERNEL("sum_squares") "]}}";
/* clang-format on */

static const moert_group kPp = {"pp", 2, 2};

/* value += rate by; ops `matmul` and the next one. */
static int32_t learn(moert_rank_t rank, int64_t matmul, const moert_buffer *rate, const moert_buffer *by,
                     const moert_buffer *value) {
  const moert_buffer change = DEVICE(CHANGE, MOERT_F32, 2, 1, COLUMNS);
  TRY(moert_matmul(rank, matmul, rate, by, &change, 0, 0, 0));
  return moert_add(rank, matmul + 1, value, &change, value, 0);
}

int32_t moeplan_first(moert_rank_t rank) {
  const moert_buffer step = ARGUMENT(1, MOERT_I32, 0, 0), rate = ARGUMENT(2, MOERT_F32, 2, 1, 1);
  const moert_buffer w0 = ARGUMENT(3, MOERT_F32, 2, 1, COLUMNS), shared = ARGUMENT(4, MOERT_F32, 2, 1, COLUMNS);
  const moert_buffer metric = ARGUMENT(5, MOERT_F32, 0, 0);
  TRY(moert_index_affine(rank, 0, &step, &step, 1, 1, 0));
  TRY(moert_send(rank, 1, &w0, 1, &kPp, 0));
  TRY(learn(rank, 2, &rate, &w0, &shared));
  return moert_sum_squares(rank, 4, &shared, &metric, 0);
}

int32_t moeplan_second(moert_rank_t rank) {
  const moert_buffer rate = ARGUMENT(1, MOERT_F32, 2, 1, 1), w1 = ARGUMENT(2, MOERT_F32, 2, 1, COLUMNS);
  const moert_buffer shared = ARGUMENT(3, MOERT_F32, 2, 1, COLUMNS), loss = ARGUMENT(4, MOERT_F32, 0, 0);
  const moert_buffer w0 = DEVICE(0, MOERT_F32, 2, 1, COLUMNS);
  TRY(moert_receive(rank, 0, &w0, 0, &kPp, 0));
  TRY(learn(rank, 1, &rate, &w0, &w1));
  TRY(learn(rank, 1, &rate, &w0, &shared));
  return moert_sum_squares(rank, 3, &w1, &loss, 0);
}

int32_t moeplan_reference(moert_rank_t rank) {
  const moert_buffer step = ARGUMENT(2, MOERT_I32, 0, 0), rate = ARGUMENT(3, MOERT_F32, 2, 1, 1);
  const moert_buffer w0 = ARGUMENT(4, MOERT_F32, 2, 1, COLUMNS), w1 = ARGUMENT(5, MOERT_F32, 2, 1, COLUMNS);
  const moert_buffer shared = ARGUMENT(6, MOERT_F32, 2, 1, COLUMNS), loss = ARGUMENT(7, MOERT_F32, 0, 0);
  const moert_buffer metric = ARGUMENT(8, MOERT_F32, 0, 0);
  TRY(moert_index_affine(rank, 0, &step, &step, 1, 1, 0));
  TRY(learn(rank, 1, &rate, &w0, &w1));
  TRY(learn(rank, 1, &rate, &w0, &shared));
  TRY(moert_sum_squares(rank, 3, &w1, &loss, 0));
  return moert_sum_squares(rank, 3, &shared, &metric, 0);
}
