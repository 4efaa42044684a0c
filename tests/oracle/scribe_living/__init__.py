"""A slow oracle of Scribe alive: leave, heartbeats, repair, roots, access lists, reliable delivery.

Written from docs/rules.md, JSAC 2002 III.A-B (Figures 3, 4) and NGC 2001 3.1-3.2 alone, by someone
who has not seen the code of ``scribe_spark``. It stands on `tests.oracle.living` (Pastry alive).

Use: `cases.random_world(seed)` gives a `cases.World` (plain data: nodes, rules, groups, settings,
events); ``world.play()`` or ``world.begin()`` and ``run.step(round, events)`` give a
`world.Snapshot` after each round; `compare.differences` holds two of them against each other;
`measures` has publications, attachment and rounds until repaired. By concept: `figures` (forward
and deliver), `joining`, `leaving`, `creating`, `upkeep` (refresh, expiry, suspicion, heartbeats),
`roots`, `sources`, `multicast`, `upcalls`, `reliable`.

Everything is bulk-synchronous: in a superstep all messages that are under way arrive at once, and
what a node does with several of them does not depend on their order. Nothing here is drawn.

CHOICES: what the texts leave open.

Rounds
 1. *Order of a round.* (1) Pastry's events; what is known of the dead is forgotten, goodbyes go
    out; then joins and quits (only marked; messages go in step 3). (2) Pastry's `mend`. (3) a
    newLeafs; b refreshes, then expiry, then suspicion; c LEAVEs; d CREATEs; e JOINs; f cycles;
    g JOINs of strangers; h dead entries found in d, e, g are dropped and repaired; i new or
    changed roots send replicas; j joinHandler and what it sends. (4) a MULTICASTs go to the roots,
    dead entries are dropped, j for roots that took over; b dissemination; c changed roots send
    replicas, and acknowledge (24); d heartbeats. (5) measurement (`world.Run.step`).
 2. *Events.* `create, join, quit, publish` name a live node (alive after Pastry's events) and a
    group; at most one of each kind for (group, node) and round. `join` of a member or of a
    stranger that waits (13), `quit` of a non-member are refused. `create` is an event, so that a
    group that was lost can be created again; a join before the creation waits (12).
 3. *Death ends everything* a node knew of Scribe, membership included: entries, copies, addresses,
    buffers, publications that it kept. A node that arrives or recovers has none; its user joins
    again by an event.

Trees
 4. *Entry* of (group, node) in the tree: entered (round), member, root, parent, join number, last
    round in which the parent was heard, children -> (join number, round refreshed), cause of the
    next JOIN. A node *waits* if it is in the tree, has no parent and is not the root.
 5. *The join number* is the round in which the JOIN was sent. A node sends at most one JOIN for a
    group in a round (questions to the parent, 18, not counted).
 6. *LEAVE* (3c): all nodes that are not member, not root and without child go at once; then the
    parents that got their LEAVEs, and so on (`leaving.leave_up`). They send it to their parent,
    if they have one, with their join number; a parent ignores one below the number of its entry.
    It comes before the JOINs of the round, so that these meet no node that is about to go.
 7. *JOIN* (3e): every waiting node sends one, in every round until it is answered: members that
    joined in this round, those that lost their parent, those whose JOIN got no answer. A join of
    a node that is in the tree sends nothing. In a superstep a node that gets JOINs of a group
    takes all sources as children, and each source has it as parent at once. A node that was not
    in the tree enters it, and its own JOIN (cause `forwarder`) goes on in the same superstep.
    ``forward`` is not called at a JOIN's source; where Pastry delivers at the source itself, 12.
 8. *Routes* are Pastry's with the tables as they are at the beginning of the phase (3d-g are one
    phase, 4a another): each message tries the candidates in order, each dead one is a lost
    transmission, and all that was found dead is dropped and repaired at the phase's end
    (`drops_seen = round`). A JOIN for which no candidate is left, or that comes to a node of its
    own route again, is lost: its source waits, and what was taken as child stays.
 9. *Answers* are not counted as messages. A root takes no answer.
10. *The own path* is known up to date: a node's chain is itself, its parent, and so on as far as
    live nodes of the tree are met, as it was before the superstep. (The answer and all heartbeats
    carry it; it is not kept stale on purpose.) A JOIN whose source is on the chain is not
    answered: the same message goes on from there by Pastry in the same superstep.
11. *Cycles* can only come from JOINs answered in the same superstep. After the JOINs, of each
    cycle of parents the node nearest to the groupId sends LEAVE to its parent and waits (cause
    `cycle`), until the next round (`joining.break_cycles`). None was ever met in random worlds.
12. *Where Pastry delivers* a JOIN at a node that is not in the tree: if it has a copy of the
    group's state it becomes the root and takes the children; if not, there is no such group: the
    JOINs are not answered (counted `no group`), their sources wait, and the node does not enter
    the tree. So orphans of a lost group join by themselves when it is created again. A node of
    the tree takes children wherever it is.
13. *Strangers.* `join` by a node that the list does not permit: it is no member and enters no
    tree. Its JOIN is routed after the round's JOINs (3g), and leaves nothing at the nodes that
    it passes; the first that is in the tree or has a copy refuses it (the node itself, if it is
    one: no message). If none does it is sent again in the next round. Only JOINs of `join` events
    are checked: forwarders need no permission, and who was permitted stays so.

Upkeep
14. *Times.* Heartbeats end the round (4d): a parent sends one to each entry of its table to which
    it sent no payload in step 4; one that hears its parent by either has heard it in this round
    (the answer to a JOIN counts too). In 3b a node suspects its parent if round - heard >
    `parent_timeout`: so many whole rounds without a sign; children of a node that failed in r
    join again in r + `parent_timeout`. A child refreshes in the rounds with (round - join number)
    divisible by `refresh`; a parent that has no entry with that join number says no (counted
    `refresh`), and the child waits (cause `refused`). A refresh or LEAVE lost at a dead parent
    tells the child nothing. After the refreshes entries with round - refreshed >= `child_timeout`
    are dropped. A parent keeps sending to a dead child until then (lost, counted).
    Heartbeats from others than the parent are ignored; payloads from them are refused, and the
    sender drops the entry at the end of the hop (one `drop child` for sender, node and group).
    *Departing* nodes send LEAVE to each parent and `tree goodbye` to each child, which waits
    (cause `parent left`) and sends its JOIN in the same round; to dead or departing nodes lost.
    All LEAVEs and goodbyes come before all hand-overs.

Roots
15. *newLeafs* (3a) is looked at in every round by whoever has a copy of a group's state, root or
    replica; its *rank* is the number of nodes in its leaf set, as it is, nearer to the groupId. A
    copy names the root (node and incarnation: the round of its last arrival or recovery). At once:
    a root of rank > 0 sends the state to the nearest leaf, and if that is alive it becomes the root
    and the old one waits (cause `hand-over`; in 3e its JOIN reaches the new one; if it is not
    member and has no child it leaves); a replica of rank > 0 whose named root is not in its leaf
    set in that incarnation sends its copy to the nearest leaf. A receiver keeps the newest by
    (epoch, version); of equals what it has, else that of the sender nearest to the groupId. Then
    all with a copy and rank 0 become roots. Then roots send to the k - 1 nearest of their leaf sets
    that have not the same state and name the same root (which a root knows of its leaves: only the
    sending is counted, kind `replica`; one to a dead leaf is lost and sent again in the next round;
    leaves that are roots themselves or have a newer state are passed over; several roots of a group
    do so in the order of nodeIds). Then replicas of rank >= k say so to the root that they name
    (kind `replica goodbye`), and drop their copy if it is alive to hear it: it is the root, or has
    handed over. Where it has died, undetected, those that are nearer may be newcomers to whom
    nobody has given a copy, and k of them would push out all copies (III.B.1: the state is at "the
    k closest nodes", so that it outlives the root). One whose named root is gone from the leaf set,
    or is back without its state, drops its copy when it has passed it on to a live leaf in this
    round. k <= l/2 is required: so a node sees all that are nearer. New roots and changed states
    are sent at once (3i, 4c). A departing root gives its state to the nearest live leaf, asked in
    order of nearness.
16. *Becoming root* also happens where Pastry delivers a JOIN or MULTICAST at a node with a copy.
    Such a node sends LEAVE to its parent, if it has one. If it has ever sent a JOIN since it
    entered the tree, its repairing JOIN is delivered at itself: faultHandler, then joinHandler
    with itself as the child (no entry is made). So does a root that gets a newer state (two roots
    of a broken ring meet again). CREATE: of several for a group in a round the
    creator with the least nodeId is first; where there is a copy it is refused; undeliverable
    ones are lost (`CREATE lost`), not sent again. A CREATE that reaches a newcomer before the
    death of the old root is detected (so that no replica has told it) makes a new epoch: the
    newer state wins, and the older one is gone.
    *Lost*: no live node has a copy after 3a.

Upcalls
17. joinHandler is called when the round's JOINs are all answered, for the children that are still
    there; all at once (superstep 0). It may send messages to that child and questions (JOINs with
    an extra, cause `ask`, number unchanged) to the own parent; of several questions of a node and
    group in a superstep the least is sent, and joinHandler is called for it at the parent.
    Messages go down through forwardHandler like payloads; in a superstep these come before the
    questions, those for one node by their least number. Transmissions count as `retransmission`,
    one for each publication, at least one. forwardHandler is called at every node that takes a
    message, children or not, and says which child gets what. faultHandler is called for each JOIN
    of a node that has sent one before since it entered the tree. Extras are integers; a new
    forwarder's JOIN carries the least of those of the JOINs that made it one.
18. *Reliable delivery* (`reliable`). Numbers are (epoch << 32) + 1, 2, ... in the order of rounds,
    then nodeIds of the sources; what was kept (24) comes in the round in which a root takes it,
    before what was published later. The application's state at the root, and so at the replicas, is
    the last number and the messages in the root's buffer that lead up to it without a gap: with
    numbers alone a message that some subtree has missed would be lost with the root. A node has
    `last` (all up to there was had), a buffer, and for each child up to where it was served. The
    buffer has room for B numbers, those that end with the largest that the node has had; an older
    message finds no room, and of two with one number the later one stays. A JOIN of a new member
    carries nothing and is answered by an empty retransmission that says where it begins (its user
    gets no publication of a round before its join, should the parent itself lag); a repairing one
    carries min(last, what its children still need). A parent that has not got what a child needs
    asks its own parent, unless its own JOIN of this round asked for as much. What is published
    while a member's first JOIN waits for its answer is lost for it: it has no number to begin with.
    What nobody keeps any more is given up: by a retransmission's start, or when the number of what
    is missing is too old for the buffer. Two roots at once (only on a broken ring) give the same
    numbers to different messages: then some are lost. What is remembered of a child is forgotten
    when that dies: it has to join again, which says anew up to where it is served.

Sources
19. A publication is (round, group, source), at most one a round. A root sends nothing to itself;
    else the source sends to the address that it keeps: if that node is dead the message is lost
    and routed from the source; if it is alive but (before any routing of this round) no root, it
    is routed from there (NGC 3.1). One that was routed is answered by the root's address (kind
    `address`, not if the source is the root). Undeliverable or delivered where there is no copy:
    fate `no root`, nobody gets it, and the address is forgotten. The root refuses what the list
    does not permit (fate `refused`; the address is not kept). All of a round start down the
    trees together, a root's by nodeId of the source; the source gets its own if it is a member.

Measures
20. *Expected* are the members at the end of each round from the publication to the deadline (or
    the last round), waiting ones and the source too; delivered in the round: in time; up to the
    deadline: late; else lost. Refused publications are left out, those without root are not;
    those that died with their source before a root had taken them are left out, too, and counted
    by their fate: nobody but the source has ever had them. A publication that is sent again counts
    from the round in which it was published: late at best. Its *fate* is the last one.
    *Duplicates*: payloads taken up to the deadline by a member that has had the publication.
21. *Orphans*: in the tree at the end of a round, not root, and no live node is both its parent
    and has it as a child. *Causes* of JOINs: `state.CAUSES` and `ask`; every JOIN that is sent is
    counted, again in each round in which it waits; `root failed` if the suspected parent was root
    when it died. *Rounds until repaired* of a node that died in r with children: the first round
    at whose end all of them that are still in the tree are reached from a root, less r.
22. *Messages*: CREATE, JOIN, MULTICAST (source to root), address, payload (tree edges),
    retransmission, LEAVE, tree goodbye, heartbeat, refresh, replica, drop child; `lost <kind>`
    are those of them that met a dead node. Refused is counted apart: CREATE, JOIN, MULTICAST,
    payload, refresh, no group (JOINs). A JOIN *repairs* if its cause is `parent failed` or `root
    failed`, or if it is the own JOIN of a node that became a forwarder by one that repairs; all
    nodes that it was at take part in the repair.
23. *Settings* (`groups.Settings`): times at least 1, child_timeout > refresh, 1 <= k <= l/2.

Sources of reliable delivery
24. *Kept publications.* JSAC III.B: "Scribe provides only best-effort delivery", and III.B.2 makes
    it reliable from the root on, which numbers messages; nothing there helps a message that finds
    no root, since the old one has failed and the new one is not known yet. Where an application
    acknowledges (`Application.acknowledged`), a source therefore keeps a publication until the
    root has answered it, and sends all that it keeps again in the next round, as 19 has it; its
    name (round, group, source) stays, which is its number at the source. Fates: `kept` in each
    round in which it stays with the source; `no root` when it is given up, `deadline` rounds after
    it was published, by when it counts as lost; `source died`, in the round of that death. A group
    that is lost ends so, or takes what is kept when it is created again before.
    *A root takes* a publication only if one of its k - 1 nearest leaves has its state already (or
    k = 1, or it has no leaf): so one will have the number, and what it is the number of, by the end
    of the round (4c). Roots that are new send replicas before (4a). Then, in 4c, it sends
    `acknowledgement` to the source, if that is another node; also to one that it refuses. A
    publication that is numbered is therefore at a replica, and acknowledged, in the same round, in
    which nobody dies any more: none is numbered twice, and no root need remember whose publications
    it has numbered. (On a network the acknowledgement could be lost with the root; then the names
    in the group's state tell the next one what is numbered already.)
    All that a root takes in a round it takes by round of publication, then nodeId of the source:
    so those of a source stay in order.
"""
