// The tiles and the packing of x for one set of instructions, over the few operations that the
// including file defines: LORICA_Q (its target attribute), LORICA_Q_INLINE, LORICA_Q_UNROLL, and in
// the surrounding namespace
//   Ints, Floats   16 lanes
//   Bytes, Nibbles weights of a quad, made ready by LoadBytes, LoadNibbles (low and high halves)
//   kBytesAreSigned whether LoadBytes takes the zero of bytes off
//   NibbleSums     sums over a block, made into Ints by Widen; over kSixQuads quads of six bits
//   WithTwoBits<i> nibbles with the quad's bits 4 and 5, from a row of those of four
//   LoadSmall      16 int8 as floats
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

// Six bits of a block of a panel, and the small scales of its halves.
struct Sixes {
  decltype(Nibbles::low) quads[kBlockQuads];
  Floats scales[2];
};
LORICA_Q_INLINE Sixes LoadSixes(const std::byte* row, const std::byte* small_scales) {
  Sixes out;
  LORICA_Q_UNROLL
  for (int half = 0; half < 2; ++half, row += 192) {
    const Nibbles first = LoadNibbles(row);
    const Nibbles second = LoadNibbles(row + 64);
    out.quads[4 * half] = WithTwoBits<0>(first.low, row + 128);
    out.quads[4 * half + 1] = WithTwoBits<1>(first.high, row + 128);
    out.quads[4 * half + 2] = WithTwoBits<2>(second.low, row + 128);
    out.quads[4 * half + 3] = WithTwoBits<3>(second.high, row + 128);
    out.scales[half] = LoadSmall(small_scales + half * kPanelColumns);
  }
  return out;
}

// Both halves' sums of (q - 32) * x times their small scales: at most 2 * 16 * 32 * 127 * 128, less
// than 2^24, so that every step is exact in f32.
template <int R>
LORICA_Q_INLINE Floats SumOfSixes(const Sixes& w, const int32_t* x, const int32_t* offsets) {
  Floats halves[2];
  LORICA_Q_UNROLL
  for (int half = 0; half < 2; ++half) {
    Ints sum = SplatInts(offsets[half * R]);
    LORICA_Q_UNROLL
    for (int quad = 4 * half; quad < 4 * half + 4; quad += kSixQuads) {
      NibbleSums part = ZeroNibbleSums();
      LORICA_Q_UNROLL
      for (int i = quad; i < quad + kSixQuads; ++i) MulNibbles(w.quads[i], x[i * R], &part);
      sum = AddInts(sum, Widen(part));
    }
    halves[half] = MulFloats(ToFloats(sum), w.scales[half]);
  }
  return AddFloats(halves[0], halves[1]);
}

// d and m of a block, of those that the storage has.
template <DType S>
LORICA_Q_INLINE void LoadScales(const std::byte* of_panel, int64_t block, Floats* d, Floats* m) {
  if constexpr (IsSuperBlocked(S)) {
    const std::byte* super = of_panel + block / kBlocksOfSuper * SuperStride(S);
    const std::byte* small_scales = of_panel + SubScalesAt(S, block);
    *d = LoadHalves(super);
    if constexpr (HasMinimum(S)) {
      *d = MulFloats(*d, LoadSmall(small_scales));
      *m =
          MulFloats(LoadHalves(super + kPanelColumns * 2), LoadSmall(small_scales + kPanelColumns));
    }
  } else if constexpr (S != DType::kI8) {
    const std::byte* of_block = of_panel + block * BlockScaleBytes(S);
    *d = LoadHalves(of_block);
    if constexpr (HasMinimum(S)) *m = LoadHalves(of_block + kPanelColumns * 2);
  }
}

// Blocks are added in the order of k.
template <DType S, int R, int P>
LORICA_Q void Tile(const QuantTileArgs& args) {
  Walk walk = {args.x, args.w, args.prefetch};
  const int32_t* offsets = args.offsets;
  const int32_t* half_offsets = args.half_offsets;
  const float* x_scale = args.x_scale;
  const float* x_sum = args.x_sum;
  Grid<R, P, Floats> total;
  LORICA_Q_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) total.v[r][p] = SplatFloats(0.0f);
  }
  for (int64_t block = 0; block < args.blocks; ++block) {
    Grid<R, P, Ints> acc;
    if constexpr (S != DType::kQ6_K) MultiplyBlock<S, R, P>(args, offsets, &walk, &acc);
    LORICA_Q_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* of_panel = args.scales + p * args.scale_bytes;
      Floats d, m;
      LoadScales<S>(of_panel, block, &d, &m);
      Sixes sixes;
      if constexpr (S == DType::kQ6_K) {
        const std::byte* row = walk.w + p * args.panel_bytes;
        LORICA_Q_UNROLL
        for (int line = 0; line < kSixBitLines; ++line) {
          FetchLine(args, &walk);
          __builtin_prefetch(row + line * 64 + PrefetchBytes(R, P));
        }
        sixes = LoadSixes(row, of_panel + SubScalesAt(S, block));
      }
      LORICA_Q_UNROLL
      for (int r = 0; r < R; ++r) {
        Floats sum;
        if constexpr (S == DType::kQ6_K) {
          sum = SumOfSixes<R>(sixes, walk.x + r, half_offsets + r);
        } else {
          sum = ToFloats(acc.v[r][p]);
        }
        if constexpr (S != DType::kI8) sum = MulFloats(sum, d);
        total.v[r][p] = AddFloats(total.v[r][p], MulFloats(sum, SplatFloats(x_scale[r])));
        if constexpr (HasMinimum(S)) {
          total.v[r][p] = AddFloats(total.v[r][p], MulFloats(m, SplatFloats(x_sum[r])));
        }
      }
    }
    offsets += R;
    x_scale += R;
    x_sum += R;
    half_offsets += 2 * R;
    if constexpr (S == DType::kQ6_K) {
      walk.x += kBlockQuads * R;
      walk.w += kSixBitLines * 64;
    }
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
  static constexpr TileTable kQ4K = MakeTileTable<DType::kQ4_K>();
  static constexpr TileTable kQ6K = MakeTileTable<DType::kQ6_K>();
  if (rows > kQuantTileRows) return nullptr;
  const TileTable& table = storage == DType::kI8     ? kI8
                           : storage == DType::kQ8_0 ? kQ8
                           : storage == DType::kQ4_0 ? kQ40
                           : storage == DType::kQ4_1 ? kQ41
                           : storage == DType::kQ4_K ? kQ4K
                                                     : kQ6K;
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
  const int32_t first_half = SumOfSixteen(quads);
  const int32_t second_half = SumOfSixteen(quads + 4);
  const int32_t sum = first_half + second_half;
  for (int64_t i = 0; i < kBlockQuads; ++i) {
    args.quads[(block * kBlockQuads + i) * args.rows] = quads[i];
  }
  args.offsets[block * args.rows] = -128 * sum;
  args.half_offsets[2 * block * args.rows] = -32 * first_half;
  args.half_offsets[(2 * block + 1) * args.rows] = -32 * second_half;
  args.scales[block * args.rows] = scale.scale;
  args.sums[block * args.rows] = scale.scale * static_cast<float>(sum);
}

inline void Pack(const QuantPackArgs& args) {
  for (int64_t block = args.blocks.begin; block < args.blocks.end; ++block) PackBlock(args, block);
}
