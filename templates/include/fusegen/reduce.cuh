// Reductions: what a thread accumulates, and how threads bring their states together.
//
// A state starts as `identity()`, takes elements with `push(value, position)` in order of position,
// takes other states with `merge`, and ends as `result()`. States are merged in a fixed order, so
// that the same inputs give the same bits.
#pragma once

#include "device.cuh"
#include "dtypes.cuh"
#include "math.cuh"
#include "numbers.cuh"

namespace fusegen {

// The sum of a vector in pairs: exact where all elements are equal.
template <class T, int N>
__device__ __forceinline__ T sum_of(const Vector<T, N>& x) {
    Vector<T, N> sums = x;
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) {
            sums[i] += sums[i + half];
        }
    }
    return sums[0];
}

template <class T>
struct Sum {
    T value;

    static __device__ __forceinline__ Sum identity() { return {T(0)}; }
    __device__ __forceinline__ void push(T x, int64_t) { value += x; }
    __device__ __forceinline__ void merge(const Sum& other) { value += other.value; }
    __device__ __forceinline__ T result() const { return value; }
};

template <class T>
struct Product {
    T value;

    static __device__ __forceinline__ Product identity() { return {T(1)}; }
    __device__ __forceinline__ void push(T x, int64_t) { value *= x; }
    __device__ __forceinline__ void merge(const Product& other) { value *= other.value; }
    __device__ __forceinline__ T result() const { return value; }
};

// NaN if any element is NaN, like `Minimum`.
template <class T>
struct Maximum {
    T value;

    static __device__ __forceinline__ Maximum identity() { return {lowest<T>()}; }
    __device__ __forceinline__ void push(T x, int64_t) { value = maximum(value, x); }
    __device__ __forceinline__ void merge(const Maximum& other) { push(other.value, 0); }
    __device__ __forceinline__ T result() const { return value; }
};

template <class T>
struct Minimum {
    T value;

    static __device__ __forceinline__ Minimum identity() { return {highest<T>()}; }
    __device__ __forceinline__ void push(T x, int64_t) { value = minimum(value, x); }
    __device__ __forceinline__ void merge(const Minimum& other) { push(other.value, 0); }
    __device__ __forceinline__ T result() const { return value; }
};

template <class T>
struct Any {
    bool value;

    static __device__ __forceinline__ Any identity() { return {false}; }
    __device__ __forceinline__ void push(T x, int64_t) { value = value || x != T(0); }
    __device__ __forceinline__ void merge(const Any& other) { value = value || other.value; }
    __device__ __forceinline__ bool result() const { return value; }
};

template <class T>
struct All {
    bool value;

    static __device__ __forceinline__ All identity() { return {true}; }
    __device__ __forceinline__ void push(T x, int64_t) { value = value && x != T(0); }
    __device__ __forceinline__ void merge(const All& other) { value = value && other.value; }
    __device__ __forceinline__ bool result() const { return value; }
};

// Where the greatest (or least) element stands: the first of equals, and NaN before any number.
template <class T, bool greatest>
struct ArgExtreme {
    alignas(8) T value;
    int64_t position;  // negative: no element yet

    static __device__ __forceinline__ ArgExtreme identity() { return {T(0), -1}; }
    __device__ __forceinline__ void push(T x, int64_t at) { merge({x, at}); }
    __device__ __forceinline__ void merge(const ArgExtreme& other) {
        if (other.position >= 0 && (position < 0 || other.is_before(*this))) {
            *this = other;
        }
    }
    __device__ __forceinline__ bool is_before(const ArgExtreme& other) const {
        const bool nan = is_nan(value);
        const bool other_nan = is_nan(other.value);
        if (nan != other_nan) {
            return nan;
        }
        if (nan || value == other.value) {
            return position < other.position;
        }
        return greatest ? value > other.value : value < other.value;
    }
    __device__ __forceinline__ int64_t result() const { return position; }
};

template <class T>
using ArgMaximum = ArgExtreme<T, true>;
template <class T>
using ArgMinimum = ArgExtreme<T, false>;

// log(sum(exp(x))), shifted by the greatest element so far.
template <class T>
struct LogSumExp {
    T greatest;
    T sum;  // of exp(x - greatest)

