"""Supervised fine-tuning on one device or, data parallel, on several: a file of chats in, a trained model out.

    torchpipe run sft --config tiny/sft data_file=chats.json output_dir=runs/mine
    torchpipe run --nproc_per_node 2 sft --config tiny/sft data_file=chats.json output_dir=runs/mine

The whole job is in this file, top to bottom: settings, data, model, loop. Copy it (`torchpipe cp sft my_sft.py`) and
change it. Everything about the data happens before the model is built, so a bad row stops the run at once.
"""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Subset

from torchpipe import config
from torchpipe.audit import preview, prompt_of
from torchpipe.config import Setting
from torchpipe.data.ledger import SampleCounts
from torchpipe.datasets import GrowingPackedDataset, count_samples, describe_packing, instantiate_dataset
from torchpipe.errors import ConfigError
from torchpipe.loading import GlobalSteps, StepLoader, steps_of
from torchpipe.models.generate import generate
from torchpipe.training import (
    Ranks,
    StepWait,
    StopSignal,
    TrainingLog,
    batch_loss,
    check_model,
    checkpoint_to_resume,
    collater,
    load_checkpoint,
    mean_loss,
    save_checkpoint,
    set_seed,
    step_totals,
    trained_weight,
)

# Every key that the recipe reads. A key that is not here is refused by name.
KEYS = {
    "tokenizer": Setting(),
    "dataset": Setting(),
    "model": Setting(),
    "optimizer": Setting(),
    "loss": Setting(),
    "output_dir": Setting(),  # checkpoints and log.jsonl go here
    "dataset_val": Setting(None),  # held-out rows
    "data_file": Setting(None),  # for ${data_file} in the dataset sections
    "collate_fn": Setting("torchpipe.data.padded_collate_sft"),  # of unpacked samples
    "check_rows": Setting(True),  # read every row once before the model is built, and count
    "seed": Setting(0, at_least=0),
    "device": Setting("cpu"),  # under torchrun: cpu, or cuda for one device a process
    "shuffle": Setting(True),
    "batch_size": Setting(8, at_least=1),  # packs (rows, where packed is false) of a micro-batch, on each rank
    "gradient_accumulation_steps": Setting(1, at_least=1),  # micro-batches of a step, on each rank, at the first start
    "global_batch_size": Setting(None, at_least=1, can_be_null=True),  # packs of a step; null: the product of these two
    # and the number of ranks at the first start. It is kept: on other ranks a run goes on with the same steps.
    "balance": Setting("within_step"),  # how packs go to ranks: none, within_step or steps
    "epochs": Setting(1, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "num_workers": Setting(0, at_least=0),
    "pin_memory": Setting(False),
    "prefetch_factor": Setting(None, at_least=1, can_be_null=True),
    "run_val_every_n_steps": Setting(None, at_least=1, can_be_null=True),
    "num_rows_for_training_loss": Setting(256, at_least=0),  # the first rows; their loss is printed before and after
    "save_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # at the end a checkpoint is written in any case
    "keep_last_n_checkpoints": Setting(2, at_least=1),
    "log_every_n_steps": Setting(10, at_least=1),
    "resume": Setting(False),
    "overwrite": Setting(False),
    "max_generated_tokens": Setting(64, at_least=0),
}
WORKERS = ("num_workers", "pin_memory", "prefetch_factor")


def checked_settings(cfg: DictConfig) -> DictConfig:
    """The config over the defaults; what can't work is refused before anything is read."""
    settings = config.read_settings(cfg, KEYS)
    config.validate(cfg)
    if settings.resume and settings.overwrite:
        raise ConfigError("resume=true goes on from output_dir and overwrite=true empties it. Set one of them.")
    if settings.global_batch_size and settings.gradient_accumulation_steps > 1:
        raise ConfigError(
            "global_batch_size says how many micro-batches a step has, and gradient_accumulation_steps too. Set one."
        )
    # What the loader refuses is refused here too, before the data is read.
    steps = GlobalSteps(num_packs=1, global_batch_size=1, shuffle=settings.shuffle, balance=settings.balance)
    StepLoader([0], steps, batch_size=1, collate_fn=list, **{name: settings[name] for name in WORKERS})
    if str(settings.device).partition(":")[0] not in ("cpu", "cuda", "mps", "xpu"):
        raise ConfigError(f"device is {settings.device!r}. It can be cpu, or cuda (cuda:1, ...), mps or xpu.")
    if str(settings.device).startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device is {settings.device!r} and torch sees no CUDA device. Set device=cpu.")
    return settings


def what_decides_the_run(settings: DictConfig, counts: SampleCounts | None) -> dict[str, Any]:
    """What a resumed run has to share with the one before: the samples, their order, the model and how it learns."""
    sections = ("tokenizer", "dataset", "collate_fn", "model", "optimizer", "loss")
    keys = (*sections, "seed", "shuffle", "batch_size", "gradient_accumulation_steps", "balance")
    plain: Any = OmegaConf.to_container(settings, resolve=True)
    decided = {key: plain[key] for key in keys}
    if counts:  # the samples themselves were read, so it does not matter where the files lie
        decided |= {"tokens and labels": counts.digest}
        decided["tokenizer"] = without(decided["tokenizer"], "path")
        decided["dataset"] = without(decided["dataset"], "data_files", "data_dir")
    return decided


def without(section: Any, *keys: str) -> Any:
    """A section, or each of a list of them (joined data sets), without some of its keys."""
    if isinstance(section, list):
        return [without(one, *keys) for one in section]
    return {key: value for key, value in section.items() if key not in keys}


def report_rows(name: str, dataset: Any, check_rows: bool) -> SampleCounts | None:
    """Prints what became of a data set's rows. Counting reads every row once, so errors show before training."""
    counts = count_samples(dataset) if check_rows or hasattr(dataset, "counts") else None
    print(f"{name}: {counts.describe() if counts else f'{len(dataset):,} rows, not checked'}", flush=True)
    if packing := describe_packing(dataset):
        print(f"{name}, packed: {packing}", flush=True)
    if counts and counts.trained_tokens == 0:
        raise ConfigError(f"{name}: no token is trained. Check masking_strategy, and max_seq_len where rows were cut.")
    return counts


@config.parse
def main(cfg: DictConfig) -> None:
    """Trains as the config says, alone or as one of the ranks that torchrun started."""
    settings = checked_settings(cfg)
    with Ranks(settings.device) as ranks:
        train(cfg, settings, ranks)


def train(cfg: DictConfig, settings: DictConfig, ranks: Ranks) -> None:
    """The whole job of one rank."""
    config.log_config("sft", cfg)
    output_dir, device = Path(settings.output_dir), ranks.device
    resume_from = checkpoint_to_resume(output_dir, resume=settings.resume, overwrite=settings.overwrite)
    set_seed(settings.seed)

    # Data: rows in, samples out, and a look at what will be trained on.
    tokenizer = config.instantiate(settings.tokenizer)
    collate_fn = config.resolve(settings.collate_fn)
    dataset = instantiate_dataset(settings.dataset, tokenizer)
    held_out = instantiate_dataset(settings.dataset_val, tokenizer) if settings.dataset_val else None
    by_shard = isinstance(dataset, GrowingPackedDataset)  # tokenised in the background, while it is trained on
    if isinstance(held_out, GrowingPackedDataset):
        raise ConfigError("dataset_val has start: by_shard, and held-out rows are needed as a whole. Leave it out.")
    first_rows = dataset.first_part if by_shard else dataset
    counts = report_rows("first training rows" if by_shard else "training rows", first_rows, settings.check_rows)
    held_out_counts = report_rows("held-out rows", held_out, settings.check_rows) if held_out is not None else None
    first_sample = first_rows[0]
    show = partial(tokenizer.decode, truncate_at_eos=False, skip_special_tokens=False)
    print(f"first sample, as the loss sees it:\n{preview(first_sample, show)}", flush=True)

    # Model, loss, optimizer.
    model = config.instantiate(settings.model).to(device)
    check_model(model, counts, first_sample)
    if by_shard:
        dataset.check_with(partial(check_model, model, sample=first_sample))
    if held_out is not None:
        check_model(model, held_out_counts, held_out[0])
    loss_fn = config.instantiate(settings.loss)
    if hasattr(loss_fn, "set_model_output"):
        loss_fn.set_model_output(model)  # the loss projects to the vocabulary itself, a part at a time
    optimizer = config.instantiate(settings.optimizer, model.parameters())

    # Batches: each step has so many packs, whatever the number of ranks, and each rank its share of them.
    padding_idx = getattr(tokenizer, "pad_id", 0)

    def loader_of(rows: Any, steps: Any) -> StepLoader:
        return StepLoader(
            rows,
            steps,
            batch_size=settings.batch_size,
            collate_fn=collater(rows[0], model, collate_fn, padding_idx=padding_idx),
            rank=ranks.rank,
            world_size=ranks.world_size,
            **{name: settings[name] for name in WORKERS},
        )

    def loss_over(rows: Any) -> float:
        steps = GlobalSteps.of(rows, global_batch_size=settings.batch_size * ranks.world_size, shuffle=False)
        batches = (batch for step in loader_of(rows, steps) for batch in step.micro_batches)
        return mean_loss(model, loss_fn, batches, device, ranks.sum)

    def losses() -> dict[str, float]:
        num_rows = min(len(first_rows), settings.num_rows_for_training_loss)
        found = {"training": loss_over(Subset(first_rows, range(num_rows)))} if num_rows else {}
        return found if held_out is None else {**found, "held-out": loss_over(held_out)}

    # Where the run stands. What decides it is kept in the checkpoint, and compared on resume.
    depends_on = what_decides_the_run(settings, counts)
    state: dict[str, Any] = {}
    if resume_from:
        state = load_checkpoint(resume_from, model=model, optimizer=optimizer, depends_on=depends_on)
    per_step = settings.batch_size * settings.gradient_accumulation_steps * ranks.world_size
    steps = steps_of(
        dataset,
        global_batch_size=settings.global_batch_size or state.get("loader", {}).get("global_batch_size", per_step),
        seed=settings.seed,
        shuffle=settings.shuffle,
        balance=settings.balance,
    )
    loader = loader_of(dataset, steps)
    if resume_from:
        loader.load_state_dict(state["loader"])
    ranks.join()  # from here on they wait for each other
    ranks.agree({"the step to go on from": state.get("step"), **depends_on})
    ranks.share(model)

    def num_steps() -> int | None:  # None: not known before all rows are tokenised
        return loader.num_steps(epochs=settings.epochs, max_steps=settings.max_steps)

    known = num_steps() or "? (known when all rows are tokenised)"
    where = f"resumed at step {loader.steps_done} of {known} from {resume_from}" if resume_from else f"steps: {known}"
    print(f"{where}; {loader.describe()}", flush=True)
    if state.get("world_size", ranks.world_size) != ranks.world_size:
        print(f"world size was {state['world_size']}, is {ranks.world_size}: {loader.describe()}", flush=True)
    if "losses_before" not in state and settings.num_rows_for_training_loss:
        print(f"measuring the loss on {settings.num_rows_for_training_loss} packs or rows at most ...", flush=True)
    losses_before = state.get("losses_before") or losses()

    def save() -> Path | None:
        if not ranks.is_first:
            return None
        now = {"depends_on": depends_on, "losses_before": losses_before, "world_size": ranks.world_size}
        return save_checkpoint(
            output_dir / "checkpoints",
            step=loader.steps_done,
            model=model,
            optimizer=optimizer,
            state={**now, "loader": loader.state_dict()},
            keep_last=settings.keep_last_n_checkpoints,
        )

    def go_on_with_all_rows() -> None:
        counts = report_rows("training rows", dataset, check_rows=True)
        ranks.agree({"tokens and labels": counts and counts.digest})
        log.expect(num_steps() or 0)
        print(f"steps: {num_steps()}; {loader.describe()}", flush=True)

    # The loop: one optimizer step a turn. An earlier run goes only now, with all in place.
    model.train()
    checkpoint, stopped = resume_from, 0.0
    log = TrainingLog(
        output_dir / "log.jsonl",
        num_steps=num_steps(),
        done_steps=loader.steps_done,
        every=settings.log_every_n_steps,
        silent=not ranks.is_first,
    )
    with log, StopSignal() as stop:
        if settings.overwrite and ranks.is_first:
            shutil.rmtree(output_dir / "checkpoints", ignore_errors=True)
        wait = StepWait(ranks, steps, stop=lambda: stop.asked, save=save, on_complete=go_on_with_all_rows)
        for batches in loader.until(settings.max_steps, epochs=settings.epochs, wait=wait if by_shard else None):
            step = loader.steps_done
            set_seed(settings.seed, "step", step, ranks.rank)
            trained, weight = step_totals(batches, ranks.sum)  # over all ranks; without loss weights, the same
            step_loss = 0.0
            for batch in batches.micro_batches:
                if not trained_weight(batch):
                    continue
                # This micro-batch's sum over its trained tokens, divided by those of the whole step.
                loss = batch_loss(model, loss_fn, batch, device) * (trained_weight(batch) / weight)
                loss.backward()
                step_loss += float(loss.detach())
            ranks.sum_gradients(model)
            if weight:  # a step without a trained token changes nothing
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            tokens = sum(batch["labels"].numel() for batch in batches.micro_batches)
            step_loss, tokens, stopped = ranks.sum(step_loss, tokens, stop.asked)  # all ranks stop, or none
            log.step(step, loss=step_loss, tokens=int(tokens), trained_tokens=trained)
            if held_out is not None and step % (settings.run_val_every_n_steps or step + 1) == 0:
                log.validation(step, loss=loss_over(held_out))
            if step % (settings.save_every_n_steps or step + 1) == 0:
                checkpoint = save()
            if stopped:
                break
        step = loader.steps_done
        if checkpoint is None or checkpoint.name != f"step_{step:08d}":
            checkpoint = save()
        if stopped or wait.was_stopped:
            print(
                f"SIGTERM: ended after step {step} of {num_steps() or '?'}, saved as {checkpoint}. resume=true goes on."
            )
            return

    # What came out.
    for name, after in losses().items():
        print(f"{name} loss: {losses_before.get(name, float('nan')):.3f} before, {after:.3f} after")
    prompt = prompt_of(first_sample)
    if ranks.is_first and prompt and settings.max_generated_tokens:
        ends = getattr(tokenizer, "stop_tokens", ())
        reply = generate(model, prompt, max_new_tokens=settings.max_generated_tokens, stop_token_ids=ends)
        print("generation from the prompt of the first sample:")
        print(f"  prompt: {show(prompt)!r}\n  reply:  {show(reply)!r}")
    print(f"checkpoint: {checkpoint}\nlog: {output_dir / 'log.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
