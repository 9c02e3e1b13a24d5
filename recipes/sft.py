"""Supervised fine-tuning on one device: a file of chats in, a trained model out.

    torchpipe run sft --config tiny/sft data_file=chats.json output_dir=runs/mine

The whole job is in this file, top to bottom: settings, data, model, loop. Copy it (`torchpipe cp sft my_sft.py`) and
change it. Everything about the data happens before the model is built, so a bad row stops the run at once.
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from torchpipe import config
from torchpipe.audit import preview, prompt_of
from torchpipe.config import Setting
from torchpipe.data.ledger import SampleCounts
from torchpipe.datasets import count_samples, instantiate_dataset
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.generate import generate
from torchpipe.training import (
    TrainingLog,
    batch_loss,
    checkpoints,
    collater,
    epoch_order,
    load_checkpoint,
    mean_loss,
    num_trained,
    save_checkpoint,
    set_seed,
    step_batches,
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
    "device": Setting("cpu"),
    "shuffle": Setting(True),
    "batch_size": Setting(8, at_least=1),
    "gradient_accumulation_steps": Setting(1, at_least=1),
    "epochs": Setting(1, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "num_workers": Setting(0, at_least=0),
    "run_val_every_n_steps": Setting(None, at_least=1, can_be_null=True),
    "num_rows_for_training_loss": Setting(256, at_least=0),  # the first rows; their loss is printed before and after
    "save_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # at the end a checkpoint is written in any case
    "keep_last_n_checkpoints": Setting(2, at_least=1),
    "log_every_n_steps": Setting(10, at_least=1),
    "resume": Setting(False),
    "overwrite": Setting(False),
    "max_generated_tokens": Setting(64, at_least=0),
}


def checked_settings(cfg: DictConfig) -> DictConfig:
    """The config over the defaults; what can't work is refused before anything is read."""
    settings = config.read_settings(cfg, KEYS)
    config.validate(cfg)
    if settings.resume and settings.overwrite:
        raise ConfigError("resume=true goes on from output_dir and overwrite=true empties it. Set one of them.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("This recipe trains on one device and was started as several processes. Start it once.")
    if str(settings.device).partition(":")[0] not in ("cpu", "cuda", "mps", "xpu"):
        raise ConfigError(f"device is {settings.device!r}. It can be cpu, or cuda (cuda:1, ...), mps or xpu.")
    if str(settings.device).startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device is {settings.device!r} and torch sees no CUDA device. Set device=cpu.")
    return settings


def newest_checkpoint(settings: DictConfig) -> Path | None:
    """The checkpoint to go on from, or None. Earlier results are never overwritten unasked."""
    output_dir = Path(str(settings.output_dir))
    existing = next(path for path in (output_dir.absolute(), *output_dir.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ConfigError(f"output_dir is {output_dir}, and {existing} is no folder that can be written to.")
    found = checkpoints(output_dir / "checkpoints")
    log = output_dir / "log.jsonl"
    if (found or (log.exists() and log.stat().st_size)) and not (settings.resume or settings.overwrite):
        raise CheckpointError(
            f"{output_dir} already holds a run, {f'up to {found[-1].name}' if found else 'without a checkpoint'}. "
            "resume=true goes on from there, overwrite=true starts anew, or give another output_dir."
        )
    if settings.resume and not found:
        print(f"resume=true, and {settings.output_dir} holds no checkpoint yet: starting at step 0", flush=True)
    return found[-1] if found and settings.resume else None


def what_decides_the_run(settings: DictConfig, counts: SampleCounts | None) -> dict[str, Any]:
    """What a resumed run has to share with the one before: the samples, their order, the model and how it learns."""
    sections = ("tokenizer", "dataset", "collate_fn", "model", "optimizer", "loss")
    keys = (*sections, "seed", "shuffle", "batch_size", "gradient_accumulation_steps")
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
    if counts and counts.trained_tokens == 0:
        raise ConfigError(f"{name}: no token is trained. Check masking_strategy, and max_seq_len where rows were cut.")
    return counts


def check_model(model: Any, counts: SampleCounts | None, sample: Any) -> None:
    """Refuses a model that the rows do not fit."""
    longest = max(counts.longest if counts else 0, len(sample["tokens"]))  # a pack's padding counts positions on
    if longest > model.max_seq_len:
        raise ConfigError(
            f"The longest row has {longest} tokens and the model takes {model.max_seq_len}. Lower "
            "tokenizer.max_seq_len, or raise the model's."
        )
    if counts and counts.largest_token_id >= model.tok_embeddings.num_embeddings:
        raise ConfigError(
            f"The rows hold token id {counts.largest_token_id} and the model has "
            f"{model.tok_embeddings.num_embeddings} embeddings. Give it at least model.vocab_size="
            f"{counts.largest_token_id + 1}."
        )


@config.parse
def main(cfg: DictConfig) -> None:
    """Trains as the config says."""
    settings = checked_settings(cfg)
    config.log_config("sft", cfg)
    output_dir, resume_from = Path(settings.output_dir), newest_checkpoint(settings)
    device = torch.device(settings.device)
    set_seed(settings.seed)

    # Data: rows in, samples out, and a look at what will be trained on.
    tokenizer = config.instantiate(settings.tokenizer)
    collate_fn = config.resolve(settings.collate_fn)
    dataset = instantiate_dataset(settings.dataset, tokenizer)
    held_out = instantiate_dataset(settings.dataset_val, tokenizer) if settings.dataset_val else None
    counts = report_rows("training rows", dataset, settings.check_rows)
    held_out_counts = report_rows("held-out rows", held_out, settings.check_rows) if held_out is not None else None
    first_sample = dataset[0]
    show = partial(tokenizer.decode, truncate_at_eos=False, skip_special_tokens=False)
    print(f"first sample, as the loss sees it:\n{preview(first_sample, show)}", flush=True)

    # Model, loss, optimizer.
    model = config.instantiate(settings.model).to(device)
    check_model(model, counts, first_sample)
    if held_out is not None:
        check_model(model, held_out_counts, held_out[0])
    loss_fn = config.instantiate(settings.loss)
    if hasattr(loss_fn, "set_model_output"):
        loss_fn.set_model_output(model)  # the loss projects to the vocabulary itself, a part at a time
    optimizer = config.instantiate(settings.optimizer, model.parameters())

    # Batches: the order of an epoch is a pure function of seed and epoch, so a step's number says what it holds.
    padding_idx = getattr(tokenizer, "pad_id", 0)
    accumulation = settings.gradient_accumulation_steps
    steps_per_epoch = -(-len(dataset) // (settings.batch_size * accumulation))
    num_steps = min(settings.epochs * steps_per_epoch, settings.max_steps or settings.epochs * steps_per_epoch)

    def batches(rows: Any, order: Any, start_step: int = 0, accumulation: int = 1) -> Any:
        return step_batches(
            rows,
            order,
            batch_size=settings.batch_size,
            gradient_accumulation_steps=accumulation,
            start_step=start_step,
            collate_fn=collater(rows[0], model, collate_fn, padding_idx=padding_idx),
            num_workers=settings.num_workers,
        )

    def loss_over(rows: Any, num_rows: int) -> float:
        return mean_loss(model, loss_fn, (batch for step in batches(rows, range(num_rows)) for batch in step), device)

    def losses() -> dict[str, float]:
        num_rows = min(len(dataset), settings.num_rows_for_training_loss)
        found = {"training": loss_over(dataset, num_rows)} if num_rows else {}
        return found if held_out is None else {**found, "held-out": loss_over(held_out, len(held_out))}

    # Where the run stands. What decides it is kept in the checkpoint, and compared on resume.
    depends_on = what_decides_the_run(settings, counts)
    if resume_from:
        state = load_checkpoint(resume_from, model=model, optimizer=optimizer, depends_on=depends_on)
        step, losses_before = state["step"], state["losses_before"]
        print(f"resumed at step {step} of {num_steps} from {resume_from}", flush=True)
    else:
        step, losses_before = 0, losses()

    def save() -> Path:
        return save_checkpoint(
            output_dir / "checkpoints",
            step=step,
            model=model,
            optimizer=optimizer,
            state={"depends_on": depends_on, "losses_before": losses_before},
            keep_last=settings.keep_last_n_checkpoints,
        )

    # The loop: one optimizer step a turn. An earlier run goes only now, with all in place.
    model.train()
    checkpoint = resume_from
    with TrainingLog(
        output_dir / "log.jsonl", num_steps=num_steps, done_steps=step, every=settings.log_every_n_steps
    ) as log:
        if settings.overwrite:
            shutil.rmtree(output_dir / "checkpoints", ignore_errors=True)
        while step < num_steps:
            epoch, start_step = divmod(step, steps_per_epoch)
            order = epoch_order(len(dataset), seed=settings.seed, epoch=epoch, shuffle=settings.shuffle)
            for micro_batches in batches(dataset, order, start_step, accumulation):
                trained = sum(map(num_trained, micro_batches))
                weight = sum(map(trained_weight, micro_batches))  # without loss weights, the same
                step_loss = 0.0
                for batch in micro_batches:
                    if not trained_weight(batch):
                        continue
                    # This micro-batch's sum over its trained tokens, divided by those of the whole step.
                    loss = batch_loss(model, loss_fn, batch, device) * (trained_weight(batch) / weight)
                    loss.backward()
                    step_loss += float(loss.detach())
                if weight:  # a step without a trained token changes nothing
                    optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                step += 1
                tokens = sum(batch["labels"].numel() for batch in micro_batches)
                log.step(step, loss=step_loss, tokens=tokens, trained_tokens=trained)
                if held_out is not None and step % (settings.run_val_every_n_steps or num_steps + 1) == 0:
                    log.validation(step, loss=loss_over(held_out, len(held_out)))
                if step % (settings.save_every_n_steps or num_steps + 1) == 0 and step < num_steps:
                    checkpoint = save()
                if step == num_steps:
                    checkpoint = save()
                    break

    # What came out.
    for name, after in losses().items():
        print(f"{name} loss: {losses_before.get(name, float('nan')):.3f} before, {after:.3f} after")
    prompt = prompt_of(first_sample)
    if prompt and settings.max_generated_tokens:
        stop = getattr(tokenizer, "stop_tokens", ())
        reply = generate(model, prompt, max_new_tokens=settings.max_generated_tokens, stop_token_ids=stop)
        print("generation from the prompt of the first training row:")
        print(f"  prompt: {show(prompt)!r}\n  reply:  {show(reply)!r}")
    print(f"checkpoint: {checkpoint}\nlog: {output_dir / 'log.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
