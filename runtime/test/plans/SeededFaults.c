/* No plan: preloaded, it makes one call of a plan wrong. MOERT_TEST_FAULT is "all_reduce 17 skip": the call's name, its op, and the fault:
     skip    all_reduce, reduce_experts: values of other members are left out; sum_squares: the sum is 0
     double  all_reduce: values are summed twice; scale: the factor is doubled
     all     label_sum: all rows count, with or without a label
   Programs whose op of that number is another call are not changed, so the reference can stay right. */
#define _GNU_SOURCE
#include "moert/moert.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    int32_t code = (call);                                                                                             \
    if (code != MOERT_OK)                                                                                              \
      return code;                                                                                                     \
  } while (0)

/* The function of libmoert that this one stands before. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int isDue(const char *call, int64_t op, const char *fault) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s %lld %s", call, (long long)op, fault);
  const char *seeded = getenv("MOERT_TEST_FAULT");
  return seeded && strcmp(seeded, wanted) == 0;
}

int32_t moert_all_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *counts,
                         const moert_buffer *out, const moert_group *group, moert_stream_t stream) {
  if (isDue("all_reduce", op, "skip"))
    return moert_copy(rank, op, in, out, stream);
  TRY(REAL(moert_all_reduce)(rank, op, in, counts, out, group, stream));
  return isDue("all_reduce", op, "double") ? REAL(moert_all_reduce)(rank, op, out, counts, out, group, stream)
                                           : MOERT_OK;
}

int32_t moert_reduce_experts(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *shadows,
                             const moert_buffer *addend, const moert_buffer *out, const moert_group *group,
                             moert_stream_t stream) {
  if (isDue("reduce_experts", op, "skip"))
    return addend ? moert_copy(rank, op, addend, out, stream) : moert_fill(rank, op, out, 0, stream);
  return REAL(moert_reduce_experts)(rank, op, in, shadows, addend, out, group, stream);
}

int32_t moert_sum_squares(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                          moert_stream_t stream) {
  return isDue("sum_squares", op, "skip") ? moert_fill(rank, op, out, 0, stream)
                                          : REAL(moert_sum_squares)(rank, op, in, out, stream);
}

int32_t moert_scale(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, double factor,
                    moert_stream_t stream) {
  return REAL(moert_scale)(rank, op, in, out, isDue("scale", op, "double") ? 2 * factor : factor, stream);
}

int32_t moert_label_count(moert_rank_t rank, int64_t op, const moert_buffer *labels, const moert_buffer *count,
                          moert_stream_t stream) {
  double all = 1;
  for (int64_t i = 0; i < labels->rank; ++i)
    all *= (double)labels->dims[i];
  return isDue("label_count", op, "all") ? moert_fill(rank, op, count, all, stream)
                                         : REAL(moert_label_count)(rank, op, labels, count, stream);
}
