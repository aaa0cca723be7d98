// What was dropped: the counters of all ports of this process, for those who watch it.

package roce

import (
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// A DropCount is how many packets were dropped for one reason.
type DropCount struct {
	Reason string // in words, such as "ICRC"
	Count  uint64
}

// Drops counts the packets that the ports of this process, and their connection managers, have
// dropped, with one DropCount for each reason, those that never occurred included. A count never
// falls: those of closed ports stay in it.
func Drops() []DropCount {
	sum := allCounts()
	return sum.list()
}

// Retransmissions is how often the queue pairs of this process have sent again what their peers had
// not acknowledged, each time all of it. Like those of Drops the count never falls.
func Retransmissions() uint64 {
	sum := allCounts()
	return sum.packets.Retransmissions
}

// allCounts sums the counts of all ports that there have been.
func allCounts() dropCounts {
	// The counters of a port are read without ports.mu, which is taken inside their locks
	// elsewhere. One that ends in the meantime is counted as it was seen here.
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

// A dropCounts is what became of the packets of one port, or of several.
type dropCounts struct {
	packets   core.Counters
	datagrams cm.Counters // to queue pair 1
}

func (t *port) dropCounts() dropCounts {
	return dropCounts{packets: t.core.Counters(), datagrams: t.control.counters()}
}

// leaveCounts keeps the counts of a port that has ended.
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
