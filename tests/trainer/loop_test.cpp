// Runs weft-train as a user does: a small model on the CPU learns, evaluates, stops, is killed, and
// goes on.
#include <gmock/gmock.h>

#include <csignal>

#include "indexed_dataset/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Training, LearnsEvaluatesAndSaves) {
  ASSERT_EQ(run(arguments("run", 60)), 0) << output();
  const auto lines = metrics("run");
  ASSERT_GE(lines.size(), 60U);
  EXPECT_NEAR(lines.front().at("lm_loss").get<double>(), std::log(64),
              0.2);  // uniform over the vocabulary; the padding has no part in it
  double last = 0;
  for (const auto& line : lines) last = line.value("lm_loss", last);
  EXPECT_LT(last, 3.4);
  const std::string log = output();
  for (const char* text :
       {"using world size: 1,", "------------------------ arguments ------------------------",
        "setting number of micro-batches to constant 4",
        "[before the start of training step] datetime: ",
        " iteration        1/      60 | consumed samples:            8 | elapsed time per "
        "iteration (ms): ",
        " | learning rate: 1.667E-03 | global batch size:     8 | lm loss: 4.1",
        "\ntime (ms) | forward-compute: ",
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: ",
        " validation loss at iteration 10 | lm loss value: ",
        "saving checkpoint at iteration       5 to ",
        "  successfully saved checkpoint at iteration       5 to ",
        "[after training is done] datetime: ",
        " validation loss at the end of training for val data | lm loss value: ",
        " validation loss at the end of training for test data | lm loss value: "}) {
    EXPECT_THAT(log, HasSubstr(text));
  }
  EXPECT_EQ(tracker("run"), "60");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/run_manifest.json"));
}

TEST_F(Training, KilledAtAnyMomentItEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("undisturbed", 100)), 0) << output();
  std::mt19937 random(std::random_device{}());
  int num_kills = 0;
  for (int code = -1; code != 0;) {
    const pid_t child = start(arguments("killed", 100));
    const auto done = metrics("killed");
    const int64_t reached = done.empty() ? 0 : done.back().at("iteration").get<int64_t>();
    wait_for_iteration("killed", reached + static_cast<int64_t>(random() % 7), child);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    kill(child, SIGKILL);
    code = wait(child);
    ASSERT_THAT(code, testing::AnyOf(0, 128 + SIGKILL)) << output();
    if (code != 0 && ++num_kills > 30) break;
  }
  ASSERT_EQ(run(arguments("killed", 100)), 0) << output();
  EXPECT_GT(num_kills, 0);  // 100 steps and 20 synced saves never fit into the longest wait
  EXPECT_EQ(trajectory("killed"), trajectory("undisturbed")) << num_kills << " kills";
}

TEST_F(Training, AModelWithoutBiasesAndWithAHeadOfItsOwnGoesOnExactly) {
  const Arguments shape = {"--untie-embeddings-and-output-weights", "--disable-bias-linear",
                           "--add-qkv-bias"};
  Arguments first_part = shape;
  first_part.insert(first_part.end(), {"--exit-interval", "7"});
  ASSERT_EQ(run(arguments("whole", 20, shape)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, first_part)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, shape)), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  EXPECT_LT(metrics("whole").at(18).at("lm_loss").get<double>(), 3.9);
  EXPECT_EQ(run(arguments("parts", 30)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("untie_embeddings_and_output_weights is true in the checkpoint"));
  ASSERT_EQ(run(arguments("tied", 5)), 0) << output();
  EXPECT_EQ(run(arguments("tied", 10, shape)), 2) << output();
}

TEST_F(Training, RecomputationMayChangeOnResumeAndChangesNoBit) {
  ASSERT_EQ(run(arguments("whole", 15)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 15,
                          {"--recompute-granularity", "full", "--recompute-method", "block",
                           "--exit-interval", "7"})),
            0)
      << output();
  ASSERT_EQ(run(arguments("parts", 15, {"--checkpoint-activations"})), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
}

