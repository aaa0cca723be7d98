// Reasons for dropped packets, one for each validation step, and the counters.

package core

import (
	"strconv"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Drop is the reason for a dropped packet, in step order (figure 117, IBA 9.8.1 [IBU-017]). The
// sender learns no reason; only the counters show the reasons.
type Drop uint8

// The reasons.
const (
	Accepted Drop = iota
	// Neither IPv4 without options and fragments nor IPv6; inconsistent lengths; not our address.
	DropNetwork
	DropICRC      // damaged
	DropMalformed // shorter than its headers, or its length is no multiple of 4
	DropVersion   // transport version
	DropQPN       // no such QP
	DropState     // the QP takes no packets in this state
	DropService   // opcode of another service
	DropAddress   // not from the QP's peer
	DropPKey
	DropQKey        // UD
	DropPSN         // not the expected PSN, and not the start of a message
	DropSequence    // the opcode cannot follow the previous packet's
	DropReserved    // reserved opcode
	DropUnsupported // the QP does not serve the operation
	DropNoReceive   // no receive is posted
	DropLength      // payload does not fit path MTU, pad, receive buffer or RETH
	DropAccess      // R_Key, rights, bounds

	drops = int(DropAccess) + 1
)

var dropNames = [drops]string{"accepted", "network header", "ICRC", "malformed", "transport version", "no such QP", "state of the QP", "service",
	"address", "P_Key", "Q_Key", "PSN", "opcode sequence", "reserved opcode", "operation not served", "no receive posted", "length", "R_Key"}

// String names the failed step.
func (d Drop) String() string {
	if int(d) < drops {
		return dropNames[d]
	}
	return "Drop(" + strconv.Itoa(int(d)) + ")"
}

// Counters counts the packets of a QP or port by outcome.
type Counters struct {
	Packets [drops]uint64 // by Drop; Packets[Accepted] counts the taken ones

	// Gaps counts packets with an unexpected PSN, dropped or the first of a message: packets
	// between were lost (IBA 9.8.2.2.1 [IBU-071]). Lost counts messages received only in part.
	Gaps, Lost uint64
	// Retransmissions counts rewinds to the oldest unacknowledged packet (IBA 9.7.8).
	Retransmissions uint64
}

// Dropped returns the number of packets dropped for reason d.
func (c Counters) Dropped(d Drop) uint64 { return c.Packets[d] }

// AddTo adds the decisions of the QP's mechanisms. It takes no lock.
func (qp *QP) AddTo(t rnic.DecisionTable) {
	t.Add("early_retransmit", qp.req.probing.tally.Counts())
	t.Add("reorder", qp.res.reorder.tally.Counts())
}

// maxViolations is the maximum of port management's 16-bit counters (IBA 9.6 [IBU-178]).
const maxViolations = 1<<16 - 1

// PKeyViolations returns the number of bad P_Keys for port management: it saturates at 65535.
func (c Counters) PKeyViolations() uint16 { return uint16(min(c.Packets[DropPKey], maxViolations)) }

// QKeyViolations returns the number of bad Q_Keys: it also saturates at 65535.
func (c Counters) QKeyViolations() uint16 { return uint16(min(c.Packets[DropQKey], maxViolations)) }

// add adds a QP's counters.
func (c *Counters) add(o *Counters) {
	for i, n := range o.Packets {
		c.Packets[i] += n
	}
	c.Gaps += o.Gaps
	c.Lost += o.Lost
	c.Retransmissions += o.Retransmissions
}
