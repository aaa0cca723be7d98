// Reasons for dropped datagrams, one for each check, and the counters.

package cm

import "strconv"

// A Drop is the reason for a dropped datagram. The sender learns the reason only from a refusal,
// counted in Counters.Refused.
type Drop uint8

// The reasons.
const (
	Accepted        Drop = iota
	DropKeys             // the packet's opcode, queue pair, P_Key or Q_Key is not the GSI's
	DropHeader           // length or base version
	DropClass            // class, method or class version is not communication management's
	DropAttribute        // unknown message
	DropMalformed        // inconsistent message
	DropUnknown          // no connection has the identifier
	DropAddress          // not from the connection's peer
	DropTransaction      // wrong transaction ID
	DropQPN              // DREQ for another queue pair
	DropState            // the connection's state does not permit it
	DropDuplicate        // nothing new, no answer due
	DropRefused          // a REQ or SIDR_REQ that cannot be served

	drops = int(DropRefused) + 1
)

var dropNames = [drops]string{"accepted", "keys", "header", "class", "attribute", "malformed", "no such connection", "address", "transaction",
	"queue pair", "state", "duplicate", "refused"}

func (d Drop) String() string {
	if int(d) < drops {
		return dropNames[d]
	}
	return "Drop(" + strconv.Itoa(int(d)) + ")"
}

// Counters counts a CM's datagrams and connections by outcome.
type Counters struct {
	Datagrams [drops]uint64 // received, by Drop; Datagrams[Accepted] counts the useful ones

	Sent     uint64 // datagrams, including repeated ones
	Repeated uint64 // subset of Sent
	Refused  uint64 // subset of Sent: stateless answers to dropped datagrams
	Withheld uint64 // not sent: unproven address, or over the limit

	Evicted uint64 // half-open connections replaced by newer ones
	Expired uint64 // connections that ended with ErrTimeout

	Established uint64 // completed connections
}

// Dropped returns the number of datagrams dropped for reason d.
func (c Counters) Dropped(d Drop) uint64 { return c.Datagrams[d] }
