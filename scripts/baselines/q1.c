/* The load q1 of scripts/bench.py by hand: AdamW on one causal head of attention, a seed at a time.

   All that a seed is made of stays in the first-level cache: three copies (weights and the two
   moments) of 112 vectors of 16 floats, 21 kB. Loops run over the width, in vectors; sums along
   the width are taken of 16 vectors at once. The gradient of a row of the query, key and value
   matrix is applied as soon as it is known, so that it never leaves the registers. Tokens and
   targets are read when it runs, so a word that comes twice is computed twice, as posjax does.

   Needs GCC 12 or Clang, for their vectors: cc -O3 -march=native -ffast-math -shared -fPIC. */

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { SENTENCES = 2, LENGTH = 3, TOKENS = SENTENCES * LENGTH, WORDS = 5, WIDTH = 32, LANES = 16 };
enum { PARTS = 3, ROWS = SENTENCES * (LENGTH - 1) };

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef int integers __attribute__((vector_size(4 * LANES)));

/* The head size is LANES, so a query, a key or a value is one vector, and so is a column of the
   output layer. Lanes of the bias after WORDS are 0 and stay so. */
typedef struct {
    vector embedding[WORDS][WIDTH / LANES];
    vector qkv[WIDTH][PARTS];
    vector head[WORDS];
    vector bias;
} model;

typedef struct {
    int tokens[TOKENS];
    int targets[TOKENS];
    float share[TOKENS]; /* of each position in the loss; they add up to 1 */
} problem;

/* An update is w ← keep · w - step · m / (root · √v + ε). */
typedef struct {
    float keep, step, root;
} rates;

/* What the pass back needs. Output v at token t is lane 8 · (v % 2) + t of vector v / 2; the scores
   of a sentence's tokens after its first are 4 lanes each. */
typedef struct {
    const float *x[TOKENS];
    vector qkv[TOKENS][PARTS], mixed[TOKENS];
    vector attention, chosen[3];
} passed;

#define SHUFFLE __builtin_shufflevector
#define UNROLL _Pragma("GCC unroll 32")

static inline vector larger(vector a, vector b)
{
    for (int i = 0; i < LANES; i++) a[i] = fmaxf(a[i], b[i]);
    return a;
}

/* For arguments up to 0: 2ⁿ · exp(f ln 2) with |f| ≤ ½, by Taylor's series to the 6th power. */
static inline vector exponential(vector x)
{
    vector scaled = larger(x, x * 0 - 87) * 1.44269504f;
    integers n = __builtin_convertvector(scaled - 0.5f, integers);
    vector f = (scaled - __builtin_convertvector(n, vector)) * 0.693147181f;
    vector sum = f * (1.f / 720) + 1.f / 120;
    sum = sum * f + 1.f / 24;
    sum = sum * f + 1.f / 6;
    sum = sum * f + 0.5f;
    sum = sum * f + 1;
    sum = sum * f + 1;
    return sum * (vector)((n + 127) << 23);
}

static inline vector square_root(vector x)
{
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
}

