#include "tests/hostile/samples.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/document.h"
#include "tests/hostile/weir_child.h"
#include "tests/test.h"

#define PLANNED "-c two.json -s 1f1b -m 4 --budget 2000 --tied apart"
#define NO_GAPS "-c two.json -m 4 --budget 500"
#define TRAIN "weir train " SAMPLE_MODEL " --plan nano.plan.json --data text --steps "
#define TRAIN_TIED "weir train " SAMPLE_TIED " --plan tied.plan.json --data text --steps "

const struct sample samples[] = {
    { "profile.json", DAMAGE_JSON, "weir profile --lint damaged" },
    { "profile.json", DAMAGE_JSON, "weir partition damaged " PLANNED " -o made | weir check made --profile damaged" },
    { "profile.json", DAMAGE_JSON, "weir partition damaged " NO_GAPS " -s gpipe --tied apart --replicas auto -o made"
                                   " | weir simulate made" },
    { "profile.json", DAMAGE_JSON, "weir price damaged --cuts 2,2 " PLANNED },
    { "profile.json", DAMAGE_JSON, "weir price damaged --plan plan.json --budget 2000" },
    { "profile.json", DAMAGE_JSON, "weir keep damaged --plan plan.json --budget 500 --noise 3% --draws 2" },
    { "profile.json", DAMAGE_JSON, "weir front damaged " NO_GAPS " --tied apart -s 1f1b --resolution 50%" },
    { "profile.json", DAMAGE_JSON, "weir bottleneck damaged --model pipedream " NO_GAPS " -o made" },
    { "profile.json", DAMAGE_JSON, "weir bottleneck damaged --model max-load " NO_GAPS " -o made" },
    { "profile.json", DAMAGE_JSON, "weir sweep damaged " NO_GAPS " --tied apart" },
    { "profile.json", DAMAGE_JSON, "weir check plan.json --profile damaged" },
    { "profile.json", DAMAGE_JSON, "weir explain plan.json --profile damaged --budget 200" },
    { "cluster.json", DAMAGE_JSON, "weir partition profile.json -c damaged -p 2 -s 1f1b -m 4 --budget 500 --tied apart"
                                   " -o made | weir check made --profile profile.json" },
    { "cluster.json", DAMAGE_JSON, "weir check schedule.json --cluster damaged" },
    { "cluster.json", DAMAGE_JSON, "weir simulate schedule.json --cluster damaged" },
    { "two.json", DAMAGE_JSON, "weir bottleneck profile.json --model pipedream -m 4 --budget 500 -c damaged" },
    { "tables.json", DAMAGE_JSON, "weir place damaged -c two.json --seconds 0" },
    { "two.json", DAMAGE_JSON, "weir place tables.json -c damaged --seconds 0" },
    { "clicks.profile.json", DAMAGE_JSON, "weir place damaged -c two.json -m 2 --seconds 0" },
    { "plan.json", DAMAGE_JSON, "weir check damaged" },
    { "plan.json", DAMAGE_JSON, "weir check damaged --profile profile.json" },
    { "plan.json", DAMAGE_JSON, "weir simulate damaged" },
    { "plan.json", DAMAGE_JSON, "weir simulate damaged --format html -o made" },
    { "plan.json", DAMAGE_JSON, "weir simulate plan.json --against damaged" },
    { "plan.json", DAMAGE_JSON, "weir explain damaged --profile profile.json --budget 200" },
    { "plan.json", DAMAGE_JSON, "weir price profile.json --plan damaged --budget 500" },
    { "plan.json", DAMAGE_JSON, "weir keep profile.json --plan damaged --budget 500 -o made | weir check made" },
    { "plan.json", DAMAGE_JSON, "weir bottleneck profile.json --model pipedream -c two.json --plan damaged" },
    { "plan.json", DAMAGE_JSON, "weir export deepspeed damaged --profile profile.json" },
    { "plan.json", DAMAGE_JSON, "weir export pytorch-csv damaged" },
    { "nano.plan.json", DAMAGE_JSON, "weir export pytorch damaged" },
    { "nano.plan.json", DAMAGE_JSON, "weir verify damaged --steps 1" },
    { "nano.plan.json", DAMAGE_JSON, "weir train " SAMPLE_MODEL " --plan damaged --data text --steps 1" },
    { "hand.json", DAMAGE_JSON, "weir price hand.profile.json --plan damaged " PLANNED },
    { "schedule.json", DAMAGE_JSON, "weir check damaged" },
    { "schedule.json", DAMAGE_JSON, "weir check damaged --lower all --sends eager:1 --channels shared" },
    { "schedule.json", DAMAGE_JSON, "weir simulate damaged" },
    { "schedule.json", DAMAGE_JSON, "weir simulate damaged --noise 5% --trials 20 --one-lane" },
    { "schedule.json", DAMAGE_JSON, "weir simulate damaged --unit-steps" },
    { "schedule.json", DAMAGE_JSON, "weir simulate damaged --format trace -o made | weir simulate --trace made" },
    { "schedule.json", DAMAGE_JSON, "weir simulate schedule.json --against damaged --format html -o made" },
    { "schedule.json", DAMAGE_JSON, "weir schedule ./damaged --format json -o made | weir check made" },
    { "lowered.json", DAMAGE_JSON, "weir check damaged" },
    { "lowered.json", DAMAGE_JSON, "weir simulate damaged --cost 3,2,1,1" },
    { "lowered.json", DAMAGE_JSON, "weir schedule ./damaged --format csv -o made | weir check made" },
    { "schedule.csv", DAMAGE_LINES, "weir check damaged" },
    { "schedule.csv", DAMAGE_LINES, "weir simulate damaged --cost 3,2,1,1" },
    { "schedule.csv", DAMAGE_LINES, "weir schedule ./damaged --format json -o made | weir check made" },
    { "lowered.csv", DAMAGE_LINES, "weir check damaged --sends grouped" },
    { "lowered.csv", DAMAGE_LINES, "weir schedule ./damaged --format csv -o made | weir check made" },
    { "costs.json", DAMAGE_JSON, "weir simulate schedule.json --cost damaged" },
    { "costs.json", DAMAGE_JSON, "weir check schedule.json --cost damaged --lower timed" },
    { "costs.json", DAMAGE_JSON, "weir schedule search -p 2 -m 3 --cost damaged -o made | weir check made" },
    { "trace.json", DAMAGE_JSON, "weir simulate --trace damaged" },
    { "trace.json", DAMAGE_JSON, "weir simulate --trace damaged --format html -o made" },
    { "kineto.json", DAMAGE_JSON, "weir simulate --trace damaged" },
    { "plan.trace.json", DAMAGE_JSON, "weir compare plan.json damaged" },
    { "plan.trace.json", DAMAGE_JSON, "weir compare plan.json damaged --refine profile.json -o made"
                                      " | weir profile --lint made" },
    { "plan.json", DAMAGE_JSON, "weir compare damaged plan.trace.json --json" },
    { "profile.json", DAMAGE_JSON, "weir compare plan.json plan.trace.json --refine damaged -o made" },
    { "trace.json.gz", DAMAGE_BYTES, "weir simulate --trace damaged" },
    { "loads.json", DAMAGE_JSON, "weir bottleneck piper.profile.json --model tps -c piper.cluster.json"
                                 " --plan damaged" },
    { "pipedream.txt", DAMAGE_LINES, "weir import pipedream damaged -o made | weir profile --lint made" },
    { "piper.json", DAMAGE_JSON, "weir import piper damaged -o made | weir profile --lint made" },
    { "piper.json", DAMAGE_JSON, "weir import piper damaged --cluster-output made | weir check schedule.json -c made" },
    { "dnn.json", DAMAGE_JSON, "weir import dnn-partitioning damaged -o made | weir profile --lint made" },
    { "dnn.json", DAMAGE_JSON, "weir import dnn-partitioning damaged --cluster-output made -o ignored"
                               " | weir check schedule.json -c made" },
    { "tokens", DAMAGE_BYTES, "weir train " SAMPLE_MODEL " --plan nano.plan.json --data damaged --steps 1" },
    { "fields.json", DAMAGE_JSON, "weir data damaged" },
    { "pictures.idx", DAMAGE_BYTES, "weir data idx damaged labels.idx pictures.idx labels.idx -o made" },
    { "clicks//data.json", DAMAGE_JSON, "weir data damaged/data.json" },
    { "clicks.tsv", DAMAGE_LINES, "weir data criteo damaged --capacity 50 -o made | weir data made --reads 4" },
    { "films.inter", DAMAGE_LINES, "weir data movielens damaged films.item films.user -o made"
                                   " | weir data made --baseline" },
    { "films.item", DAMAGE_LINES, "weir data movielens films.inter damaged films.user -o made | weir data made" },
    { "films.user", DAMAGE_LINES, "weir data movielens films.inter films.item damaged -o made | weir data made" },
    { "config.json", DAMAGE_JSON, "weir estimate damaged --device h100-sxm -o made | weir profile --lint made" },
    { "config.json", DAMAGE_JSON, "weir sweep --config damaged --device h100-sxm --devices 2 --global-batch 4"
                                  " --budget 20" },
    { "mixtral.json", DAMAGE_JSON, "weir estimate damaged --device h100-sxm --variants 2 -o made"
                                   " | weir profile --lint made" },
    { "device.json", DAMAGE_JSON, "weir estimate config.json --device ./damaged -o made | weir profile --lint made" },
    { "device.json", DAMAGE_JSON, "weir sweep --config config.json --device ./damaged --devices 2 --global-batch 4"
                                  " --budget 20" },
    { "kept//step-1/manifest.json", DAMAGE_JSON, "weir eval " SAMPLE_MODEL " --checkpoint damaged --data text" },
    { "clicks.plan.json", DAMAGE_JSON, "weir score damaged --weights clicked --data clicks/data.json" },
    { "clicked//step-1/manifest.json", DAMAGE_JSON,
      "weir score clicks.plan.json --weights damaged --data clicks/data.json" },
    { "kept//step-1/manifest.json", DAMAGE_JSON, TRAIN "1 --checkpoints damaged --resume" },
    { "kept//step-1/head.safetensors", DAMAGE_BYTES,
      "weir sample " SAMPLE_MODEL " --checkpoint damaged --tokens 3 abc" },
    { "kept//step-1/head.safetensors", DAMAGE_BYTES, TRAIN "1 --checkpoints damaged --resume" },
    { "kept/step-1//head.safetensors", DAMAGE_BYTES, TRAIN "1 --weights damaged" },
    { "kept//step-1/head.optimizer.safetensors", DAMAGE_BYTES, TRAIN "1 --checkpoints damaged --resume" },
    { "tied/step-1//config.json", DAMAGE_JSON, TRAIN_TIED "1 --weights damaged" },
    { "tied/step-1//model.safetensors.index.json", DAMAGE_JSON, TRAIN_TIED "1 --weights damaged" },
    { "log.jsonl", DAMAGE_LINES, TRAIN "1 --checkpoints kept --resume --log damaged" },
};
const size_t sample_count = sizeof samples / sizeof samples[0];

