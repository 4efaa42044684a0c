# The network of waku-org/research, rln-delay-simulations/shadow.yaml: one kind of link for all.  Its
# latency there is 100 ms; in the raw data of 2 KB, which is compared here, first copies are a whole
# number of steps of 80 ms old.
graph [
  directed 0
  node [
    id 0
    host_bandwidth_up "38 Mbit"
    host_bandwidth_down "83 Mbit"
  ]
  edge [
    source 0
    target 0
    latency "80 ms"
    packet_loss 0.0
  ]
]
