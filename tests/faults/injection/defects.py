"""Three faults put in on purpose, to see that the harness finds them."""

import contextlib
import os


def rename_before_complete(storage):
    """A file gets its name first and its content after."""
    real = storage.atomic_path

    @contextlib.contextmanager
    def atomic_path(location):
        if storage.is_remote(location):
            with real(location) as path:
                yield path
            return
        with storage._temporary_path(location) as path:
            target = storage.local_path(location)
            os.replace(path, target)
            yield target

    storage.atomic_path = atomic_path


def resume_one_step_off(checkpoint):
    """A run goes on one step after the one that it stopped at."""
    real = checkpoint.Checkpoints.restore

    def restore(self):
        progress = real(self)
        progress.step += bool(progress.step)
        return progress

    checkpoint.Checkpoints.restore = restore


def mask_of_the_batch(data):
    """What is masked depends on which batch of this process it is, not on the step."""
    real_batches, real_mask = data.training_batches, data.mask_batch
    first = {}

    def training_batches(*arguments, start_step, **settings):
        first["step"] = start_step
        return real_batches(*arguments, start_step=start_step, **settings)

    def mask_batch(*arguments, step, **settings):
        return real_mask(*arguments, step=step - first["step"], **settings)

    data.training_batches, data.mask_batch = training_batches, mask_batch


DEFECTS = {
    "rename_before_complete": ("clozeflow.storage", rename_before_complete),
    "resume_one_step_off": ("clozeflow.training.checkpoint", resume_one_step_off),
    "mask_of_the_batch": ("clozeflow.training.data", mask_of_the_batch),
}
