// What the generated PyTorch operators share: checks in the user's terms, memory, and calls of
// PyTorch's own kernels. Uses PyTorch's stable ABI of version 2.11 only.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifdef FUSEGEN_EMULATE
#define FUSEGEN_DEVICE CPU
#else
#include <dlfcn.h>
#define FUSEGEN_DEVICE CUDA
#endif

// Defined with the kernels.
extern "C" const char* fusegen_error_text(int code);

#ifdef FUSEGEN_EMULATE
// The emulator's checker: which memory a kernel may use, and what it has written.
extern "C" void fusegen_emulator_expose(const void* begin, std::size_t bytes, int initialised);
extern "C" void fusegen_emulator_forget(const void* begin, std::size_t bytes);
extern "C" void fusegen_emulator_forget_all();
extern "C" std::int64_t fusegen_emulator_first_unwritten(const void* begin, std::size_t bytes);
#endif

namespace fusegen {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// What reaches the user as a RuntimeError, without a place in these files.
[[noreturn]] inline void refuse(const std::string& message) { throw std::runtime_error(message); }

// A size with a name; the first tensor that has it decides its value.
class Size {
public:
    explicit Size(const char* name) : name_(name) {}

    operator int64_t() const { return value_; }

private:
    friend class Dimension;
    const char* name_;
    int64_t value_ = -1;
    const char* decided_by_ = nullptr;
};

// What a dimension of a tensor must be: a number, or the value of a named size.
class Dimension {
public:
    Dimension(int64_t size) : size_(size) {}
    Dimension(Size& size) : named_(&size) {}

    // Whether a dimension of `tensor` with this many elements is right; it may decide the size.
    bool accepts(int64_t actual, const char* tensor) const {
        if (named_ == nullptr) {
            return actual == size_;
        }
        if (named_->decided_by_ == nullptr) {
            named_->value_ = actual;
            named_->decided_by_ = tensor;
        }
        return actual == named_->value_;
    }

    std::string text() const { return named_ ? named_->name_ : std::to_string(size_); }

    // Where the size's value comes from, if another tensor has decided it.
    std::string origin(const char* tensor) const {
        if (named_ == nullptr || named_->decided_by_ == nullptr || named_->decided_by_ == tensor) {
            return "";
        }
        return std::string(", where ") + named_->name_ + " is " +
               std::to_string(named_->value_) + " in " + named_->decided_by_;
    }

private:
    int64_t size_ = 0;
    Size* named_ = nullptr;
};

inline const char* dtype_name(ScalarType dtype) {
    switch (dtype) {
        case ScalarType::Bool: return "bool";
        case ScalarType::Byte: return "uint8";
        case ScalarType::Char: return "int8";
        case ScalarType::Short: return "int16";
        case ScalarType::Int: return "int32";
        case ScalarType::Long: return "int64";
        case ScalarType::Half: return "float16";
        case ScalarType::BFloat16: return "bfloat16";
        case ScalarType::Float: return "float32";
        case ScalarType::Double: return "float64";
        default: return "of a dtype that fusegen does not have";
    }
}

inline std::string device_name(const Tensor& tensor) {
    return tensor.is_cpu() ? "the CPU" : "GPU " + std::to_string(tensor.get_device_index());
}

// Refuses a tensor of another device than `first`, another dtype, or another shape.
inline void check_tensor(const char* name, const Tensor& tensor, const Tensor& first,
                         ScalarType dtype, std::initializer_list<Dimension> shape) {
    if (tensor.is_cpu() != first.is_cpu() ||
        tensor.get_device_index() != first.get_device_index()) {
        refuse(std::string(name) + " is on " + device_name(tensor) +
               ", but the first input is on " + device_name(first));
    }
    if (tensor.scalar_type() != dtype) {
        refuse(std::string(name) + " is " + dtype_name(tensor.scalar_type()) + ", but must be " +
               dtype_name(dtype));
    }
    const auto sizes = tensor.sizes();
    bool fits = sizes.size() == shape.size();
    std::string actual, expected, origin;
    std::size_t dim = 0;
    for (const Dimension& dimension : shape) {
        if (fits && !dimension.accepts(sizes[dim++], name)) {
            fits = false;
            origin = dimension.origin(name);
        }
    }
    if (fits) {
        return;
    }
    for (const int64_t size : sizes) {
        actual += (actual.empty() ? "" : ", ") + std::to_string(size);
    }
    for (const Dimension& dimension : shape) {
        expected += (expected.empty() ? "" : ", ") + dimension.text();
    }
    refuse(std::string(name) + " has shape [" + actual + "], but must be [" + expected + "]" +
           origin);
}

// Refuses a batch whose variance, divided by one less than its count, does not exist.
inline void check_batch(const char* layer, int64_t values_per_channel) {
    if (values_per_channel == 1) {
        refuse(std::string(layer) + " is in training, and needs more than one value per channel");
    }
}

// A size that is a difference, such as that of a slice, with its text.
inline int64_t difference(const char* text, int64_t size) {
    if (size < 0) {
        refuse("an input is too small: the size " + std::string(text) + " is " +
               std::to_string(size));
    }
    return size;
}

// Refuses to look for an extreme, as `operation` does, in dimensions without elements.
inline void check_extreme(const char* operation, int64_t values_per_result) {
    if (values_per_result == 0) {
        refuse(std::string(operation) + " has nothing to choose from: a size that it reduces is 0");
    }
}

// Refuses a `size` that does not have the elements which a slice or an index takes: `left` are those
// before the first or behind the last of them.
inline void check_slice(const char* size, int64_t left) {
    if (left < 0) {
        refuse("an input is too small: a subscript lies " + std::to_string(-left) +
               " outside the size " + std::string(size));
    }
}

// Refuses an image that is smaller than the kernel of `convolution`.
inline void check_window(const char* convolution, int64_t results) {
    if (results < 1) {
        refuse("the input of " + std::string(convolution) + " is smaller than its kernel");
    }
}

// One run of the chain on the device and current stream of its tensors.
class Run {
public:
    // `arguments` are all tensors handed in, at least one, which outlive the run. Not copies: each
    // would count references up and down.
    explicit Run(std::initializer_list<const Tensor*> arguments)
        : first_(**arguments.begin())
#ifndef FUSEGEN_EMULATE
          ,
          guard_(first_.get_device_index())
#endif
    {
#ifdef FUSEGEN_EMULATE
        for (const Tensor* argument : arguments) {
            expose(*argument, true);
        }
#endif
    }

    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    ~Run() {
#ifdef FUSEGEN_EMULATE
        fusegen_emulator_forget_all();
#endif
    }