const char *sample_path(const char *folder, const char *file)
{
    static char path[4096];
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path);
    return path;
}

static void save_at(const char *path, const char *bytes, size_t length)
{
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, length, to), length);
    assert_int_equal(fclose(to), 0);
}

static void save(const char *folder, const char *file, const char *bytes, size_t length)
{
    save_at(sample_path(folder, file), bytes, length);
}

static void copy_file(const char *from, const char *to)
{
    struct error error = { 0 };
    size_t length;
    char *text = text_load(from, &length, &error);
    assert_good(text, error);
    save_at(to, text, length);
    free(text);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void copy_folder(const char *from, const char *to)
{
    DIR *entries = opendir(from);
    assert_non_null(entries);
    assert_int_equal(mkdir(to, 0700), 0);
    for (const struct dirent *entry; (entry = readdir(entries));) {
        char source[4096], target[4096];
        struct stat about;
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        assert_int_equal(stat(source, &about), 0);
        if (S_ISDIR(about.st_mode))
            copy_folder(source, target);
        else
            copy_file(source, target);
    }
    closedir(entries);
}

const char *sample_place(const char *folder, const struct sample *sample)
{
    char damaged[4096], copied[300], place[300];
    snprintf(damaged, sizeof damaged, "%s", sample_path(folder, "damaged"));
    remove_all(damaged);
    snprintf(copied, sizeof copied, "%s", sample->file);
    char *within = strstr(copied, "//");
    if (!within)
        return sample_path(folder, "damaged");
    *within = '\0';
    copy_folder(sample_path(folder, copied), damaged);
    snprintf(place, sizeof place, "damaged/%s", within + 2);
    assert_int_equal(unlink(sample_path(folder, place)), 0);
    return sample_path(folder, place);
}

char *sample_load(const char *folder, const char *file, size_t *length)
{
    struct error error = { 0 };
    char *text = text_load(sample_path(folder, file), length, &error);
    assert_good(text, error);
    return text;
}


static void save_block(const char *folder, const char *file, const char *page, const char *language)
{
    char *text = test_block(page, language);
    save(folder, file, text, strlen(text));
    free(text);
}

static void copy(const char *folder, const char *file, const char *from)
{
    copy_file(from, sample_path(folder, file));
}

static void run(const char *folder, const char *line)
{
    char copied[500];
    const char *words[40];
    struct child child = { 0 };
    snprintf(copied, sizeof copied, "%s", line);
    child_words(copied, words, sizeof words / sizeof words[0]);
    child_run(words, folder, &child);
    if (child.code != 0)
        fail_msg("%s: exit code %d, signal %d: %s", line, child.code, child.signal, child.err);
    child_clear(&child);
}

// What was measured differs from run to run, and documents here must not: times become numbers that count up.
static void settle_times(cJSON *value, double *next)
{
    cJSON_DeleteItemFromObject(value, "spread");
    const char *unit = value->string ? strstr(value->string, "_ns") : NULL;
    if (unit && cJSON_IsNumber(value)) {
        *next += 100;
        cJSON_SetNumberValue(value, *next);
    }
    for (cJSON *child = value->child; child; child = child->next)
        settle_times(child, next);
}

static void make_settled(const char *folder, const char *file, const char *from)
{
    size_t length;
    double next = 1000;
    char *text = sample_load(folder, from, &length);
    cJSON *profile = cJSON_Parse(text);
    assert_non_null(profile);
    settle_times(cJSON_GetObjectItem(profile, "layers"), &next);
    cJSON *source = cJSON_GetObjectItem(profile, "source");
    settle_times(source, &next);
    cJSON_ReplaceItemInObject(source, "device", cJSON_CreateString("a processor"));
    char *settled = cJSON_Print(profile);
    save(folder, file, settled, strlen(settled));
    free(settled);
    cJSON_Delete(profile);
    free(text);
}

static void make_packed(const char *folder)
{
    size_t length;
    char *text = sample_load(folder, "trace.json", &length);
    gzFile file = gzopen(sample_path(folder, "trace.json.gz"), "w");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)length), length);
    assert_int_equal(gzclose(file), Z_OK);
    free(text);
}

