/*
 * The layout of the structs and the numbers of include/gradweir.h, a line each,
 * for tests/run/library.sh to compare with tests/reference/gradweir.structs:
 * programs have been compiled with them.
 */
#include "config.h"

#include <stdio.h>

#include <gradweir.h>

#define STRUCT(type) printf("struct %s %zu\n", #type, sizeof(struct type))
#define FIELD(type, field)                                                     \
    printf("  %s %zu %zu\n", #field, offsetof(struct type, field),             \
           sizeof(((struct type *)0)->field))
#define NUMBER(name) printf("%s %lld\n", #name, (long long)(name))

static void show_structs(void)
{
    STRUCT(gradweir_options);
    FIELD(gradweir_options, struct_size);
    FIELD(gradweir_options, coordinator);
    FIELD(gradweir_options, rank);
    FIELD(gradweir_options, set);
    FIELD(gradweir_options, sets);
    FIELD(gradweir_options, wait_ms);
    FIELD(gradweir_options, log);
    FIELD(gradweir_options, log_owner);
    FIELD(gradweir_options, log_level);
    STRUCT(gradweir_key);
    FIELD(gradweir_key, struct_size);
    FIELD(gradweir_key, name);
    FIELD(gradweir_key, type);
    FIELD(gradweir_key, dims);
    FIELD(gradweir_key, shape);
    FIELD(gradweir_key, group);
    STRUCT(gradweir_group);
    FIELD(gradweir_group, struct_size);
    FIELD(gradweir_group, rule);
    STRUCT(gradweir_declaration);
    FIELD(gradweir_declaration, struct_size);
    FIELD(gradweir_declaration, keys);
    FIELD(gradweir_declaration, n_keys);
    FIELD(gradweir_declaration, step_weight);
    FIELD(gradweir_declaration, scores);
    FIELD(gradweir_declaration, device);
    FIELD(gradweir_declaration, groups);
    FIELD(gradweir_declaration, n_groups);
    FIELD(gradweir_declaration, optimizer);
    FIELD(gradweir_declaration, own_steps);
    FIELD(gradweir_declaration, max_norm);
    STRUCT(gradweir_step);
    FIELD(gradweir_step, struct_size);
    FIELD(gradweir_step, task);
    FIELD(gradweir_step, number);
    FIELD(gradweir_step, weight);
    FIELD(gradweir_step, loss_scale);
    FIELD(gradweir_step, own);
    STRUCT(gradweir_terms);
    FIELD(gradweir_terms, struct_size);
    FIELD(gradweir_terms, lr);
    FIELD(gradweir_terms, weight_decay);
    FIELD(gradweir_terms, momentum);
    FIELD(gradweir_terms, beta1);
    FIELD(gradweir_terms, beta2);
    FIELD(gradweir_terms, eps);
    STRUCT(gradweir_result);
    FIELD(gradweir_result, struct_size);
    FIELD(gradweir_result, loss);
    FIELD(gradweir_result, correct);
    FIELD(gradweir_result, samples);
}

static void show_numbers(void)
{
    NUMBER(GRADWEIR_OK);
    NUMBER(GRADWEIR_EAGAIN);
    NUMBER(GRADWEIR_EINVAL);
    NUMBER(GRADWEIR_ERANGE);
    NUMBER(GRADWEIR_ENOMEM);
    NUMBER(GRADWEIR_ENOENT);
    NUMBER(GRADWEIR_EEXIST);
    NUMBER(GRADWEIR_EUNSUPPORTED);
    NUMBER(GRADWEIR_ECORRUPT);
    NUMBER(GRADWEIR_EIO);
    NUMBER(GRADWEIR_ENOSPC);
    NUMBER(GRADWEIR_EMISMATCH);
    NUMBER(GRADWEIR_EUSAGE);
    NUMBER(GRADWEIR_EEND);
    NUMBER(GRADWEIR_ECLOSED);
    NUMBER(GRADWEIR_EREFUSED);
    NUMBER(GRADWEIR_EPROTO);
    NUMBER(GRADWEIR_EVERSION);
    NUMBER(GRADWEIR_ECRC);
    NUMBER(GRADWEIR_ETIMEOUT);
    NUMBER(GRADWEIR_EADDRINUSE);
    NUMBER(GRADWEIR_EUNREACHABLE);
    NUMBER(GRADWEIR_EDEAD);
    NUMBER(GRADWEIR_EINTERRUPTED);
    NUMBER(GRADWEIR_ENONFINITE);
    NUMBER(GRADWEIR_EABORTED);
    NUMBER(GRADWEIR_ERESUMABLE);
    NUMBER(GRADWEIR_F32);
    NUMBER(GRADWEIR_BF16);
    NUMBER(GRADWEIR_F16);
    NUMBER(GRADWEIR_LOG_ERROR);
    NUMBER(GRADWEIR_LOG_WARN);
    NUMBER(GRADWEIR_LOG_INFO);
    NUMBER(GRADWEIR_LOG_DEBUG);
    NUMBER(GRADWEIR_RULE_OPTIMIZER);
    NUMBER(GRADWEIR_RULE_MEAN);
    NUMBER(GRADWEIR_TRAIN);
    NUMBER(GRADWEIR_SCORE);
    NUMBER(GRADWEIR_ANY_RANK);
    NUMBER(GRADWEIR_DIMS_MAX);
}

int main(void)
{
    show_structs();
    show_numbers();
    return 0;
}
