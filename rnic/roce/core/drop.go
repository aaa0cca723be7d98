// Why packets are dropped: a reason for each step of validation, and the counters.

package core

import "strconv"

// A Drop is why a packet was dropped, in the order of the steps (figure 117, IBA 9.8.1 [IBU-017]).
// The sender is told of none; the counters are all that there is to see.
type Drop uint8

// The reasons.
const (
	Accepted      Drop = iota
	DropNetwork        // neither IPv4 without options and fragments nor IPv6; lengths that contradict each other; not our address
	DropICRC           // damaged
	DropMalformed      // shorter than its headers, or of a length that is no multiple of 4
	DropVersion        // transport version
	DropQPN            // no such QP
	DropState          // the QP takes no packets
	DropService        // opcode of another service than the QP's
	DropAddress        // not from the QP's peer
	DropPKey
	DropQKey        // UD
	DropPSN         // not the expected PSN, and no start of a message
	DropSequence    // the opcode cannot follow that of the packet before
	DropReserved    // reserved opcode
	DropUnsupported // the QP does not serve the operation
	DropNoReceive   // no receive is posted
	DropLength      // payload against path MTU, pad, receive buffer or RETH
	DropAccess      // R_Key, rights, bounds

	drops = int(DropAccess) + 1
)

var dropNames = [drops]string{"accepted", "network header", "ICRC", "malformed", "transport version", "no such QP", "state of the QP", "service",
	"address", "P_Key", "Q_Key", "PSN", "opcode sequence", "reserved opcode", "operation not served", "no receive posted", "length", "R_Key"}

// String is the step that failed.
func (d Drop) String() string {
	if int(d) < drops {
		return dropNames[d]
	}
	return "Drop(" + strconv.Itoa(int(d)) + ")"
}

// Counters is what became of packets, of a QP or of a port.
type Counters struct {
	Packets [drops]uint64 // by Drop; of Accepted those that were taken

	// Gaps is how often a PSN was not the one expected, whether the packet was dropped or began a
	// message: what was between is lost (IBA 9.8.2.2.1 [IBU-071]). Lost is messages of which a part
	// came.
	Gaps, Lost uint64
	// Retransmissions is how often all that a peer had not acknowledged was sent again (IBA 9.7.8).
	Retransmissions uint64
}

// Dropped is how many packets were dropped for reason d.
func (c Counters) Dropped(d Drop) uint64 { return c.Packets[d] }

// maxViolations is where the 16-bit counters of a port's management stay (IBA 9.6 [IBU-178]).
const maxViolations = 1<<16 - 1

// PKeyViolations is the bad P_Keys as port management counts them: it stops at 65535.
func (c Counters) PKeyViolations() uint16 { return uint16(min(c.Packets[DropPKey], maxViolations)) }

// QKeyViolations is the bad Q_Keys, which stop there too.
func (c Counters) QKeyViolations() uint16 { return uint16(min(c.Packets[DropQKey], maxViolations)) }

// add sums counters of QPs.
func (c *Counters) add(o *Counters) {
	for i, n := range o.Packets {
		c.Packets[i] += n
	}
	c.Gaps += o.Gaps
	c.Lost += o.Lost
	c.Retransmissions += o.Retransmissions
}
