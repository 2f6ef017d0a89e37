// The tiles and the packing of x for one set of instructions, over the few operations that the
// including file defines: LORICA_Q (its target attribute), LORICA_Q_INLINE, LORICA_Q_UNROLL, and in
// the surrounding namespace
//   Ints, Floats   16 lanes
//   Bytes, Nibbles weights of a quad, made ready by LoadBytes, LoadNibbles (low and high halves)
//   kBytesAreSigned whether LoadBytes takes the zero of bytes off
//   NibbleSums     sums over a block, made into Ints by Widen
// No include guard: each file includes it once, inside its namespace.

template <int R, int P, class T>
struct Grid {
  T v[R][P];
};

// What is left of x, w and the lines to fetch.
struct Walk {
  const int32_t* x;
  const std::byte* w;
  const std::byte* const* line;
};

LORICA_Q_INLINE void FetchLine(const QuantTileArgs& args, Walk* walk) {
  __builtin_prefetch(*walk->line);
  walk->line += walk->line < args.prefetch_last ? 1 : 0;
}

template <int R, int P>
LORICA_Q_INLINE void ByteBlock(const QuantTileArgs& args, Walk* walk, Grid<R, P, Ints>* acc) {
  for (int quad = 0; quad < kBlockQuads; ++quad) {
    FetchLine(args, walk);
    Bytes weights[P];
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* row = walk->w + p * args.panel_bytes;
      __builtin_prefetch(row + PrefetchBytes(R, P));
      weights[p] = LoadBytes(row);
    }
    LORICA_Q_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_Q_UNROLL
      for (int p = 0; p < P; ++p) MulBytes(weights[p], walk->x[r], &acc->v[r][p]);
    }
    walk->x += R;
    walk->w += 64;
  }
}

template <int R, int P>
LORICA_Q_INLINE void NibbleBlock(const QuantTileArgs& args, Walk* walk, Grid<R, P, Ints>* out) {
  Grid<R, P, NibbleSums> acc;
  LORICA_Q_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) acc.v[r][p] = ZeroNibbleSums();
  }
  for (int pair = 0; pair < kBlockQuads / 2; ++pair) {
    FetchLine(args, walk);
    Nibbles weights[P];
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* row = walk->w + p * args.panel_bytes;
      __builtin_prefetch(row + PrefetchBytes(R, P));
      weights[p] = LoadNibbles(row);
    }
    LORICA_Q_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_Q_UNROLL
      for (int p = 0; p < P; ++p) MulNibbles(weights[p].low, walk->x[r], &acc.v[r][p]);
    }
    LORICA_Q_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_Q_UNROLL
      for (int p = 0; p < P; ++p) MulNibbles(weights[p].high, walk->x[R + r], &acc.v[r][p]);
    }
    walk->x += 2 * R;
    walk->w += 64;
  }
  LORICA_Q_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) out->v[r][p] = Widen(acc.v[r][p]);
  }
}

// The int32 sums of (q - zero) * x over a block; of q * x where there is a minimum instead.
template <DType S, int R, int P>
LORICA_Q_INLINE void MultiplyBlock(const QuantTileArgs& args, const int32_t* offsets, Walk* walk,
                                   Grid<R, P, Ints>* acc) {
  if constexpr (QuantZero(S) == 128) {
    LORICA_Q_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_Q_UNROLL
      for (int p = 0; p < P; ++p) acc->v[r][p] = SplatInts(kBytesAreSigned ? 0 : offsets[r]);
    }
    ByteBlock<R, P>(args, walk, acc);
  } else {
    NibbleBlock<R, P>(args, walk, acc);
    if constexpr (S == DType::kQ4_0) {
      LORICA_Q_UNROLL
      for (int r = 0; r < R; ++r) {
        const Ints offset = SplatInts(offsets[r] / 16);
        LORICA_Q_UNROLL
        for (int p = 0; p < P; ++p) acc->v[r][p] = AddInts(acc->v[r][p], offset);
      }
    }
  }
}

