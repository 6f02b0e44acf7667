/* Four ranks, pp 2 (stride 2) times dp 2: h = x w0 on ranks 0 and 1, which send it in two halves, y = h w1 + x on ranks
   2 and 3, which send the gradient of h back. x [8,4] is divided over dp. All ranks, of different programs, sum `total`,
   the sum of both stages' gradients. A transfer between the stages is modelled to take 10 ms at its sender.
   The definitions below make variants of it. */
#include "Plan.h"

/* clang-format off */
#define VALUE(name, role, rows, local, layout)                                                                         \
  "{\"name\":\"" name "\",\"role\":\"" role "\",\"dtype\":\"f32\",\"shape\":[" rows ",4],\"local_shape\":[" local      \
  ",4],\"layout\":[[" layout "],[]]}"
#define MATRIX(name, role) VALUE(name, role, "4", "4", "")
#define OP(name, stream, group, flops, sent, more)                                                                     \
  "{\"name\":\"" name "\",\"label\":\"layer0\",\"stream\":\"" stream "\",\"group\":" group ",\"flops\":" flops         \
  ",\"bytes\":64,\"bytes_sent\":" sent ",\"rows\":0" more "}"
#define SUM(name) OP("all_reduce", "comm", name, "0", "64", "")

const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":9,\"cluster\":\"test-cluster\",\"world\":4,\"parallel\":{\"pp\":2},\"schedule\":\"hand\","
    "\"mode\":\"train\",\"dtype\":\"f32\",\"groups\":[{\"name\":\"dp\",\"size\":2,\"stride\":1},{\"name\":\"pp\","
    "\"size\":2,\"stride\":2},{\"name\":\"all\",\"size\":4,\"stride\":1}],"
    "\"programs\":["
    "{\"first_rank\":0,\"ranks\":2,\"symbol\":\"moeplan_first\",\"arguments\":["
    VALUE("x", "input", "8", "4", "\"dp\"") "," MATRIX("w0", "parameter") "],\"results\":["
    MATRIX("grad.w0", "gradient") "," MATRIX("total", "gradient") "],"
    "\"arenas\":{\"device\":256,\"host_pinned\":0},\"streams\":[\"compute\",\"comm\"],\"events\":3,\"ops\":["
    OP("matmul", "compute", "null", "128", "0", "") ","
    OP("send", "comm", "\"pp\"", "0", "32", ",\"seconds\":0.01") ","
    OP("receive", "comm", "\"pp\"", "0", "0", "") ","
    OP("matmul", "compute", "null", "128", "0", "") "," SUM("\"dp\"") "," SUM("\"all\"") "]},"
    "{\"first_rank\":2,\"ranks\":2,\"symbol\":\"moeplan_second\",\"arguments\":["
    VALUE("x", "input", "8", "4", "\"dp\"") "," MATRIX("w1", "parameter") ","
    VALUE("cotangent.y", "cotangent", "8", "4", "\"dp\"") "],\"results\":["
    VALUE("y", "output", "8", "4", "\"dp\"") "," MATRIX("grad.w1", "gradient") "," MATRIX("total", "gradient") "],"
    "\"arenas\":{\"device\":512,\"host_pinned\":0},\"streams\":[\"link\",\"compute\",\"comm\"],\"events\":4,\"ops\":["
    OP("receive", "link", "\"pp\"", "0", "0", "") ","
    OP("matmul", "compute", "null", "128", "0", "") ","
    OP("add", "compute", "null", "16", "0", "") ","
    OP("matmul", "compute", "null", "128", "0", "") ","
    OP("send", "link", "\"pp\"", "0", "64", ",\"seconds\":0.01") ","
    OP("matmul", "compute", "null", "128", "0", "") "," SUM("\"dp\"") "," SUM("\"all\"") "]}],"
    "\"reference\":{\"symbol\":\"moeplan_reference\",\"arguments\":["
    VALUE("x", "input", "8", "8", "") "," MATRIX("w0", "parameter") "," MATRIX("w1", "parameter") ","
    VALUE("cotangent.y", "cotangent", "8", "8", "") "],\"results\":["
    VALUE("y", "output", "8", "8", "") "," MATRIX("grad.w0", "gradient") "," MATRIX("grad.w1", "gradient") ","
    MATRIX("total", "gradient") "],"
    "\"arenas\":{\"device\":1024,\"host_pinned\":0},\"streams\":[\"compute\"],\"events\":0,\"ops\":["
    OP("matmul", "compute", "null", "256", "0", "") "," OP("add", "compute", "null", "32", "0", "") "]}}";
/* clang-format on */

static const moert_group kDp = {"dp", 2, 1}, kPp = {"pp", 2, 2}, kAll = {"all", 4, 1};

#ifdef BAD_PEER
#define PEER BAD_PEER
#else
#define PEER 1
#endif