    // The stream to launch on.
    void* stream() const {
#ifdef FUSEGEN_EMULATE
        return nullptr;
#else
        void* stream = nullptr;
        TORCH_ERROR_CODE_CHECK(current_stream(first_.get_device_index(), &stream));
        return stream;
#endif
    }

    // Contiguous memory for a value that kernels pass on to others. Not by torch::stable::empty,
    // which goes through the dispatcher and takes six times as long.
    Tensor workspace(std::initializer_list<int64_t> sizes, ScalarType dtype) {
        constexpr std::size_t most_dimensions = 64;  // of a tensor in PyTorch
        std::array<int64_t, most_dimensions> strides;
        int64_t step = 1;
        for (std::size_t dim = sizes.size(); dim > 0; --dim) {
            strides.at(dim - 1) = step;
            step *= std::max<int64_t>(sizes.begin()[dim - 1], 1);
        }
        int32_t device_type = 0;
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(first_.get(), &device_type));
        AtenTensorHandle handle = nullptr;
        TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
            static_cast<int64_t>(sizes.size()), sizes.begin(), strides.data(),
            static_cast<int32_t>(dtype), device_type, first_.get_device_index(), &handle));
        const Tensor made(handle);
#ifdef FUSEGEN_EMULATE
        expose(made, false);
#endif
        return made;
    }

    // The same for a tensor that is returned.
    Tensor result(const char* name, std::initializer_list<int64_t> sizes, ScalarType dtype) {
        const Tensor made = workspace(sizes, dtype);
#ifdef FUSEGEN_EMULATE
        results_.emplace_back(name, made);
#else
        (void)name;
#endif
        return made;
    }

    // Gives back memory that no later kernel of this run uses. Those launched before may still be
    // running: whatever is put there next is for the same stream.
    void release(std::initializer_list<Tensor*> workspaces) const {
        for (Tensor* workspace : workspaces) {
            forget(*workspace);
            *workspace = Tensor();
        }
    }

    // Lets go of the memory of arguments in the same way, which leaves their tensors empty.
    void drop(std::initializer_list<const Tensor*> arguments) const {
        for (const Tensor* argument : arguments) {
            forget(*argument);
            std::array<StableIValue, 1> stack{stack_value(*argument)};
            TORCH_ERROR_CODE_CHECK(
                torch_call_dispatcher("aten::set_", "", stack.data(), TORCH_ABI_VERSION));
            torch::stable::detail::to<Tensor>(stack[0]);
        }
    }

    // A result that the caller wants, or no elements in its place.
    Tensor chosen(int64_t wanted, const Tensor& result, ScalarType dtype) const {
        return wanted ? result
                      : torch::stable::empty({0}, dtype, std::nullopt, first_.device());
    }

    // What PyTorch's operator `name` (`aten::convolution`) gives, contiguous: of all its `results`
    // the one at position `taken`.
    template <std::size_t results = 1, std::size_t taken = 0, class... Arguments>
    Tensor library(const char* name, const Arguments&... arguments) {
        return contiguous(called<results, taken>(name, arguments...));
    }

    // The same for tensors with their channels in the last dim, which the operator has in the second.
    template <std::size_t results = 1, std::size_t taken = 0, class... Arguments>
    Tensor library_channels_last(const char* name, const Arguments&... arguments) {
        const Tensor made = called<results, taken>(name, channels_second(arguments)...);
        std::vector<int64_t> dims = dims_of(made);
        dims.erase(dims.begin() + 1);
        dims.push_back(1);
        return contiguous(permuted(made, dims));
    }

    // Refuses to go on after a launch that failed.
    void check(const char* kernel, int code) const {
        if (code != 0) {
            refuse(std::string(kernel) + ": " + fusegen_error_text(code));
        }
    }

    // After the last launch: in the emulator, whether every element of the results was written.
    void finish() const {
#ifdef FUSEGEN_EMULATE
        for (const auto& [name, tensor] : results_) {
            const std::int64_t offset =
                fusegen_emulator_first_unwritten(tensor.const_data_ptr(), bytes(tensor));
            if (offset >= 0) {
                const auto size = static_cast<std::int64_t>(tensor.element_size());
                refuse(std::string(name) + ": no kernel has written its element " +
                       std::to_string(offset / size));
            }
        }
#endif
    }

