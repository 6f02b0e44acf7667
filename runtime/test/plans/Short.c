/* Four ranks that send each other two rows each. Rank 1 sends rank 0 one row less than rank 0 expects, with LONG one
   row more, and with ROWS=2 as many. With RETURN the rows come back from the experts. With CROWDED, all ranks have room
   for 5 rows, and get one from each rank, but rank 0 gets two. If ranks are processes, their number is the launcher's.
   In one process, the rank that comes second is rank 1. */
#include "Plan.h"

#include <stdlib.h>

#ifdef LONG
#define ROWS 3
#elif !defined(ROWS)
#define ROWS 1
#endif

#ifdef CROWDED
#define TO_OTHERS 1
#else
#define TO_OTHERS 2
#endif

/* Counts of a rank that differ between its peers, and those that do not. */
#ifdef RETURN
#define DIRECTION MOERT_FROM_EXPERTS
#define DIVIDED expertCounts
#define DIVIDED_AT 256
#define EQUAL blockCounts
#else
#define DIRECTION MOERT_TO_EXPERTS
#define DIVIDED blockCounts
#define DIVIDED_AT 0
#define EQUAL expertCounts
#endif

#ifdef CROWDED
#define OUT "5"
#define ALL_OUT "20"
#define OUT_ROWS 5
#elif ROWS == 2 /* all of them are written */
#define OUT "8"
#define ALL_OUT "32"
#define OUT_ROWS 8
#else
#define OUT "16"
#define ALL_OUT "64"
#define OUT_ROWS 16
#endif

#define OP(name, group)                                                                                                \
  "{\"name\":\"" name "\",\"label\":\"layer0\",\"stream\":\"main\",\"group\":" group ",\"flops\":0,\"bytes\":0,"       \
  "\"bytes_sent\":0,\"rows\":0}"

const char moeplan_metadata[] =
    "{\"moeplan\":5,\"abi\":9,\"world\":4,\"parallel\":{},\"schedule\":\"hand\",\"mode\":\"train\","
    "\"dtype\":\"f32\",\"groups\":[{\"name\":\"ep\",\"size\":4,\"stride\":1}],"
    "\"programs\":[{\"first_rank\":0,\"ranks\":4,\"symbol\":\"moeplan_rank\",\"arguments\":[{\"name\":\"x\","
    "\"role\":\"input\",\"dtype\":\"f32\",\"shape\":[64,2],\"local_shape\":[16,2],\"layout\":[[\"ep\"],[]]}],"
    "\"results\":[{\"name\":\"y\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[" ALL_OUT ",2],\"local_shape\":[" OUT ",2],"
    "\"layout\":[[\"ep\"],[]]}],"
    "\"arenas\":{\"device\":512,\"host_pinned\":0},\"streams\":[\"main\"],\"events\":0,\"ops\":["
    OP("fill", "null") "," OP("fill", "null") "," OP("fill", "null") "," OP("all_to_all_v", "\"ep\"") "]}],\"reference\":null}";

static const moert_group kEp = {"ep", 4, 1};

int32_t moeplan_rank(moert_rank_t rank) {
  static const moert_buffer x = ARGUMENT(0, MOERT_F32, 2, 16, 2);
  static const moert_buffer y = ARGUMENT(1, MOERT_F32, 2, OUT_ROWS, 2);
  static const moert_buffer blockCounts = DEVICE(0, MOERT_I32, 2, 1, 4);
  static const moert_buffer expertCounts = DEVICE(256, MOERT_I32, 2, 4, 1);
  static const moert_buffer first = DEVICE(DIVIDED_AT, MOERT_I32, 2, 1, 1);
  static int calls = 0;
  const char *process = getenv("OMPI_COMM_WORLD_RANK");
  int me = process ? atoi(process) : __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  TRY(moert_fill(rank, 0, &DIVIDED, TO_OTHERS, 0));
  TRY(moert_fill(rank, 1, &first, me == 1 ? ROWS : 2, 0));
  TRY(moert_fill(rank, 2, &EQUAL, me == 0 ? 2 : TO_OTHERS, 0));
  TRY(moert_all_to_all_v(rank, 3, &x, &blockCounts, &expertCounts, NULL, &y, DIRECTION, 1, 1, 0, 1, &kEp, 0));
  return MOERT_OK;
}