    static __device__ __forceinline__ LogSumExp identity() { return {lowest<T>(), T(0)}; }
    __device__ __forceinline__ void push(T x, int64_t) { merge({x, T(1)}); }
    // A vector's by its own greatest: the exponentials do not wait for each other. That of a distance
    // d is wrong by (1 + d) 2^-22 of itself at most, so by 2^-22 of the sum, as (1 + d) exp(-d) is at
    // most 1. Distances from a number beside infinity are 0 or infinite, and none is NaN.
    template <int N>
    __device__ __forceinline__ void push(const Vector<T, N>& x) {
        const T limit = greatest_finite<T>();
        T own = x[0];
#pragma unroll
        for (int i = 1; i < N; ++i) {
            own = maximum(own, x[i]);
        }
        const T from = minimum(maximum(own, -limit), limit);
        Vector<T, N> powers;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            powers[i] = near_exponential(x[i] - from);
        }
        merge({own, sum_of(powers)});
    }
    // One exponential and no branch. Equal infinities, whose difference would be NaN, count alike;
    // a NaN on either side makes the sum NaN.
    __device__ __forceinline__ void merge(const LogSumExp& other) {
        const bool is_greater = other.greatest > greatest;
        const T distance = other.greatest == greatest ? T(0) : other.greatest - greatest;
        const T scale = exponential(-absolute(distance));
        sum = is_greater ? sum * scale + other.sum : sum + other.sum * scale;
        greatest = is_greater ? other.greatest : greatest;
    }
    __device__ __forceinline__ T result() const { return greatest + logarithm(sum); }
};

// The sum of squared deviations from the mean. Elements are taken as their distances from the first
// one, which are small and exact where the mean is far from zero; those of a vector by their own
// mean. States are brought together by the formula of Chan, Golub and LeVeque, which for one element
// is Welford's recurrence.
template <class T>
struct Moments {
    T count;
    T first;
    T offset;  // of the mean from `first`
    T deviations;

    // The mean of nothing is NaN.
    static __device__ __forceinline__ Moments identity() {
        return {T(0), not_a_number<T>(), T(0), T(0)};
    }
    __device__ __forceinline__ void push(T x, int64_t) { push(Vector<T, 1>{{x}}); }
    template <int N>
    __device__ __forceinline__ void push(const Vector<T, N>& x) {
        push(x, T(N) * near_reciprocal(count + T(N)));
    }
    // The same where `share`, that of the vector's elements in all, is known.
    template <int N>
    __device__ __forceinline__ void push(const Vector<T, N>& x, T share) {
        first = count == T(0) ? x[0] : first;
        Vector<T, N> distances;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            distances[i] = x[i] - first;
        }
        const T own = sum_of(distances) * (T(1) / T(N));
        T squares = T(0);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            squares += square(distances[i] - own);
        }
        const T difference = own - offset;
        offset = count == T(0) ? own : offset + difference * share;
        deviations += squares + square(difference) * (count * share);
        count += T(N);
    }
    __device__ __forceinline__ void merge(const Moments& other) {
        if (other.count == T(0)) {
            return;
        }
        if (count == T(0)) {
            *this = other;
            return;
        }
        const T total = count + other.count;
        const T difference = (other.first - first) + (other.offset - offset);
        const T share = other.count / total;
        offset += difference * share;
        deviations += other.deviations + square(difference) * (count * share);
        count = total;
    }
    __device__ __forceinline__ T mean() const { return first + offset; }
    __device__ __forceinline__ T result() const { return deviations; }
};

// The mean that goes with the moments: exact where all elements are equal, as no quotient of a
// rounded sum is.
template <class T>
struct Mean : Moments<T> {
    static __device__ __forceinline__ Mean identity() { return {Moments<T>::identity()}; }
    __device__ __forceinline__ T result() const { return this->mean(); }
};

// The same where every thread has `count` elements, so that no number of elements is exchanged and
// none is divided by.
template <class T, int count>
struct EvenMoments {
    T average;
    T deviations;

    static __device__ __forceinline__ EvenMoments identity() { return {T(0), T(0)}; }
    // All of a thread's elements, by their own mean, which is exact where all are equal.
    template <int steps, int N>
    __device__ __forceinline__ void take(const Vector<T, N> (&x)[steps]) {
        static_assert(count == steps * N, "a thread's whole share");
        const T first = sum_of(x[0]);
        T rest = T(0);
#pragma unroll
        for (int i = 1; i < steps; ++i) {
            rest += sum_of(x[i]) - first;
        }
        average = (first + rest * (T(1) / T(steps))) * (T(1) / T(N));
#pragma unroll
        for (int i = 0; i < steps; ++i) {
            T squares = T(0);
#pragma unroll
            for (int j = 0; j < N; ++j) {
                squares += square(x[i][j] - average);
            }
            deviations += squares;
        }
    }
    // The other's elements, those of `threads` threads as on this side; which side is which does not
    // matter to the bits.
    __device__ __forceinline__ void merge(const EvenMoments& other, int threads) {
        const T difference = other.average - average;
        average = (average + other.average) * T(0.5);
        const T squares = square(difference) * (T(count) * T(0.5) * T(threads));
        deviations = (deviations + other.deviations) + squares;
    }
    __device__ __forceinline__ T mean() const { return average; }
    __device__ __forceinline__ T result() const { return deviations; }
};

