"""Supervised fine-tuning, of all weights or of adapters: a file of chats in, a trained model out.

    torchpipe run sft --config tiny/sft data_file=chats.json output_dir=runs/mine
    torchpipe run --nproc_per_node 2 sft --config tiny/sft data_file=chats.json output_dir=runs/mine

The whole job is in this file, top to bottom: settings, data, model, loop. Copy it (`torchpipe cp sft my_sft.py`) and
change it. Everything about the data happens before the model is built, so a bad row stops the run at once. On several
devices it is data parallel. Configs of torchtune's full and LoRA recipes run as they are, with the package's name
replaced (docs/from_torchtune.md).
"""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Subset

from torchpipe import config, datasets, training
from torchpipe.audit import preview, prompt_of, report_held_out, report_rows
from torchpipe.config import Setting
from torchpipe.errors import ConfigError
from torchpipe.loading import GlobalSteps, StepLoader, steps_of
from torchpipe.models.generate import generate
from torchpipe.modules import TransformerSelfAttentionLayer
from torchpipe.pipeline import FirstRows, GraphSteps, check_graph_settings, graph_loader

# Every key that the recipe reads. A key that is not here is refused by name, or, if it is one of torchtune's, answered.
KEYS = {
    "tokenizer": Setting(),
    "dataset": Setting(None),
    "dataloader": Setting(None),  # instead of dataset: a graph, as torchpipe.pipeline.GrainDataLoader.Config
    "max_context_length": Setting(None, at_least=1, can_be_null=True),  # of a graph's documents; null: the tokenizer's
    "num_tokens_per_batch": Setting(None, at_least=1, can_be_null=True),  # of a graph's rows; null: max_context_length
    "model": Setting(),
    "optimizer": Setting(),
    "loss": Setting(),
    "output_dir": Setting(),  # checkpoints and log.jsonl go here
    "dataset_val": Setting(None),  # held-out rows; several sections by name: a loss for each
    "data_file": Setting(None),  # for ${data_file} in the dataset sections
    "model_dir": Setting(None),  # for ${model_dir}
    "collate_fn": Setting("torchpipe.data.padded_collate_sft"),  # of unpacked samples
    "static_shapes": Setting(False),  # unpacked batches have one of a few widths, so that little is compiled
    "check_rows": Setting(True),  # read every row once before the model is built, and count
    "checkpointer": Setting(None),  # where the first weights come from, and weights in a publisher's layout go
    "seed": Setting(0, at_least=0, can_be_null=True),  # null: drawn, printed and kept in the checkpoints
    "device": Setting("cpu"),  # under torchrun: cpu, or cuda for one device a process
    "dtype": Setting(None),  # of the weights: fp32 or bf16; null: fp32
    "compile": Setting(False),  # each layer of the model
    "enable_activation_checkpointing": Setting(False),  # less memory, more time
    "shuffle": Setting(True),
    "batch_size": Setting(8, at_least=1),  # packs (rows, where packed is false) of a micro-batch, on each rank
    "gradient_accumulation_steps": Setting(1, at_least=1),  # micro-batches of a step, on each rank, at the first start
    "global_batch_size": Setting(None, at_least=1, can_be_null=True),  # packs of a step; null: the product of these two
    # and the number of ranks at the first start. It is kept: on other ranks a run goes on with the same steps.
    "balance": Setting("within_step"),  # how packs go to ranks: none, within_step or steps
    "epochs": Setting(1, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "max_steps_per_epoch": Setting(None, at_least=1, can_be_null=True),
    "lr_scheduler": Setting(None),  # stepped after each optimizer step
    "clip_grad_norm": Setting(None, above=0, can_be_null=True),
    "num_workers": Setting(0, at_least=0),
    "pin_memory": Setting(False),
    "prefetch_factor": Setting(None, at_least=1, can_be_null=True),
    "read_ahead": Setting(None, at_least=0, can_be_null=True),  # steps that a thread reads while one trains; null: as
    # many as change nothing
    "run_val_every_n_steps": Setting(None, at_least=1, can_be_null=True),
    "num_rows_for_training_loss": Setting(32, at_least=0),  # the first rows; their loss is printed before and after
    "save_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # at the end a checkpoint is written in any case
    "keep_last_n_checkpoints": Setting(2, at_least=1),
    "keep_best_checkpoint": Setting(False),  # by held-out loss, as checkpoints/best
    "export_every_n_steps": Setting(None, at_least=1, can_be_null=True),  # by checkpointer; and after each epoch
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
WORKERS = ("num_workers", "pin_memory", "prefetch_factor", "read_ahead")


def checked_settings(cfg: DictConfig) -> DictConfig:
    """The config over the defaults; what can't work is refused before anything is read."""
    settings = config.read_settings(cfg, KEYS)
    config.validate(cfg)
    check_graph_settings(cfg, settings)
    training.check_run_settings(settings)
    if settings.global_batch_size and settings.gradient_accumulation_steps > 1:
        raise ConfigError(
            "global_batch_size says how many micro-batches a step has, and gradient_accumulation_steps too. Set one."
        )
    # What the loader refuses is refused here too, before the data is read.
    steps = GlobalSteps(num_packs=1, global_batch_size=1, shuffle=settings.shuffle, balance=settings.balance)
    StepLoader([0], steps, batch_size=1, collate_fn=list, **{name: settings[name] for name in WORKERS})
    return settings


@config.parse
def main(cfg: DictConfig) -> None:
    """Trains as the config says, alone or as one of the ranks that torchrun started."""
    cfg, notes = config.adopt_torchtune_keys(cfg, KEYS)
    settings = checked_settings(cfg)
    with training.Ranks(settings.device) as ranks:
        print(*(f"note: {note}\n" for note in notes), sep="", end="", flush=True)
        train(cfg, settings, ranks)


def train(cfg: DictConfig, settings: DictConfig, ranks: training.Ranks) -> None:
    """The whole job of one rank."""
    config.log_config("sft", cfg)
    output_dir, device = Path(settings.output_dir), ranks.device
    dtype = training.training_dtype(settings.dtype, device)
    resume_from = training.checkpoint_to_resume(output_dir, resume=settings.resume, overwrite=settings.overwrite)
    state: dict[str, Any] = training.read_state(resume_from) if resume_from else {}
    settings.seed = training.seed_of_run(settings.seed, state, ranks)
    training.set_seed(settings.seed)

    # Data: rows in, samples out, and a look at what will be trained on.
    tokenizer = config.instantiate(settings.tokenizer)
    checkpointer = config.instantiate(settings.checkpointer)
    base_weights = checkpointer and checkpointer.fingerprint()  # a missing file is told before the rows are read
    collate_fn = config.resolve(settings.collate_fn)
    graph = graph_loader(settings, tokenizer, rank=ranks.rank, world_size=ranks.world_size, state=state)
    shown = FirstRows(graph, settings.num_rows_for_training_loss) if graph else None
    dataset = shown or datasets.instantiate_dataset(settings.dataset, tokenizer)
    held_out = datasets.instantiate_held_out(settings.dataset_val or None, tokenizer)
    by_shard = isinstance(dataset, datasets.GrowingPackedDataset)  # tokenised in the background, while it is trained on
    first_rows = dataset.first_part if by_shard else dataset
    for rows in (first_rows, *held_out.values()):
        datasets.refuse_datasets_without_samples(rows, "Recipe sft trains on")
    report = partial(report_rows, check_rows=settings.check_rows)
    knows_first_alone = by_shard or (graph is not None and not graph.is_planned)
    counts = report("first training rows" if knows_first_alone else "training rows", first_rows)
    held_out_counts = report_held_out(held_out, check_rows=settings.check_rows)
    widest = max([found.longest for found in (counts, *held_out_counts.values()) if found], default=None)
    first_sample = first_rows[0]
    show = partial(tokenizer.decode, truncate_at_eos=False, skip_special_tokens=False)
    print(f"first sample, as the loss sees it:\n{preview(first_sample, show)}", flush=True)

    # Model, loss, optimizer.
    model: Any = training.build_model(
        partial(config.instantiate, settings.model),
        device=device,
        dtype=dtype,
        weights=checkpointer,
        tokenizer=tokenizer,
    )
    print(training.describe_parameters(model), flush=True)
    # Positions of a graph begin anew with each document.
    training.check_model(model, counts, shown.longest_document if shown else first_sample)
    if by_shard:
        dataset.check_with(partial(training.check_model, model, sample=first_sample))
    for name, rows in held_out.items():
        training.check_model(model, held_out_counts[name], rows[0])
    loss_fn = config.instantiate(settings.loss)
    if hasattr(loss_fn, "set_model_output"):
        loss_fn.set_model_output(model)  # the loss projects to the vocabulary itself, a part at a time
    if settings.enable_activation_checkpointing:
        training.set_activation_checkpointing(model, {TransformerSelfAttentionLayer})
    if settings.compile:
        training.compile_layers(model)
    optimizer = config.instantiate(settings.optimizer, [one for one in model.parameters() if one.requires_grad])

    # Batches: each step has so many packs, whatever the number of ranks, and each rank its share of them.
    padding_idx = getattr(tokenizer, "pad_id", 0)

    def loader_of(rows: Any, steps: Any) -> StepLoader:
        return StepLoader(
            rows,
            steps,
            batch_size=settings.batch_size,
            collate_fn=training.collater(
                rows[0], model, collate_fn, padding_idx=padding_idx, widest=widest if settings.static_shapes else None
            ),
            rank=ranks.rank,
            world_size=ranks.world_size,
            **{name: settings[name] for name in WORKERS},
        )

    def loss_over(rows: Any) -> training.LossSum:
        steps = GlobalSteps.of(rows, global_batch_size=settings.batch_size * ranks.world_size, shuffle=False)
        batches = (batch for step in loader_of(rows, steps) for batch in step.micro_batches)
        return training.loss_sum(model, loss_fn, batches, device, ranks.sum)

    def losses() -> dict[str, float]:
        num_rows = min(len(first_rows), settings.num_rows_for_training_loss)
        found = {"training": loss_over(Subset(first_rows, range(num_rows))).mean} if num_rows else {}
        return found | training.held_out_losses(loss_over, held_out)

    rows_a_batch = graph.collator.num_rows_per_batch() if graph else settings.batch_size
    per_step = rows_a_batch * settings.gradient_accumulation_steps * ranks.world_size
    global_batch_size = settings.global_batch_size or state.get("loader", {}).get("global_batch_size", per_step)
    steps = None
    if graph:
        collate = training.collater(first_sample, model, collate_fn, padding_idx=padding_idx)
        loader: Any = GraphSteps(graph, global_batch_size=global_batch_size, collate_fn=collate)
        described = loader.describe_rows
    else:
        order = {name: settings[name] for name in ("seed", "shuffle", "balance")}
        epochs = min(settings.epochs, settings.max_steps or settings.epochs)  # an epoch has a step at least
        dataset = datasets.over_epochs(dataset, epochs)  # a mix goes on where an epoch ended
        steps = steps_of(dataset, global_batch_size=global_batch_size, max_steps=settings.max_steps_per_epoch, **order)
        loader = loader_of(dataset, steps)
        described = partial(datasets.describe_rows, dataset)

    def num_steps() -> int | None:  # None: not known yet
        return loader.num_steps(epochs=settings.epochs, max_steps=settings.max_steps)

    # Where the run stands. What decides it is kept in the checkpoint, and compared on resume.
    plain: Any = OmegaConf.to_container(settings, resolve=True)
    depends_on = training.what_decides_the_run(plain, counts, weights=base_weights)
    scheduler = None
    if settings.lr_scheduler:
        depends_on["steps of lr_scheduler"] = training.steps_of_schedule(num_steps())
        scheduler = config.instantiate(settings.lr_scheduler, optimizer, num_training_steps=num_steps())
    if resume_from:
        training.load_checkpoint(
            resume_from, model=model, optimizer=optimizer, scheduler=scheduler, depends_on=depends_on
        )
        loader.load_state_dict(state["loader"])
    ranks.join()  # from here on they wait for each other
    ranks.agree({"the step to go on from": state.get("step"), **depends_on})
    ranks.share(model)
    known = num_steps() or "? (known when all rows are tokenised)"
    where = f"resumed at step {loader.steps_done} of {known} from {resume_from}" if resume_from else f"steps: {known}"
    print(f"{where}; {loader.describe()}", flush=True)
    if state.get("world_size", ranks.world_size) != ranks.world_size:
        print(f"world size was {state['world_size']}, is {ranks.world_size}: {loader.describe()}", flush=True)
    if "losses_before" not in state and settings.num_rows_for_training_loss:
        print(f"measuring the loss on {settings.num_rows_for_training_loss} packs or rows at most ...", flush=True)
    losses_before, best = state.get("losses_before") or losses(), state.get("best_loss", float("inf"))

    def save(is_best: bool = False) -> Path:
        place = loader.state_dict()  # each rank may know a part of it, so that all of them come here together
        now = {"losses_before": losses_before, "best_loss": best, "world_size": ranks.world_size}
        return training.save_checkpoint(
            output_dir / "checkpoints",
            step=loader.steps_done,
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            state={"depends_on": depends_on, **now, "loader": place},
            keep_last=settings.keep_last_n_checkpoints,
            is_best=is_best,
            writes=ranks.is_first,
        )

    def go_on_with_all_rows() -> None:
        counts = report_rows("training rows", dataset, check_rows=True)
        ranks.agree({"tokens and labels": counts and counts.digest})
        log.expect(num_steps() or 0)
        print(f"steps: {num_steps()}; {loader.describe()}", flush=True)

    # The loop: one optimizer step a turn. An earlier run goes only now, with all in place.
    model.train()
    checkpoint, stopped = resume_from, 0.0
    exports = training.Exports(
        checkpointer,
        model,
        every=settings.export_every_n_steps,
        adapter_only=settings.save_adapter_weights_only,
        writes=ranks.is_first,
    )
    profiler, _ = config.instantiate(settings.profiler) or (training.DummyProfiler(), None)
    log = training.TrainingLog(
        output_dir / "log.jsonl",
        num_steps=num_steps(),
        done_steps=loader.steps_done,
        every=settings.log_every_n_steps or 1,
        silent=not ranks.is_first,
        metric_logger=partial(config.instantiate, settings.metric_logger),
        config=settings,
    )
    with log, profiler, training.StopSignal() as stop:
        if settings.overwrite and ranks.is_first:
            shutil.rmtree(output_dir / "checkpoints", ignore_errors=True)
        exports.after(loader.steps_done, epoch=loader.ended_epoch)  # a kill may have come between checkpoint and export
        wait = training.StepWait(ranks, steps, stop=lambda: stop.asked, save=save, on_complete=go_on_with_all_rows)
        for batches in loader.until(settings.max_steps, epochs=settings.epochs, wait=wait if by_shard else None):
            step = loader.steps_done
            training.set_seed(settings.seed, "step", step, ranks.rank)
            trained, weight = training.step_totals(batches, ranks.sum)  # over all ranks; without loss weights, the same
            step_loss, measured = 0.0, {"lr": optimizer.param_groups[0]["lr"]}
            packs_of_step = loader.packs_of(batches)
            for batch, packs in zip(batches.micro_batches, packs_of_step, strict=True):
                if not training.trained_weight(batch):
                    continue
                # This micro-batch's sum over its trained tokens, divided by those of the whole step.
                loss = training.batch_loss(model, loss_fn, batch, device) * (training.trained_weight(batch) / weight)
                step_loss += training.check_loss(float(loss.detach()), step=step, rows=partial(described, packs))
                loss.backward()
            ranks.sum_gradients(model)
            if weight:  # a step without a trained token changes nothing
                if settings.clip_grad_norm:
                    norm = training.clip_grad_norm(model, float(settings.clip_grad_norm))
                    rows = partial(described, [pack for packs in packs_of_step for pack in packs])
                    measured["grad_norm"] = training.check_loss(norm, step=step, rows=rows, name="gradient norm")
                optimizer.step()
                if scheduler:
                    scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            profiler.step()
            tokens = sum(batch["labels"].numel() for batch in batches.micro_batches)
            step_loss, tokens, stopped = ranks.sum(step_loss, tokens, stop.asked)  # all ranks stop, or none
            memory = training.get_memory_stats(device) if settings.log_peak_memory_stats else {}
            log.step(step, loss=step_loss, tokens=int(tokens), trained_tokens=trained, more={**measured, **memory})
            is_best = False
            if held_out and step % (settings.run_val_every_n_steps or step + 1) == 0:
                log.validation(step, loss=(found := training.held_out_losses(loss_over, held_out)))
                is_best = settings.keep_best_checkpoint and found["held-out"] < best
                best = min(best, found["held-out"])
            every = settings.save_every_n_steps or step + 1
            if is_best or exports.due(step, loader.ended_epoch) or step % every == 0:
                checkpoint = save(is_best)
            exports.after(step, epoch=loader.ended_epoch)
            if stopped:
                break
        step = loader.steps_done
        if checkpoint is None or checkpoint.name != f"step_{step:08d}":
            checkpoint = save()
        if stopped or wait.was_stopped:
            total = num_steps() or "?"
            print(f"SIGTERM: ended after step {step} of {total}, saved as {checkpoint}. resume=true goes on.")
            return

    # What came out.
    if exported := exports.at_end(step, epoch=loader.ended_epoch):
        print(f"exported: {exported}", flush=True)
    for name, after in losses().items():
        print(f"{name} loss: {losses_before.get(name, float('nan')):.3f} before, {after:.3f} after")
    prompt = prompt_of(first_sample)
    if ranks.is_first and prompt and settings.max_generated_tokens:
        ends = getattr(tokenizer, "stop_tokens", ())
        reply = generate(model, prompt, max_new_tokens=settings.max_generated_tokens, stop_token_ids=ends)
        num_ids = getattr(tokenizer, "vocab_size", max(reply, default=0) + 1)  # a model may have more
        reply = [token_id for token_id in reply if token_id < num_ids]
        print("generation from the prompt of the first sample:")
        print(f"  prompt: {show(prompt)!r}\n  reply:  {show(reply)!r}")
    if settings.plot and ranks.is_first:
        print(f"plot: {training.plot_losses(output_dir / 'log.jsonl', output_dir / 'loss.png')}")
    print(f"checkpoint: {checkpoint}\nlog: {output_dir / 'log.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