// More than training wants of a text, and as few tokens as it takes.
static void make_texts(const char *folder)
{
    enum { TOKENS = 40960, HEAD = 24 };
    static unsigned char tokens[HEAD + 2 * TOKENS] = { 'w', 'e', 'i', 'r', '.', 't', 'o', 'k', 1, 0, 0, 0, 0, 1, 0, 0,
                                                       TOKENS & 255, TOKENS >> 8 };
    for (size_t i = 0; i < TOKENS; i++)
        tokens[HEAD + 2 * i] = (unsigned char)('a' + i * i % 23);
    save(folder, "tokens", (const char *)tokens, sizeof tokens);
    static char text[2 * TOKENS];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 19);
    save(folder, "text", text, sizeof text);
}

// Pictures of four pixels, with labels below 3.
static void make_pictures(const char *folder)
{
    enum { PICTURES = 6, PIXELS = 4 };
    unsigned char pictures[16 + PICTURES * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, PICTURES, 0, 0, 0, 2, 0, 0, 0, 2 };
    unsigned char labels[8 + PICTURES] = { 0, 0, 8, 1, 0, 0, 0, PICTURES };
    for (int i = 0; i < PICTURES * PIXELS; i++)
        pictures[16 + i] = (unsigned char)(7 * i);
    for (int i = 0; i < PICTURES; i++)
        labels[8 + i] = (unsigned char)(i % 3);
    save(folder, "pictures.idx", (const char *)pictures, sizeof pictures);
    save(folder, "labels.idx", (const char *)labels, sizeof labels);
    run(folder, "weir data idx pictures.idx labels.idx pictures.idx labels.idx -o fields.json");
    unsigned char numbers[2 * PICTURES * (PIXELS + 1)];  // as beside fields.json, for copies of it
    for (int i = 0; i < 2; i++) {
        memcpy(numbers + i * PICTURES * PIXELS, pictures + 16, PICTURES * PIXELS);
        memcpy(numbers + 2 * PICTURES * PIXELS + i * PICTURES, labels + 8, PICTURES);
    }
    save(folder, "damaged.numbers", (const char *)numbers, sizeof numbers);
}

