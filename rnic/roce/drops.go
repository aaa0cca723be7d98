// Counters of dropped packets over all ports of this process, for monitoring.

package roce

import (
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// A DropCount is the number of packets dropped for one reason.
type DropCount struct {
	Reason string // readable, such as "ICRC"
	Count  uint64
}

// Drops returns the packets dropped by this process's ports and connection managers: one DropCount
// for each reason, including reasons that never occurred. Counts never decrease: they include the
// counts of closed ports.
func Drops() []DropCount {
	sum := allCounts()
	return sum.list()
}

// Retransmissions counts how often this process's queue pairs have gone back to their oldest
// unacknowledged packet. Like the counts of Drops the number never decreases.
func Retransmissions() uint64 {
	sum := allCounts()
	return sum.packets.Retransmissions
}

// allCounts sums the counts of all ports, open and closed.
func allCounts() dropCounts {
	// Read the ports' counters without ports.mu: elsewhere ports.mu is taken inside the ports'
	// locks. A port that ends meanwhile contributes the counts read here.
	ports.mu.Lock()
	sum := ports.ended
	all := make([]*port, 0, len(ports.all)+len(ports.ending))
	for _, t := range ports.all {
		all = append(all, t)
	}
	for t := range ports.ending {
		all = append(all, t)
	}
	ports.mu.Unlock()
	for _, t := range all {
		c := t.dropCounts()
		sum.add(&c)
	}
	return sum
}

// A dropCounts counts the packets of one or several ports by outcome.
type dropCounts struct {
	packets   core.Counters
	datagrams cm.Counters // to queue pair 1
}

func (t *port) dropCounts() dropCounts {
	return dropCounts{packets: t.core.Counters(), datagrams: t.control.counters()}
}

// leaveCounts adds an ended port's counts to ports.ended.
func (t *port) leaveCounts() {
	c := t.dropCounts()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	delete(ports.ending, t)
	ports.ended.add(&c)
}

func (c *dropCounts) add(o *dropCounts) {
	for i, n := range o.packets.Packets {
		c.packets.Packets[i] += n
	}
	c.packets.Retransmissions += o.packets.Retransmissions
	for i, n := range o.datagrams.Datagrams {
		c.datagrams.Datagrams[i] += n
	}
}

func (c *dropCounts) list() []DropCount {
	var list []DropCount
	for i, n := range c.packets.Packets {
		if d := core.Drop(i); d != core.Accepted {
			list = append(list, DropCount{Reason: d.String(), Count: n})
		}
	}
	for i, n := range c.datagrams.Datagrams {
		if d := cm.Drop(i); d != cm.Accepted {
			list = append(list, DropCount{Reason: "CM: " + d.String(), Count: n})
		}
	}
	return list
}
