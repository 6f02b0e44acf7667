"""Times PyTorch on a device. This is no program of its own."""
import time

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_once(step):
    """Seconds of the device."""
    if DEVICE.type == "cpu":
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def time_median(step, steps, warm_up=3):
    seconds = sorted([time_once(step) for _ in range(warm_up + steps)][warm_up:])
    return seconds[len(seconds) // 2]
