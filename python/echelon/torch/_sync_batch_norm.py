# SPDX-License-Identifier: Apache-2.0
"""Batch normalization by the statistics of the batches of all ranks."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .._collectives import allreduce, set_of
from .._constants import Sum
from .._errors import InvalidError
from .._process_sets import ProcessSet


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _others(tensor: torch.Tensor) -> List[int]:
    """All dimensions but that of the channels."""
    return [k for k in range(tensor.dim()) if k != 1]


def _sum(tensor: torch.Tensor, members: ProcessSet) -> torch.Tensor:
    """Over the ranks, in place."""
    allreduce(tensor, Sum, out=tensor, process_set=members)
    return tensor


class _Normalized(torch.autograd.Function):
    """First the mean, then the variance around it: two small sums over the ranks forward, which
    loses no digits, and one backward."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
                eps: float, members: ProcessSet) -> Tuple[torch.Tensor, ...]:
        wide = given.to(torch.promote_types(given.dtype, torch.float32))
        rows = wide.new_tensor([wide.numel() // wide.size(1)])
        total = _sum(torch.cat([wide.sum(_others(wide)), rows]), members)
        count, mean = total[-1].clone(), total[:-1] / total[-1]
        centred = wide - _per_channel(mean, wide)
        variance = _sum(centred.square().sum(_others(wide)), members) / count
        inverse = (variance + eps).rsqrt()
        normal = centred * _per_channel(inverse, wide)
        ctx.members = members
        ctx.save_for_backward(normal, weight, inverse, count)
        ctx.mark_non_differentiable(mean, variance, count)
        result = normal * _per_channel(weight, wide) + _per_channel(bias, wide)
        return result.to(given.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Tuple[Any, ...]:
        normal, weight, inverse, count = ctx.saved_tensors
        wide = gradient.to(normal.dtype)
        of_bias = wide.sum(_others(wide))
        of_weight = (wide * normal).sum(_others(wide))
        means = _sum(torch.stack([of_bias, of_weight]), ctx.members) / count
        rest = wide - _per_channel(means[0], wide) - normal * _per_channel(means[1], wide)
        of_given = rest * _per_channel(weight * inverse, wide)
        return of_given.to(gradient.dtype), of_weight, of_bias, None, None


class SyncBatchNorm(_BatchNorm):
    """For BatchNorm1d, 2d and 3d, with their arguments. Its forward pass in training, and the
    backward pass of that, are collective."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1,
                 affine: bool = True, track_running_stats: bool = True, *,
                 process_set: Optional[ProcessSet] = None, **named: Any) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **named)
        self.process_set = process_set

    def _check_input_dim(self, given: torch.Tensor) -> None:
        if given.dim() < 2 or given.size(1) != self.num_features:
            raise InvalidError(f"a tensor of shape {tuple(given.shape)}: expected "
                               f"{self.num_features} channels in the second dimension")

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        members = set_of(self.process_set)
        if not self.training or members.size() == 1:
            return super().forward(given)
        self._check_input_dim(given)
        weight = given.new_ones(self.num_features) if self.weight is None else self.weight
        bias = given.new_zeros(self.num_features) if self.bias is None else self.bias
        result, mean, variance, count = _Normalized.apply(given, weight, bias, self.eps, members)
        if self.running_mean is not None:
            self._keep(mean, variance * count / (count - 1))
        return result  # type: ignore[no-any-return]

    @torch.no_grad()
    def _keep(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """The running statistics, as the base class keeps them."""
        self.num_batches_tracked.add_(1)
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_(variance.to(self.running_var.dtype), part)