// Clicks: generated ones, twelve lines of Criteo's form, and RecBole's three files.
static void make_clicks(const char *folder)
{
    static const char films[] = "item_id:token\trelease_year:token\tclass:token_seq\n0\t1995\tDrama War\n1\t\t\n";
    static const char users[] = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
                                "5\t24\tM\twriter\t85711\n6\t\tF\tartist\tV3\n";
    struct text lines = { 0 }, ratings = { 0 };
    text_add(&ratings, "user_id:token\titem_id:token\trating:float\ttimestamp:float\n");
    for (int i = 0; i < 12; i++) {
        text_add(&lines, "%d\t5\t-1\t\t", i % 2);
        text_add_repeated(&lines, "7\t", 10);
        text_add_repeated(&lines, "beef\t\t", 12);
        text_add(&lines, "%d\t00ff00ff\n", i);
    }
    for (int i = 0; i < 40; i++)
        text_add(&ratings, "%d\t%d\t%d\t%d\n", 5 + i % 2, i / 2 % 2, 1 + i % 5, i);
    save(folder, "clicks.tsv", lines.data, lines.length);
    save(folder, "films.inter", ratings.data, ratings.length);
    save(folder, "films.item", films, sizeof films - 1);
    save(folder, "films.user", users, sizeof users - 1);
    assert_int_equal(mkdir(sample_path(folder, "clicks"), 0700), 0);
    run(folder, "weir data make-clicks --samples 50 --slots 3 --numbers 2 --ids 9 --most 2 -o clicks/data.json");
    text_clear(&lines);
    text_clear(&ratings);
}

