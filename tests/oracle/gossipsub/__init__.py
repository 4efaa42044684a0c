"""A slow oracle of GossipSub, in runs and in worlds: rules G1 to G22 of docs/rules.md.

Written from the rules alone, by someone who has not seen the code of ``scribe_spark``.

Draws are asked of one callable, ``draw(purpose, *numbers)`` -> 64 bits, unsigned, for a run's seed.
Purposes and numbers (h, k: a heartbeat; r: a round; a topic goes in by its group's number):

* whom to dial: ``("gossipsub dial", h, topic, x, i)``, ``("gossipsub graph", x, i)``,
  ``("gossipsub fanout", r, topic, source, i)``;
* taken modulo: ``("gossipsub wave", topic, x)``, ``("gossipsub phase", x)``;
* sorted by, with the numbers ``(h, topic, x, y)``: ``gossipsub`` ``join``, ``graft``, ``keep``,
  ``outbound``, ``take``, ``ihave``, ``iwant``, ``fanout peers``;
* shares: ``("gossipsub loss", k, topic, sender, receiver)``, in worlds
  ``("gossipsub loss", r, topic, sender, receiver, published, source)``.

Topics do not touch each other, so a topic is played alone. Use: `topic` (discovery, G1 to G3;
`topic.Topic`: connections, mesh, back-off: G4 to G9), `publication` (G10 to G13), `world` (G16 to
G22), `run` (heartbeats of a world's topic, and a publication), `cases` (seeded random cases of
both).
"""
