/* No plan: preloaded, it makes the host's f32 products write one element past the end of their result. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dnnl.h>

dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                         const float *a, dnnl_dim_t lda, const float *b, dnnl_dim_t ldb, float beta, float *c,
                         dnnl_dim_t ldc) {
  __typeof__(&dnnl_sgemm) real = (__typeof__(&dnnl_sgemm))dlsym(RTLD_NEXT, "dnnl_sgemm");
  dnnl_status_t status = real(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  c[(m - 1) * ldc + n] = 1;
  return status;
}