TEST_F(Training, AModelOfLlamasShapeGoesOnExactly) {
  const Arguments shape = {"--normalization",
                           "RMSNorm",
                           "--norm-epsilon",
                           "1e-6",
                           "--swiglu",
                           "--ffn-hidden-size",
                           "48",
                           "--position-embedding-type",
                           "rope",
                           "--group-query-attention",
                           "--num-query-groups",
                           "1",
                           "--disable-bias-linear",
                           "--untie-embeddings-and-output-weights"};
  Arguments first_part = shape;
  first_part.insert(first_part.end(), {"--exit-interval", "7"});
  ASSERT_EQ(run(arguments("whole", 20, shape)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, first_part)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, shape)), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  EXPECT_LT(metrics("whole").at(18).at("lm_loss").get<double>(), 3.9);
  EXPECT_EQ(run(arguments("parts", 30)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("normalization is RMSNorm in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("glu_activation is swiglu in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("position_embedding_type is rope in the checkpoint and not"));
  EXPECT_THAT(output(), HasSubstr("num_query_groups is 1 in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("layernorm_epsilon is 1e-06 in the checkpoint and 1e-05 in"));
  ASSERT_EQ(run(arguments("gpt", 5)), 0) << output();
  EXPECT_EQ(run(arguments("gpt", 10, shape)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("normalization is not given in the checkpoint and RMSNorm in"));
}

TEST_F(Training, AModelOfBloomsShapeGoesOnExactly) {
  const Arguments shape = {"--embed-layernorm", "--position-embedding-type", "alibi"};
  Arguments first_part = shape;
  first_part.insert(first_part.end(), {"--exit-interval", "7"});
  ASSERT_EQ(run(arguments("whole", 20, shape)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, first_part)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, shape)), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  EXPECT_EQ(run(arguments("parts", 30)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("embed_layernorm is true in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("position_embedding_type is alibi in the checkpoint and not"));
}

TEST_F(Training, NoFailingCallOfTheStartIsPassedOver) {
  for (int i = 1; i <= 30; ++i) {
    setenv("WEFT_IO_FAIL_AT", (std::to_string(i) + ":28").c_str(), 1);  // ENOSPC
    EXPECT_EQ(run(arguments("fault" + std::to_string(i), 12)), 5) << i << "\n" << output();
    unsetenv("WEFT_IO_FAIL_AT");
  }
}

TEST_F(Training, AFailingCallEndsTheRunAndTheNextOneGoesOnExactly) {
  ASSERT_EQ(run(arguments("undisturbed", 12)), 0) << output();
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 6; ++i) {
    const std::string name = "fault" + std::to_string(i);
    const std::string fault = std::to_string(1 + random() % 150) + ":28";  // ENOSPC
    setenv("WEFT_IO_FAIL_AT", fault.c_str(), 1);
    const int code = run(arguments(name, 12));
    unsetenv("WEFT_IO_FAIL_AT");
    ASSERT_EQ(code, 5) << fault << "\n" << output();
    EXPECT_THAT(output(), HasSubstr("error: ")) << fault;
    ASSERT_EQ(run(arguments(name, 12)), 0) << fault << "\n" << output();
    EXPECT_EQ(trajectory(name), trajectory("undisturbed")) << fault;
  }
}

TEST_F(Training, FinishesItsStepAndSavesOnSignals) {
  ASSERT_EQ(run(arguments("undisturbed")), 0) << output();
  for (const int signal_number : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    const std::string name = "signal" + std::to_string(signal_number);
    const pid_t child = start(arguments(name));
    wait_for_iteration(name, 3, child);
    kill(child, signal_number);
    ASSERT_EQ(wait(child), 10) << output();
    EXPECT_THAT(output(), HasSubstr("[exiting program after receiving SIG"));
    const int64_t last = metrics(name).back().at("iteration");
    EXPECT_EQ(tracker(name), std::to_string(last));
    ASSERT_EQ(run(arguments(name)), 0) << output();
    EXPECT_EQ(trajectory(name), trajectory("undisturbed"));
  }
}

TEST_F(Training, ASignalThatComesAgainMuchLaterEndsARunThatHangs) {
  setenv("WEFT_CRASH_AT", ("file_mapped:1:" + (folder_ / "go").string()).c_str(), 1);
  const pid_t child = start(arguments("run"));
  unsetenv("WEFT_CRASH_AT");
  while (!std::filesystem::exists(folder_ / "go.waiting")) usleep(1000);
  kill(child, SIGTERM);
  usleep(300'000);
  kill(child, SIGTERM);  // launchers deliver a signal twice
  sleep(6);
  ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it ended by a signal that came at once again";
  kill(child, SIGTERM);
  EXPECT_EQ(wait(child), 128 + SIGTERM) << output();
}

TEST_F(Training, LimitsOfTheProcessAreExitNine) {
  for (const auto& [kib, flags, message] :
       // 64 threads that multiply want 128 MiB each for OpenBLAS.
       {std::tuple{"6000000", Arguments{}, "of address space"},
        {"4000000", Arguments{"--num-workers", "1000"}, "cannot start another thread"}}) {
    std::string command = "ulimit -v " + std::string(kib) + "; OMP_NUM_THREADS=64 exec " +
                          std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
    for (const std::string& argument : arguments("run", 30, flags)) command += " " + argument;
    command += " > " + (folder_ / "out").string() + " 2>&1";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 9) << output();
    EXPECT_THAT(output(), HasSubstr(message));
  }
}

TEST_F(Training, AFolderThatCannotBeMadeIsNamedWithItsFlag) {
  write_file_atomically(folder_ / "file", "");
  EXPECT_EQ(run(arguments("file/run")), 4);
  EXPECT_THAT(output(), HasSubstr("error: --tensorboard-dir " + (folder_ / "file/run/tb").string() +
                                  ": cannot create this folder: Not a directory"));
}

TEST_F(Training, ASignalInAnEvaluationIsMadeUpForOnResume) {
  // Evaluations of 100 batches follow every step, so the signal arrives during one of them.
  const auto slow = [&](const std::string& run) {
    return arguments(run, 6,
                     {"--eval-iters", "100", "--eval-interval", "1", "--split", "40,30,30"});
  };
  ASSERT_EQ(run(slow("undisturbed")), 0) << output();
  const pid_t child = start(slow("stopped"));
  wait_for_iteration("stopped", 3, child);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);
  ASSERT_EQ(wait(child), 10) << output();
  ASSERT_EQ(run(slow("stopped")), 0) << output();
  EXPECT_EQ(trajectory("stopped"), trajectory("undisturbed"));
}

TEST_F(Training, TwoRunsNeverSaveIntoOneFolder) {
  const pid_t first = start(arguments("run", 100'000));
  wait_for_iteration("run", 2, first);
  EXPECT_EQ(run(arguments("run")), 8) << output();
  EXPECT_THAT(output(), HasSubstr("is locked: process " + std::to_string(first)));
  kill(first, SIGKILL);
  EXPECT_EQ(wait(first), 128 + SIGKILL);
  // A killed run holds no lock.
  EXPECT_EQ(run(arguments("run", 100'000, {"--exit-interval", "1"})), 0) << output();
}

TEST_F(Training, OverwritesCheckpointsOnlyIfAsked) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  const auto before = metrics("run");
  const Arguments anew = arguments("run", 5, {"--load", (folder_ / "empty").string()});
  EXPECT_EQ(run(anew), 2) << output();
  EXPECT_THAT(output(), HasSubstr("run holds checkpoints, the newest of iteration 5"));
  EXPECT_EQ(run(arguments("run", 5, {"--finetune"})), 2) << "it would overwrite its own source";
  EXPECT_EQ(metrics("run"), before);
  Arguments asked = anew;
  asked.push_back("--overwrite");
  EXPECT_EQ(run(asked), 0) << output();
}

// A copy of a run that left the text files out has no tracker.
TEST_F(Training, WithoutATrackerTheNewestWholeCheckpointIsTaken) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  std::filesystem::remove(folder_ / "run/latest_checkpointed_iteration.txt");
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("of iteration 10, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, ATornCheckpointIsPassedOverForTheOneBeforeIt) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  const auto state = folder_ / "run/iter_0000010/state_00000.safetensors";
  std::filesystem::resize_file(state, std::filesystem::file_size(state) / 2);
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("iteration 10, which the tracker names, cannot be loaded"));
  EXPECT_THAT(output(), HasSubstr("of iteration 5, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, ACheckpointWithoutItsManifestIsPassedOverAndReplaced) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  std::filesystem::remove(folder_ / "run/iter_0000010/manifest.json");
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("of iteration 5, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, AFolderOfAnotherProgramIsNamedBeforeTheFirstStep) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  std::filesystem::create_directories(folder_ / "run/iter_0000100/mp_rank_00");
  EXPECT_EQ(run(arguments("run", 10)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("iter_0000100 holds files, but no checkpoint of Weft"));
}

TEST_F(Training, LeftoversAreOnlyOurNames) {
  std::filesystem::create_directories(folder_ / "run/iter_notes.part");
  EXPECT_EQ(run(arguments("run", 5)), 0) << output();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/iter_notes.part"));
}

TEST_F(Training, FoldersOfAnotherProgramAreNotOverwritten) {
  std::filesystem::create_directories(folder_ / "run/iter_0000005/mp_rank_00");
  EXPECT_EQ(run(arguments("run", 5)), 3) << output();
  EXPECT_THAT(output(), HasSubstr("holds iter_0000005, but no checkpoint that can be loaded"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/iter_0000005/mp_rank_00"));
}

TEST_F(Training, PathsNeedNotBeUtf8) { EXPECT_EQ(run(arguments("run\xff", 5)), 0) << output(); }

TEST_F(Training, ExitDurationSavesAndIsNoError) {
  ASSERT_EQ(run(arguments("run", 100000, {"--exit-duration-in-mins", "0.01", "--eval-iters", "0"})),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("[exiting program after 0.0"));
  EXPECT_EQ(tracker("run"), std::to_string(metrics("run").back().at("iteration").get<int64_t>()));
}

TEST_F(Training, ExitIntervalCountsAbsoluteIterationsAndIsNoError) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "7"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("[exiting program at iteration 7] datetime: "));
  EXPECT_EQ(tracker("run"), "7");
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "7"})), 0) << output();
  EXPECT_EQ(tracker("run"), "14");
}

TEST_F(Training, RampUpResumesInItsMiddle) {
  const Arguments samples = {"--train-samples", "200", "--rampup-batch-size", "2", "2", "60"};
  const auto by_samples = [&](const std::string& run, const Arguments& more = {}) {
    Arguments all = arguments(run);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == "--train-iters")
        all.erase(all.begin() + static_cast<long>(i), all.begin() + static_cast<long>(i) + 2);
      if (all[i] == "--lr-warmup-iters") all[i] = "--lr-warmup-samples";
    }
    all.insert(all.end(), samples.begin(), samples.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(by_samples("undisturbed")), 0) << output();
  ASSERT_EQ(run(by_samples("resumed", {"--exit-interval", "13"})), 0) << output();
  ASSERT_EQ(run(by_samples("resumed")), 0) << output();
  EXPECT_EQ(trajectory("resumed"), trajectory("undisturbed"));
  EXPECT_THAT(output(), HasSubstr("will use batch size rampup starting from global batch size 2 to "
                                  "global batch size 8 with "
                                  "batch size increments 2 over 60 samples."));
}

TEST_F(Training, BfloatAndMaskedLossAndParamsNormResumeToo) {
  const Arguments more = {"--bf16", "--eod-mask-loss", "--log-params-norm"};
  ASSERT_EQ(run(arguments("undisturbed", 12, more)), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" | params norm: "));
  Arguments stopped = arguments("resumed", 12, more);
  stopped.insert(stopped.end(), {"--exit-interval", "7"});
  ASSERT_EQ(run(stopped), 0) << output();
  ASSERT_EQ(run(arguments("resumed", 12, more)), 0) << output();
  EXPECT_EQ(trajectory("resumed"), trajectory("undisturbed"));
}

TEST_F(Training, NumbersThatAreNotFiniteStopTheRunAndLeaveTheCheckpoint) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  EXPECT_EQ(run(arguments("run", 30, {"--lr", "1e30", "--override-lr-scheduler"})), 11) << output();
  EXPECT_THAT(output(), HasSubstr("error: iteration "));
  EXPECT_THAT(output(), HasSubstr("the last one is of iteration 5"));
  EXPECT_EQ(tracker("run"), "5");
}

TEST_F(Training, AnotherScheduleOnResumeIsAUsageError) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  EXPECT_EQ(run(arguments("run", 30, {"--lr", "1e-3"})), 2);
  EXPECT_THAT(
      output(),
      HasSubstr(
          "AnnealingLR: class input value 0.001 and checkpoint value 0.005 for learning rate"));
}

TEST_F(Training, WeightsAloneGoOnWithAFreshOptimizerAndFinetuningStartsAnew) {
  ASSERT_EQ(run(arguments("run", 30, {"--no-save-optim", "--bf16", "--exit-interval", "10"})), 0)
      << output();
  ASSERT_EQ(run(arguments("run", 30, {"--bf16", "--exit-interval", "12"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" > weights only: iteration 10, fresh optimizer"));
  EXPECT_EQ(metrics("run").back().at("iteration"), 12);

  Arguments finetune = arguments("other", 5, {"--bf16", "--finetune"});
  *(std::find(finetune.begin(), finetune.end(), "--load") + 1) = (folder_ / "run").string();
  ASSERT_EQ(run(finetune), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" > weights only: iteration 0, fresh optimizer"));
  EXPECT_LT(metrics("other").front().at("lm_loss").get<double>(), 3.9);  // from scratch: 4.17
}

TEST_F(Training, OnlyEvaluates) {
  ASSERT_EQ(run(arguments("run", 10)), 0) << output();
  ASSERT_EQ(run(arguments("run", 10, {"--skip-train"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("validation loss at the end of training for val data"));
  EXPECT_THAT(output(), Not(HasSubstr("| consumed samples:")));
}

TEST_F(Training, DryRunSaysEverythingAndDoesNothing) {
  ASSERT_EQ(run(arguments("run", 30, {"--dry-run"})), 0) << output();
  for (const char* text :
       {"memory plan", "number of parameters on", "learning rate", "    train:      240",
        "    validation: 32", "    test:       8", "300 documents"}) {
    EXPECT_THAT(output(), HasSubstr(text));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Training, DryRunPlansTheSlotsThatTheLoadersTake) {
  const auto line = [this] {
    const std::string text = output();
    const size_t begin = text.find(" > slots of the data loaders: ");
    return begin == std::string::npos ? "none" : text.substr(begin, text.find('\n', begin) - begin);
  };
  const Arguments longer = {"--seq-length", "512", "--max-position-embeddings", "512"};
  for (Arguments more :
       {Arguments{}, Arguments{"--eod-mask-loss"}, Arguments{"--full-validation"},
        Arguments{"--eval-iters", "0"}, Arguments{"--dataloader-inter-document-masking"}}) {
    more.insert(more.end(), longer.begin(), longer.end());
    Arguments planned = more;
    planned.push_back("--dry-run");
    ASSERT_EQ(run(arguments("run", 4, planned)), 0) << output();
    const std::string plan = line();
    EXPECT_THAT(plan, testing::HasSubstr("MiB of pinned host memory (train "));
    ASSERT_EQ(run(arguments("run", 4, more)), 0) << output();
    EXPECT_EQ(line(), plan) << more[0];
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(Training, DryRunPlansForAGpuThatIsNotHere) {
  const Arguments planned = {"--dry-run", "--device-profile", "h200", "--kv-channels", "64"};
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("> device: NVIDIA H200 (139.81 GiB; --device-profile h200)"));
  Arguments large = arguments("run", 30, planned);
  large.insert(large.end(), {"--num-layers", "96", "--hidden-size", "12288",
                             "--num-attention-heads", "96", "--kv-channels", "128"});
  EXPECT_EQ(run(large), 9) << output();
  EXPECT_THAT(output(), HasSubstr(" GiB on NVIDIA H200, which has 139.28 GiB free"));
  EXPECT_THAT(output(),
              HasSubstr("no option that saves memory makes it fit: lower --micro-batch-size"));
  EXPECT_THAT(output(), HasSubstr("or share it among more ranks: with full recomputation"));
  EXPECT_THAT(output(), Not(HasSubstr("NCCL")));
  Arguments ranks = planned;
  ranks.insert(ranks.end(), {"--tensor-model-parallel-size", "2"});
  ASSERT_EQ(run(arguments("run", 30, ranks)), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr(" > NCCL: about 672 MiB more on each device, 672 for each of 1 groups"));
  EXPECT_EQ(run(arguments("run", 30, {"--device-profile", "h200"})), 2) << "it is for --dry-run";
  Arguments alibi = planned;
  alibi.insert(alibi.end(), {"--position-embedding-type", "alibi"});
  EXPECT_EQ(run(arguments("run", 30, alibi)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("attention on the GPU has no ALiBi yet, that on the CPU has"));
}

TEST_F(Training, DryRunPlansForRanksAndDataThatAreNotHere) {
  Arguments planned = {"--num-layers",
                       "2",
                       "--hidden-size",
                       "64",
                       "--num-attention-heads",
                       "2",
                       "--kv-channels",
                       "64",
                       "--seq-length",
                       "16",
                       "--max-position-embeddings",
                       "16",
                       "--micro-batch-size",
                       "2",
                       "--global-batch-size",
                       "48",
                       "--train-iters",
                       "10",
                       "--lr",
                       "1e-3",
                       "--dry-run",
                       "--device-profile",
                       "h100",
                       "--tensor-model-parallel-size",
                       "2",
                       "--vocab-size",
                       "100",
                       "--eod-mask-loss",
                       "--world-size",
                       "12"};
  ASSERT_EQ(run(planned), 0) << output();
  EXPECT_THAT(output(), HasSubstr("using world size: 12, data-parallel-size: 6, "));
  EXPECT_THAT(output(), HasSubstr(" > no dataset is named: the index of the samples is not"));
  EXPECT_THAT(output(), HasSubstr(" in the 7680 tokens of the run; 12 devices of 100 TFLOP/s"));
  planned.back() = "13";
  EXPECT_EQ(run(planned), 2);
  EXPECT_THAT(output(), HasSubstr("the number of ranks, 13, is not a multiple of"));
  planned.back() = "0";
  EXPECT_EQ(run(planned), 2);
  EXPECT_THAT(output(), HasSubstr("--world-size must be positive (got 0)"));
  EXPECT_EQ(run(arguments("run", 30, {"--world-size", "2"})), 2);
  EXPECT_THAT(output(), HasSubstr("--world-size 2 needs --dry-run: the ranks that train are"));
}

TEST_F(Training, WrongFlagsAreAllReportedBeforeAnythingElse) {
  EXPECT_EQ(
      run(arguments("run", 30, {"--mock-data", "--num-layer", "3", "--global-batch-size", "7"})),
      2);
  const std::string log = output();
  EXPECT_THAT(log, HasSubstr("error: --mock-data is not supported yet"));
  EXPECT_THAT(log, HasSubstr("error: unknown flag --num-layer: did you mean --num-layers?"));
  EXPECT_THAT(log,
              HasSubstr("error: --global-batch-size 7 is not a multiple of --micro-batch-size 2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Training, AMissingDatasetAndAForeignVocabularyHaveTheirExitCodes) {
  Arguments elsewhere = arguments("run");
  std::replace(elsewhere.begin(), elsewhere.end(), prefix_, std::string("/nowhere/at_all"));
  EXPECT_EQ(run(elsewhere), 4) << output();
  EXPECT_THAT(output(), HasSubstr("/nowhere/at_all"));
  EXPECT_EQ(run(arguments("run", 30, {"--vocab-size", "20"})), 3) << output();
  EXPECT_THAT(output(), HasSubstr("outside the vocabulary of 20"));
}

}  // namespace
}  // namespace weft