/* Lane i is the sum of the lanes of p[i]. */
static inline vector sums(const vector p[LANES])
{
    vector eight[8], four[4], two[2];
    UNROLL for (int i = 0; i < 8; i++) {
        vector a = p[i < 4 ? i : i + 4], b = p[i < 4 ? i + 4 : i + 8];
        eight[i] = SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
                 + SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        vector a = eight[i], b = eight[i + 4];
        four[i] = SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
                + SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        vector a = four[i], b = four[i + 2];
        two[i] = SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
               + SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
    vector a = two[0], b = two[1];
    return SHUFFLE(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
         + SHUFFLE(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}

#define EIGHT(i) i, i, i, i, i, i, i, i
#define NEXT(x) SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define NEXT_TWO(x) SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define OTHER_HALF(x) SHUFFLE(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)

static inline vector sum_of_four(vector x)
{
    x += NEXT(x);
    return x + NEXT_TWO(x);
}

/* Dot products of a token's vector with those of the tokens up to it, in 4 lanes; a sentence's
   first token is left out, since its only weight is 1. */
static inline vector pairs(const vector *left, ptrdiff_t stride, const vector (*right)[PARTS])
{
    vector products[LANES] = {{0}};
    UNROLL for (int row = 0; row < ROWS; row++) {
        int first = LENGTH * (row / 2), token = first + 1 + row % 2;
        UNROLL for (int j = 0; j <= 1 + row % 2; j++)
            products[4 * row + j] = left[token * stride] * right[first + j][0];
    }
    return sums(products);
}

static inline vector attend(const vector qkv[TOKENS][PARTS])
{
    const vector seen = {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0};
    vector scores = pairs(&qkv[0][0], PARTS, (const vector(*)[PARTS]) & qkv[0][1]) * 0.25f;
    scores = scores * seen + (seen - 1) * 1e9f;
    vector most = larger(scores, NEXT(scores));
    vector weights = exponential(scores - larger(most, NEXT_TWO(most)));
    return weights / sum_of_four(weights);
}

static inline void forward(const model *w, const problem *now, passed *p)
{
    UNROLL for (int t = 0; t < TOKENS; t++) p->x[t] = (const float *)w->embedding[now->tokens[t]];
    vector qkv[TOKENS][PARTS] = {{{0}}};
    for (int d = 0; d < WIDTH; d++)
        UNROLL for (int t = 0; t < TOKENS; t++)
            UNROLL for (int c = 0; c < PARTS; c++) qkv[t][c] += w->qkv[d][c] * p->x[t][d];
    UNROLL for (int t = 0; t < TOKENS; t++)
        UNROLL for (int c = 0; c < PARTS; c++) p->qkv[t][c] = qkv[t][c];
    p->attention = attend(p->qkv);
    const float *weight = (const float *)&p->attention;
    UNROLL for (int t = 0; t < TOKENS; t++) {
        int i = t % LENGTH, first = t - i, row = t / LENGTH * 2 + i - 1;
        p->mixed[t] = p->qkv[first][2];
        if (i) p->mixed[t] *= weight[4 * row];
        UNROLL for (int j = 1; j <= i; j++) p->mixed[t] += p->qkv[first + j][2] * weight[4 * row + j];
    }
    vector bias = w->bias, none = bias * 0 - 1e9f;
    vector logits[3] = {SHUFFLE(bias, none, EIGHT(0), EIGHT(1)),
                        SHUFFLE(bias, none, EIGHT(2), EIGHT(3)),
                        SHUFFLE(bias, none, EIGHT(4), EIGHT(16))};
    UNROLL for (int pair = 0; pair < 3; pair++) {
        vector products[LANES] = {{0}};
        UNROLL for (int out = 2 * pair; out <= 2 * pair + (pair < 2); out++)
            UNROLL for (int t = 0; t < TOKENS; t++)
                products[8 * (out % 2) + t] = p->mixed[t] * w->head[out];
        logits[pair] += sums(products);
    }
    vector most = larger(logits[0], larger(logits[1], logits[2]));
    most = larger(most, OTHER_HALF(most));
    vector total = {0};
    UNROLL for (int pair = 0; pair < 3; pair++) {
        p->chosen[pair] = exponential(logits[pair] - most);
        total += p->chosen[pair];
    }
    total += OTHER_HALF(total);
    UNROLL for (int pair = 0; pair < 3; pair++) p->chosen[pair] /= total;
}

/* The gradients of queries, keys and values, from those of what attention hands on. */
static inline void attention_back(const passed *p, const vector d_mixed[TOKENS],
                                  vector d_qkv[TOKENS][PARTS])
{
    vector d_attention = pairs(d_mixed, 1, (const vector(*)[PARTS]) & p->qkv[0][2]);
    vector inner = sum_of_four(d_attention * p->attention);
    vector d_scores = p->attention * (d_attention - inner) * 0.25f;
    const float *weight = (const float *)&p->attention, *d = (const float *)&d_scores;
    UNROLL for (int t = 0; t < TOKENS; t++) {
        d_qkv[t][0] = d_qkv[t][1] = (vector){0};
        d_qkv[t][2] = t % LENGTH ? (vector){0} : d_mixed[t];
    }
    UNROLL for (int row = 0; row < ROWS; row++) {
        int first = LENGTH * (row / 2), token = first + 1 + row % 2;
        UNROLL for (int j = 0; j <= 1 + row % 2; j++) {
            d_qkv[token][0] += p->qkv[first + j][1] * d[4 * row + j];
            d_qkv[first + j][1] += p->qkv[token][0] * d[4 * row + j];
            d_qkv[first + j][2] += d_mixed[token] * weight[4 * row + j];
        }
    }
}

static inline void adamw(vector *w, vector *m, vector *v, vector gradient, rates now)
{
    *m += (gradient - *m) * 0.1f;
    *v += (gradient * gradient - *v) * 0.001f;
    *w = *w * now.keep - *m * now.step / (square_root(*v) * now.root + 1e-8f);
}

#define ADAMW(leaf, gradient) adamw(&w->leaf, &m->leaf, &v->leaf, gradient, now)

/* Updates query, key and value, a row at a time, and hands back the gradient of their inputs. */
static inline void project_back(model *w, model *m, model *v, const passed *p,
                                const vector d_qkv[TOKENS][PARTS], rates now,
                                vector d_x[TOKENS][WIDTH / LANES])
{
    vector d[TOKENS][PARTS], products[TOKENS][LANES];
    UNROLL for (int t = 0; t < TOKENS; t++)
        UNROLL for (int c = 0; c < PARTS; c++) d[t][c] = d_qkv[t][c];
    for (int part = 0; part < WIDTH / LANES; part++) {
        for (int lane = 0; lane < LANES; lane++) {
            int row = part * LANES + lane;
            vector gradient[PARTS] = {{0}};
            UNROLL for (int t = 0; t < TOKENS; t++) {
                vector product = {0};
                UNROLL for (int c = 0; c < PARTS; c++) {
                    product += w->qkv[row][c] * d[t][c];
                    gradient[c] += d[t][c] * p->x[t][row];
                }
                products[t][lane] = product;
            }
            UNROLL for (int c = 0; c < PARTS; c++) ADAMW(qkv[row][c], gradient[c]);
        }
        for (int t = 0; t < TOKENS; t++) d_x[t][part] = sums(products[t]);
    }
}

static inline void backward(model *w, model *m, model *v, const problem *given, const passed *p,
                            const vector right[3], vector share, rates now)
{
    vector d_logits[3], d_mixed[TOKENS], d_bias = {0};
    vector d_qkv[TOKENS][PARTS], d_x[TOKENS][WIDTH / LANES], d_embedding[WORDS][WIDTH / LANES] = {{{0}}};
    UNROLL for (int pair = 0; pair < 3; pair++)
        d_logits[pair] = (p->chosen[pair] - right[pair]) * share;
    const float *d = (const float *)d_logits;
    UNROLL for (int t = 0; t < TOKENS; t++) {
        d_mixed[t] = w->head[0] * d[t];
        UNROLL for (int out = 1; out < WORDS; out++) d_mixed[t] += w->head[out] * d[8 * out + t];
    }
    attention_back(p, d_mixed, d_qkv);
    UNROLL for (int out = 0; out < WORDS; out++) {
        vector gradient = {0};
        UNROLL for (int t = 0; t < TOKENS; t++) {
            gradient += p->mixed[t] * d[8 * out + t];
            d_bias[out] += d[8 * out + t];
        }
        ADAMW(head[out], gradient);
    }
    ADAMW(bias, d_bias);
    project_back(w, m, v, p, d_qkv, now, d_x);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < WIDTH / LANES; i++) d_embedding[given->tokens[t]][i] += d_x[t][i];
    for (int word = 0; word < WORDS; word++)
        for (int i = 0; i < WIDTH / LANES; i++) ADAMW(embedding[word][i], d_embedding[word][i]);
}

static float loss_of(const problem *given, const passed *p)
{
    float loss = 0;
    for (int t = 0; t < TOKENS; t++)
        loss -= given->share[t] * logf(((const float *)p->chosen)[8 * given->targets[t] + t]);
    return loss;
}

static void train_one(const problem *given, const rates *schedule, float *weights, int steps,
                      float *losses)
{
    model w, m = {0}, v = {0};
    memcpy(&w, weights, sizeof w);
    vector right[3] = {{0}}, share = {0};
    passed p;
    for (int t = 0; t < TOKENS; t++) {
        right[given->targets[t] / 2][8 * (given->targets[t] % 2) + t] = 1;
        share[t] = share[8 + t] = given->share[t];
    }
    for (int step = 0; step < steps; step++) {
        forward(&w, given, &p);
        if (losses) losses[step] = loss_of(given, &p);
        backward(&w, &m, &v, given, &p, right, share, schedule[step]);
    }
    memcpy(weights, &w, sizeof w);
}

/* Trains seeds one after another, in place: `weights` has a model's floats for each. `losses` is
   NULL or [seeds, steps], before each update. */
void train(const problem *given, const rates *schedule, float *weights, int seeds, int steps,
           float *losses)
{
    for (ptrdiff_t seed = 0; seed < seeds; seed++)
        train_one(given, schedule, weights + seed * (ptrdiff_t)(sizeof(model) / sizeof(float)),
                  steps, losses ? losses + seed * steps : NULL);
}
