"""Supervised fine-tuning on one device: a file of chats in, a trained model out.

    torchpipe run sft --config tiny/sft data_file=chats.json output_dir=runs/mine

The whole job is in this file, top to bottom: data, model, loop. Copy it (`torchpipe cp sft my_sft.py`) and change it.
Everything about the data happens before the model is built, so a bad row stops the run at once.
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from torchpipe import config
from torchpipe.audit import preview
from torchpipe.config.keys import check_keys
from torchpipe.data import padded_collate_packed
from torchpipe.data.ledger import SampleCounts
from torchpipe.datasets import count_samples, instantiate_dataset
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models.generate import generate
from torchpipe.training.batches import epoch_order, num_trained, step_batches, to_device, with_padding
from torchpipe.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from torchpipe.training.evaluation import mean_loss
from torchpipe.training.metrics import TrainingLog
from torchpipe.training.seed import set_seed

# Every key that the recipe reads, with its default; `...` has none. An unknown key is refused by name.
KEYS: dict[str, Any] = {
    "tokenizer": ...,
    "dataset": ...,
    "model": ...,
    "optimizer": ...,
    "loss": ...,
    "output_dir": ...,
    "dataset_val": None,
    "data_file": None,  # for ${data_file} in the dataset sections
    "collate_fn": "torchpipe.data.padded_collate_sft",
    "check_rows": True,  # tokenise every row once before the model is built, and count
    "seed": 0,
    "device": "cpu",
    "shuffle": True,
    "batch_size": 8,
    "gradient_accumulation_steps": 1,
    "epochs": 1,
    "max_steps": None,
    "num_workers": 0,
    "run_val_every_n_steps": None,
    "num_rows_for_training_loss": 256,  # rows whose loss is printed before and after as "training"
    "save_every_n_steps": None,  # a checkpoint is written at the end in any case
    "keep_last_n_checkpoints": 2,
    "log_every_n_steps": 10,
    "resume": False,
    "overwrite": False,
    "max_generated_tokens": 64,
}


def read_settings(cfg: DictConfig) -> DictConfig:
    """The config over the defaults; unknown and missing keys, and settings that can't work, are refused."""
    check_keys(cfg, known=KEYS, required=[key for key, default in KEYS.items() if default is ...])
    settings = OmegaConf.merge({key: None if default is ... else default for key, default in KEYS.items()}, cfg)
    for key in ("batch_size", "gradient_accumulation_steps", "epochs"):
        if not isinstance(settings[key], int) or settings[key] < 1:
            raise ConfigError(f"{key} is {settings[key]!r}. Give a whole number above 0.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("recipes/sft.py trains on one device and was started as several processes: leave out torchrun's options.")
    if settings.resume and settings.overwrite:
        raise ConfigError("resume=true goes on from output_dir and overwrite=true empties it. Set one of them.")
    if settings.device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device is {settings.device!r} and torch sees no CUDA device. Set device=cpu.")
    assert isinstance(settings, DictConfig)
    return settings


def prepare_output(settings: DictConfig) -> tuple[Path, Path | None]:
    """The output folder, and the checkpoint to go on from; earlier results are never overwritten unasked."""
    output_dir = Path(settings.output_dir)
    found = checkpoints(output_dir / "checkpoints")
    if found and settings.overwrite:
        shutil.rmtree(output_dir / "checkpoints")
        (output_dir / "log.jsonl").unlink(missing_ok=True)
        found = []
    if found and not settings.resume:
        raise CheckpointError(
            f"{output_dir} already holds a run ({found[-1].name}). resume=true goes on from there, overwrite=true "
            "starts anew, or give another output_dir."
        )
    output_dir.mkdir(parents=True, exist_ok=True)
    return output_dir, found[-1] if found else None


def report_rows(name: str, dataset: Any, check_rows: bool) -> SampleCounts | None:
    """Prints what became of a data set's rows. Counting reads every row once, so errors show before training."""
    counts = count_samples(dataset) if check_rows or hasattr(dataset, "counts") else None
    filtered = getattr(dataset, "num_filtered", 0)
    note = f"; {filtered:,} rows left out by filter_fn" if filtered else ""
    print(f"{name}: {counts.describe() if counts else f'{len(dataset):,} rows, not checked'}{note}", flush=True)
    if counts and counts.trained_tokens == 0:
        raise ConfigError(f"{name}: no token is trained. Check masking_strategy, and max_seq_len if rows were cut.")
    return counts


@config.parse
def main(cfg: DictConfig) -> None:
    """Trains as the config says."""
    settings = read_settings(cfg)
    config.log_config("sft", cfg)
    output_dir, resume_from = prepare_output(settings)
    device = torch.device(settings.device)
    set_seed(settings.seed)

    # Data: tokenizer, rows, and what will be trained on.
    tokenizer = config.instantiate(settings.tokenizer)
    dataset = instantiate_dataset(settings.dataset, tokenizer)
    held_out = instantiate_dataset(settings.dataset_val, tokenizer) if settings.dataset_val else None
    counts = report_rows("training rows", dataset, settings.check_rows)
    if held_out is not None:
        report_rows("held-out rows", held_out, settings.check_rows)
    first = dataset[0]
    print("first sample, as the loss sees it:")
    print(preview(first, partial(tokenizer.decode, truncate_at_eos=False, skip_special_tokens=False)), flush=True)

    # Model, loss, optimizer.
    model = config.instantiate(settings.model).to(device)
    if counts and counts.longest > model.max_seq_len:
        raise ConfigError(f"The longest row has {counts.longest} tokens and the model takes {model.max_seq_len}. Lower tokenizer.max_seq_len.")
    if counts and counts.largest_token_id >= model.tok_embeddings.num_embeddings:
        raise ConfigError(
            f"The rows hold token id {counts.largest_token_id} and the model knows {model.tok_embeddings.num_embeddings}. "
            "Give the model the tokenizer's vocabulary (model.vocab_size=...)."
        )
    loss_fn = config.instantiate(settings.loss)
    if hasattr(loss_fn, "set_model_output"):
        loss_fn.set_model_output(model)
    optimizer = config.instantiate(settings.optimizer, model.parameters())

    # Batches. A packed row brings its own lengths; the model says which form of mask it wants.
    padding_idx = getattr(tokenizer, "pad_id", 0)

    def collater(sample: Any) -> Any:
        if "seq_lens" in sample:
            return partial(padded_collate_packed, mask=getattr(model, "packed_mask", "dense"))
        return with_padding(resolve(settings.collate_fn), padding_idx)

    batches_of = partial(step_batches, batch_size=settings.batch_size, num_workers=settings.num_workers)
    in_steps = partial(
        batches_of, dataset, gradient_accumulation_steps=settings.gradient_accumulation_steps, collate_fn=collater(first)
    )

    def loss_over(rows: Any, num_rows: int) -> float:
        steps = batches_of(
            rows, range(num_rows), gradient_accumulation_steps=1, start_step=0, collate_fn=collater(rows[0])
        )
        return mean_loss(model, loss_fn, (batch for step in steps for batch in step), device)

    rows_for_loss = min(len(dataset), settings.num_rows_for_training_loss)

    def losses() -> dict[str, float]:
        training = {"training": loss_over(dataset, rows_for_loss)} if rows_for_loss else {}
        return training | ({"held-out": loss_over(held_out, len(held_out))} if held_out is not None else {})

    # Where the run stands. What decides the batches is kept in the checkpoint and compared on resume.
    num_batches = -(-len(dataset) // settings.batch_size)
    steps_per_epoch = -(-num_batches // settings.gradient_accumulation_steps)
    num_steps = min(settings.epochs * steps_per_epoch, settings.max_steps or settings.epochs * steps_per_epoch)
    depends_on = {
        "rows": len(dataset),
        **{key: settings[key] for key in ("seed", "shuffle", "batch_size", "gradient_accumulation_steps")},
        "tokens": counts.tokens if counts else None,
    }
    step, before = 0, {}
    if resume_from:
        state = load_checkpoint(resume_from, model=model, optimizer=optimizer, depends_on=depends_on)
        step, before = state["step"], state["before"]
        print(f"resumed at step {step} of {num_steps} from {resume_from}", flush=True)
    else:
        before = losses()

    def save() -> Path:
        state = {"depends_on": depends_on, "before": before}
        return save_checkpoint(
            output_dir / "checkpoints", step=step, model=model, optimizer=optimizer, state=state,
            keep_last=settings.keep_last_n_checkpoints,
        )

    # The loop: one optimizer step a turn.
    model.train()
    checkpoint = resume_from
    log = TrainingLog(output_dir / "log.jsonl", num_steps=num_steps, done_steps=step, every=settings.log_every_n_steps)
    with log:
        while step < num_steps:
            epoch, start_step = divmod(step, steps_per_epoch)
            order = epoch_order(len(dataset), seed=settings.seed, epoch=epoch, shuffle=settings.shuffle)
            for micro_batches in in_steps(order, start_step=start_step):
                trained = sum(map(num_trained, micro_batches))
                step_loss = 0.0
                for batch in micro_batches:
                    inputs = to_device(batch, device)
                    labels = inputs.pop("labels")
                    # The sum over this micro-batch, over the trained tokens of the whole step.
                    loss = loss_fn(model(**inputs), labels) * (num_trained(batch) / max(trained, 1))
                    loss.backward()
                    step_loss += float(loss.detach())
                if trained:
                    optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                step += 1
                tokens = sum(batch["labels"].numel() for batch in micro_batches)
                log.step(step, loss=step_loss, tokens=tokens, trained_tokens=trained)
                if held_out is not None and settings.run_val_every_n_steps and step % settings.run_val_every_n_steps == 0:
                    loss_now = loss_over(held_out, len(held_out))
                    log.write({"step": step, "held_out_loss": loss_now})
                    log.say(f"step {step}: held-out loss {loss_now:.3f}")
                    log.restart_clock()
                if settings.save_every_n_steps and step % settings.save_every_n_steps == 0 and step < num_steps:
                    checkpoint = save()
                    log.restart_clock()
                if step == num_steps:
                    break
    if checkpoint is None or not checkpoint.name.endswith(f"{step:08d}"):
        checkpoint = save()

    # What came out.
    for name, after in losses().items():
        print(f"{name} loss: {before[name]:.3f} before, {after:.3f} after" if name in before else f"{name} loss: {after:.3f}")
    tokens, labels = [values.tolist() if hasattr(values, "tolist") else values for values in (first["tokens"], first["labels"])]
    prompt = tokens[: next(i for i, label in enumerate(labels) if label != -100) + 1] if any(l != -100 for l in labels) else []
    if prompt and settings.max_generated_tokens:
        reply = generate(
            model, prompt, max_new_tokens=settings.max_generated_tokens, stop_token_ids=getattr(tokenizer, "stop_tokens", ())
        )
        print("generation from the prompt of the first training row:")
        print(f"  prompt: {tokenizer.decode(prompt, skip_special_tokens=True)!r}")
        print(f"  reply:  {tokenizer.decode(reply, skip_special_tokens=True)!r}")
    print(f"checkpoint: {checkpoint}")
    print(f"log: {output_dir / 'log.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