// The sum of exp(x - greatest) over elements x of which the greatest is known, by near_exp if `near`.
template <class T, bool near>
struct ShiftedSum {
    T greatest;
    T sum;

    static __device__ __forceinline__ ShiftedSum identity() { return {lowest<T>(), T(0)}; }
    static __device__ __forceinline__ T power(T x) {
        if constexpr (near) {
            return near_exp(x);
        } else {
            return exponential(x);
        }
    }
    // What to take elements' distances from: the greatest, but no distance is NaN where all are
    // -infinity.
    __device__ __forceinline__ T start() const {
        return greatest == lowest<T>() ? T(0) : greatest;
    }
    // What makes powers of distances from `greatest` those of distances from `other`.
    __device__ __forceinline__ T factor(T other) const {
        return power(greatest == other ? T(0) : greatest - other);  // no NaN of equal infinities
    }
};

// Several states that are merged together.
template <class First, class... Rest>
struct Joined {
    First first;
    Joined<Rest...> rest;

    static __device__ __forceinline__ Joined identity() {
        return {First::identity(), Joined<Rest...>::identity()};
    }
    __device__ __forceinline__ void merge(const Joined& other) {
        first.merge(other.first);
        rest.merge(other.rest);
    }
    __device__ __forceinline__ void split(First& to, Rest&... others) const {
        to = first;
        rest.split(others...);
    }
};

template <class Last>
struct Joined<Last> {
    Last last;

    static __device__ __forceinline__ Joined identity() { return {Last::identity()}; }
    __device__ __forceinline__ void merge(const Joined& other) { last.merge(other.last); }
    __device__ __forceinline__ void split(Last& to) const { to = last; }
};

template <class Last>
__device__ __forceinline__ Joined<Last> join(const Last& last) {
    return {last};
}

template <class First, class Second, class... Rest>
__device__ __forceinline__ Joined<First, Second, Rest...> join(const First& first,
                                                               const Second& second,
                                                               const Rest&... rest) {
    return {first, join(second, rest...)};
}

constexpr unsigned whole_warp = 0xffffffffu;

// Whether it does not matter to the bits of a merged state which of two comes first.
template <class State>
constexpr bool is_symmetric = false;
template <class T, int count>
constexpr bool is_symmetric<EvenMoments<T, count>> = true;

// Merges a state of as many threads, `threads`.
template <class State>
__device__ __forceinline__ void merge_alike(State& state, const State& other, int) {
    state.merge(other);
}

template <class T, int count>
__device__ __forceinline__ void merge_alike(EvenMoments<T, count>& state,
                                            const EvenMoments<T, count>& other, int threads) {
    state.merge(other, threads);
}

template <class Last>
__device__ __forceinline__ void merge_alike(Joined<Last>& state, const Joined<Last>& other,
                                            int threads) {
    merge_alike(state.last, other.last, threads);
}

template <class First, class Second, class... Rest>
__device__ __forceinline__ void merge_alike(Joined<First, Second, Rest...>& state,
                                            const Joined<First, Second, Rest...>& other,
                                            int threads) {
    merge_alike(state.first, other.first, threads);
    merge_alike(state.rest, other.rest, threads);
}

// The merged state of `lanes` neighbouring threads of a warp, the same bits in each of them, where a
// state is that of `each` threads. Every thread of the warp must call it.
template <int lanes, int each = 1, class State>
__device__ __forceinline__ State reduce_lanes(State state) {
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
        const State other = shuffle_xor(whole_warp, state, distance);
        if (!is_symmetric<State> && threadIdx.x & distance) {  // the lower lane's state comes first, on both sides
            State lower = other;
            merge_alike(lower, state, each * distance);
            state = lower;
        } else {
            merge_alike(state, other, each * distance);
        }
    }
    return state;
}

// Of sums the greatest first: then each has to be scaled once.
template <int lanes, int each = 1, class T, bool near>
__device__ __forceinline__ ShiftedSum<T, near> reduce_lanes(const ShiftedSum<T, near>& state) {
    T greatest = state.greatest;
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
        greatest = maximum(greatest, shuffle_xor(whole_warp, greatest, distance));
    }
    T sum = state.sum * state.factor(greatest);
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
        sum += shuffle_xor(whole_warp, sum, distance);
    }
    return {greatest, sum};
}

