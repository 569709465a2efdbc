"""Group ``runtime``: random numbers."""

from __future__ import annotations

from typing import Any

from .context import SuiteContext, require
from .registry import check
from .runtime import need_devices


def _draws(context: SuiteContext, generator: Any) -> list[Any]:
    """Return numbers of several distributions, always in the same order."""
    torch, device = context.torch, context.device
    return [
        torch.rand(1001, generator=generator, device=device),
        torch.randn(1001, generator=generator, device=device),
        torch.randint(0, 1000, (1001,), generator=generator, device=device),
        torch.randperm(257, generator=generator, device=device),
        torch.full((1001,), 0.3, device=device).bernoulli(generator=generator),
    ]


def _same(context: SuiteContext, left: list[Any], right: list[Any]) -> bool:
    return all(context.torch.equal(a, b) for a, b in zip(left, right))


def _differ(context: SuiteContext, left: list[Any], right: list[Any]) -> bool:
    return not any(context.torch.equal(a, b) for a, b in zip(left, right))


@check("runtime.generator_seed", "random numbers depend only on the seed")
def generator_seed(context: SuiteContext) -> None:
    """Seed generators and the default one; draw twice."""
    torch = context.torch
    first, second, third = (torch.Generator(context.device) for _ in range(3))
    require(first.device.type == context.backend.name, f"the generator is on {first.device}")
    first.manual_seed(1234)
    second.manual_seed(1234)
    third.manual_seed(1235)
    require(first.initial_seed() == 1234, f"after manual_seed(1234) the seed is {first.initial_seed()}")
    numbers = _draws(context, first)
    problem = "two generators with the same seed give different numbers"
    require(_same(context, numbers, _draws(context, second)), problem)
    require(_differ(context, numbers, _draws(context, third)), "another seed gives the same numbers")
    require(_differ(context, numbers, _draws(context, first)), "a generator repeats itself")
    torch.manual_seed(99)
    numbers = _draws(context, None)
    require(_differ(context, numbers, _draws(context, None)), "the default generator repeats itself")
    torch.manual_seed(99)
    problem = "torch.manual_seed does not reset the default generator"
    require(_same(context, numbers, _draws(context, None)), problem)


@check("runtime.generator_state", "a saved generator state can be restored")
def generator_state(context: SuiteContext) -> None:
    """Save and restore states; draws from one generator leave another alone."""
    torch = context.torch
    generator, other = torch.Generator(context.device), torch.Generator(context.device)
    generator.manual_seed(5)
    other.manual_seed(6)
    _draws(context, generator)
    state, quiet = generator.get_state(), other.get_state()
    require(state.device.type == "cpu", f"a generator's state is on {state.device}")
    numbers = _draws(context, generator)
    require(not torch.equal(state, generator.get_state()), "drawing does not change the generator's state")
    require(torch.equal(quiet, other.get_state()), "draws from one generator changed the state of another")
    generator.set_state(state)
    require(_same(context, numbers, _draws(context, generator)), "a restored state gives different numbers")
    other.set_state(state)
    problem = "a state gives different numbers in another generator"
    require(_same(context, numbers, _draws(context, other)), problem)
    owner = torch if context.backend.name == "cpu" else context.module
    get, put = owner.get_rng_state, owner.set_rng_state
    state = get()
    numbers = _draws(context, None)
    put(state)
    problem = "a restored state of the default generator gives different numbers"
    require(_same(context, numbers, _draws(context, None)), problem)


@check("runtime.generator_devices", "each device has its own generator")
def generator_devices(context: SuiteContext) -> None:
    """Seed all devices, draw on one; the other generators must not change."""
    number = need_devices(context, 2)
    torch, module, name = context.torch, context.module, context.backend.name
    module.manual_seed_all(31)
    states = [module.get_rng_state(f"{name}:{index}") for index in range(number)]
    first = [torch.rand(100, device=f"{name}:{index}").cpu() for index in range(number)]
    problem = "one seed gives different numbers on another device"
    require(all(torch.equal(first[0], numbers) for numbers in first), problem)
    for index in range(number):
        module.set_rng_state(states[index], f"{name}:{index}")
    torch.rand(100, device=f"{name}:1")
    untouched = torch.equal(module.get_rng_state(f"{name}:0"), states[0])
    require(untouched, "drawing on device 1 changed the generator of device 0")
    moved = not torch.equal(module.get_rng_state(f"{name}:1"), states[1])
    require(moved, "drawing on device 1 did not change its generator")
