"""Preference training, of all weights or of adapters: pairs of answers in, a model that prefers the chosen ones out.

    torchpipe run dpo --config tiny/dpo data_file=pairs.json output_dir=runs/mine
    torchpipe run dpo --config llama3_2/1B_lora/dpo data_file=pairs.json model_dir=... output_dir=runs/mine

Direct preference optimization (Rafailov and others, 2023, https://arxiv.org/abs/2305.18290). The whole job is in this
file, top to bottom: settings, data, model, reference, loop. Copy it (`torchpipe cp dpo my_dpo.py`) and change it.
The reference is the model that training begins with. With adapters it is the model without them, asked at every step;
without, its log-probabilities are computed once, before the first step, so that no second model is held (docs/dpo.md).
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Subset

from torchpipe import config, rlhf, training
from torchpipe.audit import preview_pair, prompt_of, report_pairs
from torchpipe.config import Setting
from torchpipe.datasets import GrowingPackedDataset, PackedDataset, describe_rows, instantiate_dataset, side_of
from torchpipe.errors import ConfigError
from torchpipe.loading import GlobalSteps, StepLoader
from torchpipe.models.generate import generate
from torchpipe.modules import TransformerSelfAttentionLayer

# Every key that the recipe reads. A key that is not here is refused by name, or, if it is one of torchtune's, answered.
KEYS = {
    "tokenizer": Setting(),
    "dataset": Setting(),
    "model": Setting(),
    "optimizer": Setting(),
    "output_dir": Setting(),  # checkpoints and log.jsonl go here
    "loss": Setting({"_component_": "torchpipe.rlhf.loss.DPOLoss"}),
    "dataset_val": Setting(None),  # held-out pairs
    "data_file": Setting(None),  # for ${data_file} in the dataset sections
    "model_dir": Setting(None),  # for ${model_dir}
    "collate_fn": Setting("torchpipe.data.padded_collate_dpo"),
    "check_rows": Setting(True),  # read every row once before the model is built, and count
    "checkpointer": Setting(None),  # where the first weights come from, and weights in a publisher's layout go
    "ref_checkpointer": Setting(None),  # torchtune's: the reference's weights, which are those of checkpointer
    "seed": Setting(0, at_least=0, can_be_null=True),  # null: drawn, printed and kept in the checkpoints
    "device": Setting("cpu"),
    "dtype": Setting(None),  # of the weights: fp32 or bf16; null: fp32
    "compile": Setting(False),  # each layer of the model
    "enable_activation_checkpointing": Setting(False),  # less memory, more time
    "shuffle": Setting(True),
    "batch_size": Setting(4, at_least=1),  # pairs of a micro-batch: twice as many rows
    "gradient_accumulation_steps": Setting(1, at_least=1),  # micro-batches of a step
    "balance": Setting("within_step"),  # how pairs go to micro-batches: none, within_step or steps
    "epochs": Setting(1, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "max_steps_per_epoch": Setting(None, at_least=1, can_be_null=True),
    "lr_scheduler": Setting(None),  # stepped after each optimizer step
    "clip_grad_norm": Setting(None, above=0, can_be_null=True),
    "num_workers": Setting(0, at_least=0),
    "pin_memory": Setting(False),
    "prefetch_factor": Setting(None, at_least=1, can_be_null=True),
    "run_val_every_n_steps": Setting(None, at_least=1, can_be_null=True),
    "num_rows_for_training_loss": Setting(32, at_least=0),  # the first pairs, measured before and after
    "save_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # at the end a checkpoint is written in any case
    "keep_last_n_checkpoints": Setting(2, at_least=1),
    "keep_best_checkpoint": Setting(False),  # by held-out loss, as checkpoints/best
    "export_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # by checkpointer; after epochs in any case
    "save_adapter_weights_only": Setting(False),  # exports hold the adapter and not the merged weights
    "log_every_n_steps": Setting(10, at_least=1, can_be_null=True),  # null: each
    "metric_logger": Setting(None),  # beside log.jsonl, every log_every_n_steps
    "log_peak_memory_stats": Setting(False),
    "profiler": Setting(None),
    "plot": Setting(False),  # loss.png from log.jsonl at the end
    "resume": Setting(False),
    "overwrite": Setting(False),
    "max_generated_tokens": Setting(64, at_least=0),
}
WORKERS = ("num_workers", "pin_memory", "prefetch_factor")


def checked_settings(cfg: DictConfig) -> DictConfig:
    """The config over the defaults; what can't work is refused before anything is read."""
    settings = config.read_settings(cfg, KEYS)
    config.validate(cfg)
    training.check_run_settings(settings)
    if settings.ref_checkpointer and settings.ref_checkpointer != settings.checkpointer:
        raise ConfigError(
            "ref_checkpointer and checkpointer differ, and the reference is the model that training begins with. Leave "
            "ref_checkpointer out, or give both the same values."
        )
    # What the loader refuses is refused here too, before the data is read.
    steps = GlobalSteps(num_packs=1, global_batch_size=1, shuffle=settings.shuffle, balance=settings.balance)
    StepLoader([0], steps, batch_size=1, collate_fn=list, **{name: settings[name] for name in WORKERS})
    if (num_processes := training.get_world_size_and_rank()[0]) > 1:
        raise ConfigError(
            f"{num_processes} processes were started, and dpo trains on one device. Run it without torchrun's options; "
            "gradient_accumulation_steps gives larger steps."
        )
    return settings