int32_t moeplan_first(moert_rank_t rank) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, 4, 4), w0 = ARGUMENT(1, MOERT_F32, 2, 4, 4);
  const moert_buffer grad = ARGUMENT(2, MOERT_F32, 2, 4, 4), total = ARGUMENT(3, MOERT_F32, 2, 4, 4);
  const moert_buffer h = DEVICE(0, MOERT_F32, 2, 4, 4), gradH = DEVICE(64, MOERT_F32, 2, 4, 4);
  const moert_buffer low = DEVICE(0, MOERT_F32, 2, 2, 4), high = DEVICE(32, MOERT_F32, 2, 2, 4);
  const moert_buffer part = DEVICE(128, MOERT_F32, 2, 4, 4);
  TRY(moert_matmul(rank, 0, &x, &w0, &h, 0, 0, 0));
  TRY(moert_record(rank, 0, 0));
  TRY(moert_wait(rank, 0, 1));
  TRY(moert_send(rank, 1, &low, PEER, &kPp, 1));
#ifdef HANG
  (void)high;
#else
  TRY(moert_send(rank, 1, &high, PEER, &kPp, 1));
#endif
  TRY(moert_receive(rank, 2, &gradH, 1, &kPp, 1));
  TRY(moert_record(rank, 1, 1));
  TRY(moert_wait(rank, 1, 0));
  TRY(moert_matmul(rank, 3, &x, &gradH, &part, 1, 0, 0));
  TRY(moert_record(rank, 2, 0));
  TRY(moert_wait(rank, 2, 1));
  TRY(moert_all_reduce(rank, 4, &part, NULL, &grad, &kDp, 1));
  return moert_all_reduce(rank, 5, &part, NULL, &total, &kAll, 1);
}

int32_t moeplan_second(moert_rank_t rank) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, 4, 4), w1 = ARGUMENT(1, MOERT_F32, 2, 4, 4);
  const moert_buffer cotangent = ARGUMENT(2, MOERT_F32, 2, 4, 4), y = ARGUMENT(3, MOERT_F32, 2, 4, 4);
  const moert_buffer grad = ARGUMENT(4, MOERT_F32, 2, 4, 4), total = ARGUMENT(5, MOERT_F32, 2, 4, 4);
  const moert_buffer h = DEVICE(0, MOERT_F32, 2, 4, 4), product = DEVICE(64, MOERT_F32, 2, 4, 4);
  const moert_buffer low = DEVICE(0, MOERT_F32, 2, 2, 4);
#ifdef MISMATCH
  const moert_buffer high = DEVICE(32, MOERT_I32, 2, 1, 4);
#else
  const moert_buffer high = DEVICE(32, MOERT_F32, 2, 2, 4);
#endif
  const moert_buffer gradH = DEVICE(128, MOERT_F32, 2, 4, 4), part = DEVICE(192, MOERT_F32, 2, 4, 4);
  TRY(moert_receive(rank, 0, &low, 0, &kPp, 0));
  TRY(moert_receive(rank, 0, &high, 0, &kPp, 0));
  TRY(moert_record(rank, 3, 0));
  TRY(moert_wait(rank, 3, 1));
  TRY(moert_matmul(rank, 1, &h, &w1, &product, 0, 0, 1));
  TRY(moert_add(rank, 2, &product, &x, &y, 1));
  TRY(moert_matmul(rank, 3, &cotangent, &w1, &gradH, 0, 1, 1));
  TRY(moert_record(rank, 1, 1));
  TRY(moert_wait(rank, 1, 0));
  TRY(moert_send(rank, 4, &gradH, 0, &kPp, 0));
  TRY(moert_matmul(rank, 5, &h, &cotangent, &part, 1, 0, 1));
  TRY(moert_record(rank, 2, 1));
  TRY(moert_wait(rank, 2, 2));
  TRY(moert_all_reduce(rank, 6, &part, NULL, &grad, &kDp, 2));
  return moert_all_reduce(rank, 7, &part, NULL, &total, &kAll, 2);
}

int32_t moeplan_reference(moert_rank_t rank) {
  const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, 8, 4), cotangent = ARGUMENT(3, MOERT_F32, 2, 8, 4);
  const moert_buffer w0 = ARGUMENT(1, MOERT_F32, 2, 4, 4), w1 = ARGUMENT(2, MOERT_F32, 2, 4, 4);
  const moert_buffer y = ARGUMENT(4, MOERT_F32, 2, 8, 4), total = ARGUMENT(7, MOERT_F32, 2, 4, 4);
  const moert_buffer grad0 = ARGUMENT(5, MOERT_F32, 2, 4, 4), grad1 = ARGUMENT(6, MOERT_F32, 2, 4, 4);
  const moert_buffer h = DEVICE(0, MOERT_F32, 2, 8, 4), product = DEVICE(128, MOERT_F32, 2, 8, 4);
  const moert_buffer gradH = DEVICE(256, MOERT_F32, 2, 8, 4);
  TRY(moert_matmul(rank, 0, &x, &w0, &h, 0, 0, 0));
  TRY(moert_matmul(rank, 0, &h, &w1, &product, 0, 0, 0));
  TRY(moert_add(rank, 1, &product, &x, &y, 0));
  TRY(moert_matmul(rank, 0, &cotangent, &w1, &gradH, 0, 1, 0));
  TRY(moert_matmul(rank, 0, &x, &gradH, &grad0, 1, 0, 0));
  TRY(moert_matmul(rank, 0, &h, &cotangent, &grad1, 1, 0, 0));
  return moert_add(rank, 1, &grad0, &grad1, &total, 0);
}