static void make_handmade(const char *folder)
{
    static const char two[] = "{\"format\": \"weir.cluster\", \"version\": 1, \"devices\": ["
                              "{\"name\": \"a\", \"memory_bytes\": 1073741824, \"speed_permille\": 1000},"
                              "{\"name\": \"b\", \"memory_bytes\": 1073741824, \"speed_permille\": 1000}],"
                              "\"levels\": [{\"size\": 2, \"latency_ns\": 1000, \"bytes_per_second\": 1000000000}]}";
    save(folder, "two.json", two, strlen(two));
    static const char *const names[] = { "embedding", "block0", "block1", "block2", "head" };
    struct text text = { 0 };
    text_add(&text, "{\"format\": \"weir.profile\", \"version\": 1, \"model\": \"hand\", \"micro_batch\": 1,"
                    " \"dtype\": \"fp32\","
                    " \"source\": {\"how\": \"estimated\", \"device\": \"none\", \"clock\": \"none\", \"repeats\": 1,"
                    " \"sum_ns\": 0, \"whole_ns\": 0, \"backward_split\": \"assumed\"}, \"layers\": [");
    for (size_t i = 0; i < 5; i++)
        text_add(&text, "%s{\"name\": \"%s\", \"kind\": \"\", \"forward_ns\": 1000, \"backward_input_ns\": 900,"
                        " \"backward_weight_ns\": 800, \"parameter_bytes\": 64, \"output_bytes\": 64,"
                        " \"saved_bytes\": 64,"
                        " \"input_kept\": \"both\", \"held_for_weight_bytes\": 0, \"workspace_bytes\": 0,"
                        " \"backward_workspace_bytes\": 0, \"flops\": 0}", i ? "," : "", names[i]);
    text_add(&text, "]}");
    save(folder, "hand.profile.json", text.data, text.length);
    text_clear(&text);
}