// The least power of two that is not below a number.
__host__ __device__ constexpr int least_power_of_two(int number) {
    int power = 1;
    while (power < number) {
        power *= 2;
    }
    return power;
}

// The merged state of the `lanes` neighbouring threads, some warps of a block of `threads`, that each
// thread is one of. Every thread of the block must call it.
//
// `turn` alternates between two arrays from one call in a kernel to the next: nobody fills one
// again before all have passed the barrier of the call between, and so have read it.
template <int lanes, int threads, class State>
__device__ __forceinline__ State reduce_part(State state, int& turn) {
    constexpr int warps = lanes / 32;
    FUSEGEN_SHARED(State, states, 2 * (threads / 32));
    State* const exchanged = states + turn * (threads / 32);
    turn ^= 1;
    state = reduce_lanes<32>(state);
    if (threadIdx.x % 32 == 0) {
        exchanged[threadIdx.x / 32] = state;
    }
    __syncthreads();
    const State* const own = exchanged + (lanes < threads ? threadIdx.x / lanes * warps : 0);
    constexpr int places = least_power_of_two(warps);
    const int warp = threadIdx.x % places;
    if constexpr (places == warps) {
        return reduce_lanes<warps, 32>(own[warp]);
    } else {
        return reduce_lanes<places, 32>(warp < warps ? own[warp] : State::identity());
    }
}

// The merged state of all `threads` of the block, in each of them; as above.
template <int threads, class State>
__device__ __forceinline__ State reduce_block(State state, int& turn) {
    return reduce_part<threads, threads>(state, turn);
}

// The merged state of the threads that share `threadIdx.x % rows`, in each of them, for a block of
// `rows * lanes` threads. Every thread must call it.
template <int rows, int lanes, class State>
__device__ __forceinline__ State reduce_outer(State state) {
    FUSEGEN_SHARED(State, states, rows * lanes);
    states[threadIdx.x] = state;
    __syncthreads();
    const int row = threadIdx.x % rows;
    state = states[row];
    for (int lane = 1; lane < lanes; ++lane) {
        state.merge(states[lane * rows + row]);
    }
    __syncthreads();  // the next reduction uses the same array
    return state;
}

// What a thread has of the memory in which states of any type are exchanged.
struct alignas(16) OuterShare {
    std::uint32_t words[16];
};

template <int threads>
__device__ __forceinline__ OuterShare* outer_shares() {
    FUSEGEN_SHARED(OuterShare, shares, threads);
    return shares;
}

// The same for `count` states of each thread: as many at a time as its share of the memory holds,
// and each is merged by one thread.
template <int rows, int lanes, int count, class State>
__device__ __forceinline__ void reduce_outer(State (&own)[count]) {
    if constexpr (lanes > 1) {
        constexpr int fitting = static_cast<int>(sizeof(OuterShare) / sizeof(State));
        static_assert(fitting > 0, "a state fits into a thread's share");
        constexpr int together = fitting < count ? fitting : count;
        State* const states = reinterpret_cast<State*>(outer_shares<rows * lanes>());
        const int row = threadIdx.x % rows;
#pragma unroll
        for (int first = 0; first < count; first += together) {
#pragma unroll
            for (int i = 0; i < together && first + i < count; ++i) {
                states[i * (rows * lanes) + threadIdx.x] = own[first + i];
            }
            __syncthreads();
            for (int i = threadIdx.x / rows; i < together && first + i < count; i += lanes) {
                State* const of_row = states + i * (rows * lanes) + row;
                State total = of_row[0];
                for (int lane = 1; lane < lanes; ++lane) {
                    total.merge(of_row[lane * rows]);
                }
                of_row[0] = total;
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < together && first + i < count; ++i) {
                own[first + i] = states[i * (rows * lanes) + row];
            }
            __syncthreads();  // the next states take the place
        }
    }
}

// Stores the sums of `rows` arrays of `count` elements that follow each other in shared memory. All
// of a block's `threads` must call it.
template <int rows, int threads, class T>
__device__ __forceinline__ void store_added(T* target, const T* arrays, int count) {
    for (int i = threadIdx.x; i < count; i += threads) {
        T total = arrays[i];
#pragma unroll
        for (int row = 1; row < rows; ++row) {
            total += arrays[row * count + i];
        }
        target[i] = total;
    }
}

}  // namespace fusegen
