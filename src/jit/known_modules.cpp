#include "jit/known_modules.h"

#include <torch/nn/modules.h>

#include <typeindex>
#include <unordered_map>

namespace precast::jit {

namespace {

using Whole = std::pair<const void*, size_t> (*)(const torch::nn::Module&);

template <class T>
std::pair<const void*, size_t> whole(const torch::nn::Module& m) {
  return {static_cast<const T*>(&m), sizeof(T)};
}

template <class... T>
std::unordered_map<std::type_index, Whole>& table() {
  return *new std::unordered_map<std::type_index, Whole>{{typeid(T), &whole<T>}...};
}

using namespace torch::nn;  // NOLINT: a list of its names follows
const auto& known() {
  static const auto& all = table<
      AdaptiveAvgPool1dImpl, AdaptiveAvgPool2dImpl, AdaptiveAvgPool3dImpl, AdaptiveLogSoftmaxWithLossImpl,
      AdaptiveMaxPool1dImpl, AdaptiveMaxPool2dImpl, AdaptiveMaxPool3dImpl, AlphaDropoutImpl, AvgPool1dImpl,
      AvgPool2dImpl, AvgPool3dImpl, BCELossImpl, BCEWithLogitsLossImpl, BatchNorm1dImpl, BatchNorm2dImpl,
      BatchNorm3dImpl, BilinearImpl, CELUImpl, CTCLossImpl, ConstantPad1dImpl, ConstantPad2dImpl, ConstantPad3dImpl,
      Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl, ConvTranspose2dImpl, ConvTranspose3dImpl,
      CosineEmbeddingLossImpl, CosineSimilarityImpl, CrossEntropyLossImpl, CrossMapLRN2dImpl, DropoutImpl,
      Dropout2dImpl, Dropout3dImpl, ELUImpl, EmbeddingImpl, EmbeddingBagImpl, FeatureAlphaDropoutImpl, FlattenImpl,
      FoldImpl, FractionalMaxPool2dImpl, FractionalMaxPool3dImpl, FunctionalImpl, GELUImpl, GLUImpl, GRUImpl,
      GRUCellImpl, GroupNormImpl, HardshrinkImpl, HardtanhImpl, HingeEmbeddingLossImpl, HuberLossImpl, IdentityImpl,
      InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl, KLDivLossImpl, L1LossImpl, LPPool1dImpl, LPPool2dImpl,
      LPPool3dImpl, LSTMImpl, LSTMCellImpl, LayerNormImpl, LeakyReLUImpl, LinearImpl, LocalResponseNormImpl,
      LogSigmoidImpl, LogSoftmaxImpl, MSELossImpl, MarginRankingLossImpl, MaxPool1dImpl, MaxPool2dImpl, MaxPool3dImpl,
      MaxUnpool1dImpl, MaxUnpool2dImpl, MaxUnpool3dImpl, MishImpl, ModuleDictImpl, ModuleListImpl,
      MultiLabelMarginLossImpl, MultiLabelSoftMarginLossImpl, MultiMarginLossImpl, MultiheadAttentionImpl, NLLLossImpl,
      PReLUImpl, PairwiseDistanceImpl, ParameterDictImpl, ParameterListImpl, PixelShuffleImpl, PixelUnshuffleImpl,
      PoissonNLLLossImpl, RNNImpl, RNNCellImpl, RReLUImpl, ReLUImpl, ReLU6Impl, ReflectionPad1dImpl,
      ReflectionPad2dImpl, ReflectionPad3dImpl, ReplicationPad1dImpl, ReplicationPad2dImpl, ReplicationPad3dImpl,
      SELUImpl, SequentialImpl, SiLUImpl, SigmoidImpl, SmoothL1LossImpl, SoftMarginLossImpl, SoftmaxImpl, Softmax2dImpl,
      SoftminImpl, SoftplusImpl, SoftshrinkImpl, SoftsignImpl, TanhImpl, TanhshrinkImpl, ThresholdImpl, TransformerImpl,
      TransformerDecoderImpl, TransformerDecoderLayerImpl, TransformerEncoderImpl, TransformerEncoderLayerImpl,
      TripletMarginLossImpl, TripletMarginWithDistanceLossImpl, UnflattenImpl, UnfoldImpl, UpsampleImpl, ZeroPad1dImpl,
      ZeroPad2dImpl, ZeroPad3dImpl>();
  return all;
}

}  // namespace

std::pair<const void*, size_t> known_object(const torch::nn::Module& m) {
  const auto at = known().find(typeid(m));
  return at == known().end() ? std::pair<const void*, size_t>() : at->second(m);
}

}  // namespace precast::jit