char *samples_make(void)
{
    char name[] = "/tmp/weir-hostile-XXXXXX";
    assert_non_null(mkdtemp(name));
    make_handmade(name);
    make_texts(name);
    make_pictures(name);
    make_clicks(name);
    save_block(name, "profile.json", "docs/formats/profile.md", "json");
    save_block(name, "cluster.json", "docs/formats/cluster.md", "json");
    save_block(name, "schedule.json", "docs/formats/schedule.md", "json");
    save_block(name, "schedule.csv", "docs/formats/csv.md", "csv");
    save_block(name, "costs.json", "docs/formats/costs.md", "json");
    save_block(name, "trace.json", "docs/formats/trace.md", "json");
    save_block(name, "hand.json", "docs/formats/plan-by-hand.md", "json");
    save_block(name, "tables.json", "docs/formats/tables.md", "json");
    save_block(name, "loads.json", "docs/formats/loads.md", "json");
    save_block(name, "piper.json", "docs/formats/piper.md", "json");
    save_block(name, "dnn.json", "docs/formats/dnn-partitioning.md", "json");
    copy(name, "pipedream.txt", "tests/fuzz/seeds/pipedream/small.txt");
    copy(name, "kineto.json", "tests/fuzz/seeds/trace/kineto.json");
    save_block(name, "device.json", "docs/formats/device.md", "json");
    copy(name, "config.json", "tests/fuzz/seeds/transformer/gpt2.json");
    copy(name, "mixtral.json", "tests/fuzz/seeds/transformer/mixtral.json");
    copy(name, "lowered.csv", "tests/fuzz/seeds/csv/zb-h1-lowered.csv");
    make_packed(name);
    run(name, "weir import piper piper.json -o piper.profile.json --cluster-output piper.cluster.json");
    run(name, "weir schedule zb-v -p 2 -m 3 --lowered --format json -o lowered.json");
    run(name, "weir partition profile.json " PLANNED " -o plan.json");
    run(name, "weir simulate plan.json --format trace -o plan.trace.json");
    run(name, "weir profile " SAMPLE_MODEL " --repeats 20 -o measured.json");
    make_settled(name, "nano.json", "measured.json");
    run(name, "weir partition nano.json " PLANNED " -o nano.plan.json");
    run(name, TRAIN "1 --checkpoints kept --log log.jsonl");
    run(name, "weir profile " SAMPLE_TIED " --repeats 20 -o measured.json");
    make_settled(name, "tied.json", "measured.json");
    run(name, "weir partition tied.json " PLANNED " -o tied.plan.json");
    run(name, TRAIN_TIED "1 --checkpoints tied");
    run(name, "weir profile " SAMPLE_CLICKS " --repeats 20 --data clicks/data.json --batches 6 -o measured.json");
    make_settled(name, "clicks.profile.json", "measured.json");
    run(name, "weir partition clicks.profile.json -c two.json -s 1f1b -m 2 --budget 500 -o clicks.plan.json");
    run(name, "weir train " SAMPLE_CLICKS " --plan clicks.plan.json --data clicks/data.json --steps 1"
              " --checkpoints clicked");
    return strdup(name);
}

void samples_remove(char *folder)
{
    remove_all(folder);
    free(folder);
}