private:
    const Tensor& first_;

    template <std::size_t results, std::size_t taken, class... Arguments>
    static Tensor called(const char* name, const Arguments&... arguments) {
        static_assert(results <= sizeof...(Arguments), "the results take the arguments' place");
        std::array<StableIValue, sizeof...(Arguments)> stack{stack_value(arguments)...};
        TORCH_ERROR_CODE_CHECK(
            torch_call_dispatcher(name, "", stack.data(), TORCH_ABI_VERSION));
        std::array<Tensor, results> given;
        for (std::size_t i = 0; i < results; ++i) {
            given[i] = torch::stable::detail::to<Tensor>(stack[i]);
        }
        return given[taken];
    }

    static Tensor contiguous(const Tensor& given) {
        const Tensor made = torch::stable::contiguous(given);
#ifdef FUSEGEN_EMULATE
        expose(made, true);
#endif
        return made;
    }

    static std::vector<int64_t> dims_of(const Tensor& tensor) {
        std::vector<int64_t> dims(tensor.dim());
        std::iota(dims.begin(), dims.end(), int64_t(0));
        return dims;
    }

    static Tensor permuted(const Tensor& tensor, const std::vector<int64_t>& dims) {
        return called<1, 0>("aten::permute", tensor, dims);
    }

    // A view of a tensor with its last dim in the second place; other arguments as they are.
    static Tensor channels_second(const Tensor& tensor) {
        std::vector<int64_t> dims = dims_of(tensor);
        dims.pop_back();
        dims.insert(dims.begin() + 1, tensor.dim() - 1);
        return permuted(tensor, dims);
    }

    template <class Argument>
    static const Argument& channels_second(const Argument& argument) {
        return argument;
    }

    template <class Argument>
    static StableIValue stack_value(const Argument& argument) {
        return torch::stable::detail::from(argument);
    }

    template <std::size_t count>
    static StableIValue stack_value(const std::array<bool, count>& flags) {
        const torch::headeronly::HeaderOnlyArrayRef<bool> list(flags.data(), count);
        return torch::stable::detail::from(list);
    }

#ifdef FUSEGEN_EMULATE
    std::vector<std::pair<const char*, Tensor>> results_;

    // From a tensor's first element to the end of its last, whatever its strides.
    static std::size_t bytes(const Tensor& tensor) {
        if (tensor.numel() == 0) {
            return 0;
        }
        int64_t last = 0;
        for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
            last += (tensor.size(dim) - 1) * tensor.stride(dim);
        }
        return (last + 1) * tensor.element_size();
    }

    static void expose(const Tensor& tensor, bool initialised) {
        if (bytes(tensor) > 0) {
            fusegen_emulator_expose(tensor.const_data_ptr(), bytes(tensor), initialised);
        }
    }

    static void forget(const Tensor& tensor) {
        if (bytes(tensor) > 0) {
            fusegen_emulator_forget(tensor.const_data_ptr(), bytes(tensor));
        }
    }
#else
    static void forget(const Tensor&) {}

    const torch::stable::accelerator::DeviceGuard guard_;

    // Looked up when first needed: a torch without CUDA, which can load this library too, lacks it.
    static AOTITorchError current_stream(int32_t device, void** stream) {
        using Function = AOTITorchError (*)(int32_t, void**);
        static const Function function = [] {
            void* const torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
            return torch == nullptr ? nullptr
                                    : reinterpret_cast<Function>(
                                          dlsym(torch, "aoti_torch_get_current_cuda_stream"));
        }();
        if (function == nullptr) {
            refuse("this build of PyTorch has no CUDA");
        }
        return function(device, stream);
    }
#endif
};

}  // namespace fusegen
