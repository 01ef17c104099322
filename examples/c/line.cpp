// line.c in C++17: a job that closes itself, and failures as exceptions.
//
//   c++ -std=c++17 -o line line.cpp $(pkg-config --cflags --libs gradweir)
//   gradweir run --workers 2 --set optimizer.lr=0.2 -- ./line
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>

#include <gradweir.h>

constexpr int points = 32;            // of this rank, in each step
using Weights = std::array<float, 2>; // slope and offset

template <class T> T sized()
{
    T value{};
    value.struct_size = sizeof value;
    return value;
}

using Job = std::unique_ptr<gradweir_job, decltype(&gradweir_close)>;

Job open_job()
{
    auto options = sized<gradweir_options>();
    options.rank = GRADWEIR_ANY_RANK;
    gradweir_job *job;
    char why[512];
    if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK)
        throw std::runtime_error(why);
    return Job(job, gradweir_close);
}

// Mean loss of (a x + b - y)^2 / 2, and the mean of its gradient.
double compute(const Weights &w, std::mt19937_64 &random, Weights &gradient)
{
    std::uniform_real_distribution<float> draw(-1, 1);
    float loss = 0;
    gradient = {};
    for (int i = 0; i < points; i++) {
        float x = draw(random), y = 3 * x - 1 + 0.1f * draw(random);
        float miss = w[0] * x + w[1] - y;
        gradient[0] += miss * x / points;
        gradient[1] += miss / points;
        loss += miss * miss / 2 / points;
    }
    return static_cast<double>(loss);
}

void train(gradweir_job *job)
{
    // false: the step, or the job, is not to be finished
    auto call = [job](int status) {
        if (status != GRADWEIR_OK && status != GRADWEIR_EEND)
            throw std::runtime_error(gradweir_error(job));
        return status == GRADWEIR_OK;
    };
    auto keys = std::array{sized<gradweir_key>(), sized<gradweir_key>()};
    auto declaration = sized<gradweir_declaration>();
    auto step = sized<gradweir_step>();
    auto result = sized<gradweir_result>();
    Weights w{}, gradient{};
    result.samples = points;
    keys[0].name = "slope";
    keys[1].name = "offset";
    declaration.keys = keys.data();
    declaration.n_keys = keys.size();
    call(gradweir_join(job, -1));
    call(gradweir_declare(job, &declaration, -1));
    for (size_t key = 0; key < 2 && gradweir_makes_weights(job); key++)
        call(gradweir_put(job, key, &w[key]));
    call(gradweir_start(job, -1));
    std::mt19937_64 random(gradweir_rank(job) + 1);
    for (int i = 0; i < 200 && call(gradweir_begin(job, &step, -1)); i++) {
        if (call(gradweir_wait(job, 0, 2, -1))) {
            for (size_t key = 0; key < 2; key++)
                call(gradweir_take(job, key, &w[key]));
            result.loss = compute(w, random, gradient);
            for (size_t key = 0; key < 2; key++)
                call(gradweir_push(job, key, &gradient[key]));
        }
        call(gradweir_end(job, &result, -1));
    }
    call(gradweir_finish(job, -1));
    for (size_t key = 0; key < 2; key++)
        call(gradweir_take(job, key, &w[key]));
    if (gradweir_rank(job) == 0)
        std::printf("y = %.3f x %+.3f\n", double(w[0]), double(w[1]));
}

int main()
try {
    train(open_job().get());
} catch (const std::exception &failure) {
    std::fprintf(stderr, "line: %s\n", failure.what());
    return 1;
}
