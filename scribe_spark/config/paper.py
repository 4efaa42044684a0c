"""The experiments of Section IV of the paper, each over several topologies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import field_validator, model_validator

from scribe_spark.config.experiment import RunConfig
from scribe_spark.config.section import Names, Section, setting, within
from scribe_spark.core.errors import InputError, check_names


@dataclass(frozen=True)
class PaperExperiment:
    """An experiment of Section IV: its settings without a seed, and its number of seeds."""

    settings: Mapping[str, Any]
    seeds: int | None = None

    @cached_property
    def config(self) -> RunConfig:
        """The config of the experiment with seed 1."""
        return RunConfig(**self.settings)


#: The experiments of Section IV, in the order in which they run for each seed.
EXPERIMENTS: dict[str, PaperExperiment] = {
    "main": PaperExperiment({"overlay": "perfect", "variants": "bottleneck,collapse,lazy"}),
    "small_groups": PaperExperiment(
        {
            **{"overlay": "perfect", "variants": "collapse,lazy"},
            **{"nodes": 50_000, "groups": 30_000, "group_size": 11},
        }
    ),
    "internet": PaperExperiment({"overlay": "perfect", "topology": "power-law"}, seeds=1),
    "arrivals": PaperExperiment({"overlay": "arrivals", "variants": "bottleneck"}),
}


class Paper(Section):
    """The settings of the command ``paper``: experiments, seeds and topologies."""

    about: ClassVar[str] = "The experiments of Section IV of the Scribe paper (JSAC 2002)."

    seeds: Annotated[int, within(1, 10_000)] = setting(
        10, "Number of seeds: 1, 2, ...; each seed gives its own topology, nodeIds and members"
    )
    experiments: Names = setting(
        tuple(EXPERIMENTS),
        "Experiments, separated by commas: main (Sections IV.A to IV.E), small_groups (Section "
        "IV.F), internet (a power-law topology in place of the second one of IV.A; only one "
        "seed), arrivals (Sections IV.A to IV.E with nodes that arrive by Pastry's protocol)",
    )
    scale: Annotated[float, within(1e-6, 100.0)] = setting(
        1.0,
        "Factor for the numbers of nodes, groups and power-law routers of every experiment; below "
        "1 for a trial",
    )

    @field_validator("experiments")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return each experiment once, and refuse unknown names."""
        check_names(names, EXPERIMENTS, "experiments")
        return tuple(dict.fromkeys(names))

    @model_validator(mode="after")
    def _can_be_run(self) -> Paper:
        for name in self.experiments:
            try:
                self._run(EXPERIMENTS[name].config, 1)
            except InputError as error:
                remedy = f"is not possible for {name}: {error}"
                raise InputError("scale", self.scale, remedy) from None
        return self

    def runs(self) -> dict[int, dict[str, RunConfig]]:
        """Return the config of each run: seed -> experiment -> config."""
        return {
            seed: {
                name: self._run(EXPERIMENTS[name].config, seed)
                for name in self.experiments
                if seed <= (EXPERIMENTS[name].seeds or seed)
            }
            for seed in range(1, self.seeds + 1)
        }

    def _run(self, config: RunConfig, seed: int) -> RunConfig:
        changes: dict[str, Any] = {
            "seed": seed,
            "nodes": max(round(config.overlay.nodes * self.scale), config.groups.size or 1),
            "groups": max(round((config.groups.count or 0) * self.scale), 1),
        }
        if config.topology.kind == "power-law":
            network = config.topology
            changes["power_law_routers"] = max(round(network.power_law_routers * self.scale), 100)
            changes["power_law_links"] = max(round(network.power_law_links * self.scale), 139)
        return config.replace(**changes)