def refuse_packs(dataset: Any, section: str) -> None:
    """Raises where items are packs of pairs and not pairs."""
    if any(isinstance(part, PackedDataset | GrowingPackedDataset) for part in getattr(dataset, "datasets", [dataset])):
        raise ConfigError(f"{section}.packed is true, and dpo trains on single pairs. Set {section}.packed=false.")


def pairs_read(steps: GlobalSteps, num_steps: int) -> set[int]:
    """The numbers of the pairs that the first steps of a run read."""
    return {int(pair) for number in range(num_steps) for pair in steps.packs(*divmod(number, len(steps)))}


@config.parse
def main(cfg: DictConfig) -> None:
    """Trains as the config says."""
    cfg, notes = config.adopt_torchtune_keys(cfg, KEYS)
    settings = checked_settings(cfg)
    print(*(f"note: {note}\n" for note in notes), sep="", end="", flush=True)
    config.log_config("dpo", cfg)
    output_dir, device = Path(settings.output_dir), torch.device(settings.device)
    dtype = training.training_dtype(settings.dtype, device)
    resume_from = training.checkpoint_to_resume(output_dir, resume=settings.resume, overwrite=settings.overwrite)
    state: dict[str, Any] = training.read_state(resume_from) if resume_from else {}
    settings.seed = training.seed_of_run(settings.seed, state, training.Ranks())
    training.set_seed(settings.seed)

    # Data: rows in, pairs of samples out, and a look at what will be trained on.
    tokenizer = config.instantiate(settings.tokenizer)
    checkpointer = config.instantiate(settings.checkpointer)
    dataset = instantiate_dataset(settings.dataset, tokenizer)
    held_out = instantiate_dataset(settings.dataset_val, tokenizer) if settings.dataset_val else None
    refuse_packs(dataset, "dataset")
    refuse_packs(held_out, "dataset_val")
    counts = report_pairs("training pairs", dataset, check_rows=settings.check_rows)
    held_out_counts = held_out and report_pairs("held-out pairs", held_out, check_rows=settings.check_rows)
    show = partial(tokenizer.decode, truncate_at_eos=False, skip_special_tokens=False)
    print(f"first pair, as the loss sees it:\n{preview_pair(dataset[0], show)}", flush=True)

    # Model, loss, optimizer.
    model: Any = training.build_model(
        partial(config.instantiate, settings.model),
        device=device,
        dtype=dtype,
        weights=checkpointer,
        tokenizer=tokenizer,
    )
    print(training.describe_parameters(model), flush=True)
    training.check_model(model, counts, side_of(dataset[0], "chosen"))
    if held_out is not None:
        training.check_model(model, held_out_counts or None, side_of(held_out[0], "chosen"))
    loss_fn = config.instantiate(settings.loss)
    if settings.enable_activation_checkpointing:
        training.set_activation_checkpointing(model, {TransformerSelfAttentionLayer})
    if settings.compile:
        training.compile_layers(model)
    optimizer = config.instantiate(settings.optimizer, [one for one in model.parameters() if one.requires_grad])

    # Batches: the steps of the run, each of so many pairs.
    workers = {name: settings[name] for name in WORKERS}
    collate_fn = training.collater(
        dataset[0], model, config.resolve(settings.collate_fn), padding_idx=getattr(tokenizer, "pad_id", 0)
    )
    steps = GlobalSteps.of(
        dataset,
        global_batch_size=settings.batch_size * settings.gradient_accumulation_steps,
        seed=settings.seed,
        shuffle=settings.shuffle,
        balance=settings.balance,
        max_steps=settings.max_steps_per_epoch,
    )
    loader = StepLoader(dataset, steps, batch_size=settings.batch_size, collate_fn=collate_fn, **workers)
    num_steps = loader.num_steps(epochs=settings.epochs, max_steps=settings.max_steps)
    assert num_steps is not None
    shown = Subset(dataset, range(min(len(dataset), settings.num_rows_for_training_loss)))

    # The reference: the model as it is now, before a checkpoint is loaded. A resumed run computes the same numbers.
    def kept_log_probs(pairs: Any, needed: set[int] | None = None) -> rlhf.KeptLogProbs:
        size = settings.batch_size
        return rlhf.KeptLogProbs.computed(
            model, pairs, needed=needed, collate_fn=collate_fn, batch_size=size, device=device, **workers
        )

    if getattr(model, "lora", None) is not None:
        print("reference: the model with its adapters off, asked at every step", flush=True)
        reference = held_out_reference = rlhf.AdaptersOff(model)
    else:
        needed = pairs_read(steps, num_steps) | set(shown.indices)
        print(f"reference: log-probabilities of {len(needed):,} training pairs, computed once ...", flush=True)
        reference = kept_log_probs(dataset, needed)
        held_out_reference = kept_log_probs(held_out) if held_out is not None else reference

    def rewards_over(pairs: Any, compared_with: rlhf.Reference) -> dict[str, float]:
        of_pairs = GlobalSteps.of(pairs, global_batch_size=settings.batch_size, shuffle=False)
        one_by_one = StepLoader(pairs, of_pairs, batch_size=settings.batch_size, collate_fn=collate_fn, **workers)

        def batches() -> Iterator[tuple[rlhf.Batch, list[int]]]:
            for step in one_by_one:
                for (tokens, labels), numbers in zip(step.micro_batches, one_by_one.packs_of(step), strict=True):
                    yield (tokens.to(device), labels.to(device)), numbers

        return rlhf.mean_rewards(model, loss_fn, compared_with, batches())

    def rewards() -> dict[str, dict[str, float]]:
        found = {"training": rewards_over(shown, reference)} if len(shown) else {}
        return found if held_out is None else {**found, "held-out": rewards_over(held_out, held_out_reference)}

    # Where the run stands. What decides it is kept in the checkpoint, and compared on resume.
    plain: Any = OmegaConf.to_container(settings, resolve=True)
    depends_on = training.what_decides_the_run(plain, counts, weights=checkpointer and checkpointer.fingerprint())
    scheduler = None
    if settings.lr_scheduler:
        depends_on["steps of lr_scheduler"] = training.steps_of_schedule(num_steps)
        scheduler = config.instantiate(settings.lr_scheduler, optimizer, num_training_steps=num_steps)
    before = state.get("rewards_before") or rewards()
    best = state.get("best_loss", float("inf"))
    if resume_from:
        training.load_checkpoint(
            resume_from, model=model, optimizer=optimizer, scheduler=scheduler, depends_on=depends_on
        )
        loader.load_state_dict(state["loader"])
    where = f"resumed at step {loader.steps_done} of {num_steps} from {resume_from}" if resume_from else num_steps
    print(f"{'' if resume_from else 'steps: '}{where}; {loader.describe()}", flush=True)

    def save(is_best: bool = False) -> Path:
        now = {"rewards_before": before, "best_loss": best}
        return training.save_checkpoint(
            output_dir / "checkpoints",
            step=loader.steps_done,
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            state={"depends_on": depends_on, **now, "loader": loader.state_dict()},
            keep_last=settings.keep_last_n_checkpoints,
            is_best=is_best,
        )

    # The loop: one optimizer step a turn. An earlier run goes only now, with all in place.
    model.train()
    checkpoint, exports = (
        resume_from,
        training.Exports(
            checkpointer,
            model,
            every=settings.export_every_n_steps,
            adapter_only=settings.save_adapter_weights_only,
        ),
    )
    profiler, _ = config.instantiate(settings.profiler) or (training.DummyProfiler(), None)
    log = training.TrainingLog(
        output_dir / "log.jsonl",
        num_steps=num_steps,
        done_steps=loader.steps_done,
        every=settings.log_every_n_steps or 1,
        metric_logger=partial(config.instantiate, settings.metric_logger),
        config=settings,
    )
    with log, profiler, training.StopSignal() as stop:
        if settings.overwrite:
            shutil.rmtree(output_dir / "checkpoints", ignore_errors=True)
        exports.after(loader.steps_done, epoch=loader.ended_epoch)  # a kill may have come between checkpoint and export
        for batches in loader.until(settings.max_steps, epochs=settings.epochs):
            step = loader.steps_done
            training.set_seed(settings.seed, "step", step)
            sums = torch.zeros(len(rlhf.REWARD_NAMES), dtype=torch.float64)
            measured = {"lr": optimizer.param_groups[0]["lr"]}
            pairs_of_step = loader.packs_of(batches)
            for (tokens, labels), pairs in zip(batches.micro_batches, pairs_of_step, strict=True):
                if max(pairs) < 0:  # padding alone, where the last step of an epoch has fewer pairs
                    continue
                batch = tokens.to(device), labels.to(device)
                found = rlhf.pair_losses(model, loss_fn, reference, batch, pairs)
                # This micro-batch's sum over its pairs, divided by the pairs of the whole step.
                loss = found.losses.sum() / batches.num_packs
                training.check_loss(float(loss.detach()), step=step, rows=partial(describe_rows, dataset, pairs))
                sums += found.sums() / batches.num_packs
                loss.backward()
            if settings.clip_grad_norm:
                norm = training.clip_grad_norm(model, float(settings.clip_grad_norm))
                rows = partial(describe_rows, dataset, [pair for pairs in pairs_of_step for pair in pairs])
                measured["grad_norm"] = training.check_loss(norm, step=step, rows=rows, name="gradient norm")
            optimizer.step()
            if scheduler:
                scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            profiler.step()
            memory = training.get_memory_stats(device) if settings.log_peak_memory_stats else {}
            of_step = dict(zip(rlhf.REWARD_NAMES, sums.tolist(), strict=True))
            log.step(
                step,
                loss=of_step.pop("loss"),
                tokens=sum(tokens.numel() for tokens, _ in batches.micro_batches),
                trained_tokens=sum(training.num_trained({"labels": labels}) for _, labels in batches.micro_batches),
                more={**of_step, **measured, **memory},
            )
            is_best = False
            if held_out is not None and step % (settings.run_val_every_n_steps or step + 1) == 0:
                of_held_out = rewards_over(held_out, held_out_reference)
                val_loss = of_held_out.pop("loss")
                log.validation(step, loss=val_loss, more=of_held_out)
                is_best = settings.keep_best_checkpoint and val_loss < best
                best = min(best, val_loss)
            every = settings.save_every_n_steps or step + 1
            if is_best or exports.due(step, loader.ended_epoch) or step % every == 0:
                checkpoint = save(is_best)
            exports.after(step, epoch=loader.ended_epoch)
            if stop.asked:
                break
        step = loader.steps_done
        if checkpoint is None or checkpoint.name != f"step_{step:08d}":
            checkpoint = save()
        if stop.asked:
            print(f"SIGTERM: ended after step {step} of {num_steps}, saved as {checkpoint}. resume=true goes on.")
            return

    # What came out.
    for name, after in rewards().items():
        compared = ", ".join(
            f"{what} {before.get(name, {}).get(key, float('nan')):.3f} before, {after[key]:.3f} after"
            for what, key in (("reward margin", "reward_margin"), ("loss", "loss"))
        )
        print(f"{name} pairs: {compared}; reward accuracy {after['reward_accuracy']:.1%}")
    if exported := exports.at_end(step, epoch=loader.ended_epoch):
        print(f"exported: {exported}", flush=True)
    prompt = prompt_of(side_of(dataset[0], "chosen"))
    if prompt and settings.max_generated_tokens:
        ends = getattr(tokenizer, "stop_tokens", ())
        reply = generate(model, prompt, max_new_tokens=settings.max_generated_tokens, stop_token_ids=ends)
        print("generation from the prompt of the first pair:")
        print(f"  prompt: {show(prompt)!r}\n  reply:  {show(reply)!r}")
    if settings.plot:
        print(f"plot: {training.plot_losses(output_dir / 'log.jsonl', output_dir / 'loss.png')}")
    print(f"checkpoint: {checkpoint}\nlog: {output_dir / 'log.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
