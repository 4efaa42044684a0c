"""A slow oracle of GossipSub, in runs and in worlds: rules G1 to G22 of docs/rules.md.

Written from the rules alone, by someone who has not seen the code of ``scribe_spark``.

Draws are asked of one callable, ``draw(purpose, *numbers)`` -> 64 bits, unsigned, for a run's seed.
Purposes and numbers (h is a heartbeat, or a round):
``("gossipsub dial", h, topic, x, i)`` and ``("gossipsub graph", x, i)``: the sample of whom to dial;
``("gossipsub wave", topic, x)``, ``("gossipsub phase", x)``: taken modulo;
``("gossipsub join" | "gossipsub graft" | "gossipsub keep" | "gossipsub outbound" | "gossipsub take",
h, topic, x, y)``, ``("gossipsub ihave", k, topic, a, y)``, ``("gossipsub iwant", k, topic, x, a)``,
``("gossipsub fanout peers", r, topic, s, y)``: to sort by; ``("gossipsub fanout", r, topic, s, i)``:
the sample of a source that is no subscriber; ``("gossipsub loss", k, topic, s, r)``, in worlds
``("gossipsub loss", r, topic, s, r, p, source)``: the share of 2^64.

Topics do not touch each other, so a topic is played alone. Use: `discovery` (G1 to G3), `topic.Topic`
(connections, mesh, back-off: G4 to G9), `publication` (G10 to G13), `run` (a static run of a topic),
`world` (G16 to G22), `cases` (seeded random cases of both).
"""