// Blocks are added in the order of k.
template <DType S, int R, int P>
LORICA_Q void Tile(const QuantTileArgs& args) {
  constexpr int64_t kScaleBytes = kPanelColumns * (S == DType::kQ4_1 ? 4 : 2);
  Walk walk = {args.x, args.w, args.prefetch};
  const int32_t* offsets = args.offsets;
  const float* x_scale = args.x_scale;
  const float* x_sum = args.x_sum;
  const std::byte* scales = args.scales;
  Grid<R, P, Floats> total;
  LORICA_Q_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) total.v[r][p] = SplatFloats(0.0f);
  }
  for (int64_t block = 0; block < args.blocks; ++block) {
    Grid<R, P, Ints> acc;
    MultiplyBlock<S, R, P>(args, offsets, &walk, &acc);
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* of_panel = scales + p * args.scale_bytes;
      Floats d, m;
      if constexpr (S != DType::kI8) d = LoadHalves(of_panel);
      if constexpr (S == DType::kQ4_1) m = LoadHalves(of_panel + kPanelColumns * 2);
      LORICA_Q_UNROLL
      for (int r = 0; r < R; ++r) {
        Floats sum = ToFloats(acc.v[r][p]);
        if constexpr (S != DType::kI8) sum = MulFloats(sum, d);
        total.v[r][p] = AddFloats(total.v[r][p], MulFloats(sum, SplatFloats(x_scale[r])));
        if constexpr (S == DType::kQ4_1) {
          total.v[r][p] = AddFloats(total.v[r][p], MulFloats(m, SplatFloats(x_sum[r])));
        }
      }
    }
    offsets += R;
    x_scale += R;
    x_sum += R;
    scales += kScaleBytes;
  }
  LORICA_Q_UNROLL
  for (int p = 0; p < P; ++p) {
    Floats scale;
    if constexpr (S == DType::kI8) {
      scale = LoadFloats(reinterpret_cast<const float*>(args.scales + p * args.scale_bytes));
    }
    LORICA_Q_UNROLL
    for (int r = 0; r < R; ++r) {
      if constexpr (S == DType::kI8) total.v[r][p] = MulFloats(total.v[r][p], scale);
      StoreFloats(total.v[r][p], args.acc + (r * P + p) * kPanelColumns);
    }
  }
}

template <DType S, int R, int P>
constexpr QuantTileFunction TileOrNull() {
  if constexpr (!Fits(S, R, P)) {
    return nullptr;
  } else {
    return &Tile<S, R, P>;
  }
}
// [0]: one panel, [1]: two, [2]: four; then by rows - 1.
using TileTable = std::array<std::array<QuantTileFunction, kQuantTileRows>, 3>;
template <DType S, int P, int... R>
constexpr std::array<QuantTileFunction, kQuantTileRows> TileRow(std::integer_sequence<int, R...>) {
  return {TileOrNull<S, R + 1, P>()...};
}
template <DType S>
constexpr TileTable MakeTileTable() {
  constexpr auto kRows = std::make_integer_sequence<int, kQuantTileRows>();
  return {TileRow<S, 1>(kRows), TileRow<S, 2>(kRows), TileRow<S, 4>(kRows)};
}

inline QuantTileFunction TileFor(DType storage, int rows, int panels) {
  static constexpr TileTable kI8 = MakeTileTable<DType::kI8>();
  static constexpr TileTable kQ8 = MakeTileTable<DType::kQ8_0>();
  static constexpr TileTable kQ40 = MakeTileTable<DType::kQ4_0>();
  static constexpr TileTable kQ41 = MakeTileTable<DType::kQ4_1>();
  if (rows > kQuantTileRows) return nullptr;
  const TileTable& table = storage == DType::kI8     ? kI8
                           : storage == DType::kQ8_0 ? kQ8
                           : storage == DType::kQ4_0 ? kQ40
                                                     : kQ41;
  return table[static_cast<size_t>(panels / 2)][static_cast<size_t>(rows - 1)];
}

// One block of a row, zeros past k.
LORICA_Q inline void PackBlock(const QuantPackArgs& args, int64_t block) {
  const int64_t first = block * kQuantBlock;
  const float* x = args.x + first;
  alignas(64) float padded[kQuantBlock];
  if (args.k - first < kQuantBlock) {
    for (int64_t i = 0; i < kQuantBlock; ++i) padded[i] = first + i < args.k ? x[i] : 0.0f;
    x = padded;
  }
  const InputScale scale = ScaleOfInput(Greatest(x));
  alignas(64) int32_t quads[kBlockQuads];
  QuantizeSixteen(x, scale.inverse, quads);
  QuantizeSixteen(x + 16, scale.inverse, quads + 4);
  const int32_t sum = SumOfBytes(quads);
  for (int64_t i = 0; i < kBlockQuads; ++i) {
    args.quads[(block * kBlockQuads + i) * args.rows] = quads[i];
  }
  args.offsets[block * args.rows] = -128 * sum;
  args.scales[block * args.rows] = scale.scale;
  args.sums[block * args.rows] = scale.scale * static_cast<float>(sum);
}

inline void Pack(const QuantPackArgs& args) {
  for (int64_t block = args.blocks.begin; block < args.blocks.end; ++block) PackBlock(args, block);
}
